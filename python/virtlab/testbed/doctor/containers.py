"""Whether containers can be run, by running one: a guest in a small world, opened for real and left again."""

from __future__ import annotations

import time
from collections.abc import Iterator

from virtlab.catalogue import DEFAULT_VSWITCH
from virtlab.catalogue.platforms.container import CONTAINER
from virtlab.errors import VirtlabError
from virtlab.plan import Plan, Unobserved
from virtlab.testbed.backend import Testbed
from virtlab.testbed.finding import Finding
from virtlab.testbed.kinds import container_runtime as runtime

GROUP = "containers"
NAME = CONTAINER.name


def examine() -> Iterator[Finding]:
    """One finding, and one of podman where that is here."""
    found = runtime.find()
    if found is None:
        yield Finding(NAME, GROUP, "no", str(runtime.missing()), runtime.cure())
    else:
        yield _tried(NAME, found, None)
    engine = runtime.find(runtime.PODMAN)
    if engine is not None and engine != found:
        yield _tried(f"{NAME}.{engine.name}", engine, engine.name)


def _tried(name: str, engine: runtime.Runtime, wanted: str | None) -> Finding:
    """The finding of a world with one container."""
    begin = time.monotonic()
    try:
        with Testbed().open(_plan(wanted), Unobserved()) as session:
            ready_s = time.monotonic() - begin
            guest = session.realised.objects["guests.a"]
    except VirtlabError as error:
        says = f"{engine.name} is there, a container does not start: {error}"
        return Finding(name, GROUP, "no", says, runtime.cure(wanted))
    bounded = guest.applied["control_group"] is not None
    values = {"runtime": runtime.version(engine.path), "ready_s": ready_s, "limits": bounded}
    says = f"{values['runtime']}: a world with one container is ready in {ready_s:.2f} s"
    if beneath := guest.read_back.get("oci_runtime"):
        says += f", by {beneath}"
    if bounded:
        return Finding(name, GROUP, "yes", says, values=values)
    says += "; an ordinary user's has no control group, so no limits and no account of its own"
    return Finding(name, GROUP, "limited", says, "run as root for 'cpu' and 'memory'", values=values)


def _plan(wanted: str | None) -> Plan:
    vnic = {"vswitch": "h.br", "mac": "02:00:00:00:00:01", "ip": ["10.0.0.1/24"]}
    world = {
        "hosts": {"h": {}},
        "guests": {"a": {"platform": NAME, "host": "h", "runtime": wanted, "vnics": {"eth0": vnic}}},
        "vswitches": {"h.br": {"kind": DEFAULT_VSWITCH, "host": "h"}},
    }
    return Plan.model_validate({"world": world})
