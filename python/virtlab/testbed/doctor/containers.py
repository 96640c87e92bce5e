"""Whether containers can be run, by running one: a guest in a small world, opened for real and left again."""

from __future__ import annotations

import time
from collections.abc import Iterator

from virtlab.errors import VirtlabError
from virtlab.plan import Plan
from virtlab.testbed.backend import Testbed
from virtlab.testbed.doctor.finding import Finding
from virtlab.testbed.platforms.container import runtime

GROUP = "containers"
NAME = "container"


class _Silent:
    def progress(self, what: str, done_ratio: float | None = None) -> None:
        """Not told to anybody."""

    def cancelled(self) -> bool:
        """Never: it takes a moment."""
        return False


def examine() -> Iterator[Finding]:
    """One finding."""
    found = runtime.find()
    if found is None:
        yield Finding(NAME, GROUP, "no", str(runtime.missing()), runtime.CURE)
        return
    begin = time.monotonic()
    try:
        with Testbed().open(_plan(), _Silent()) as session:
            ready_s = time.monotonic() - begin
            bounded = session.realised.objects["guests.a"].applied["control_group"] is not None
    except VirtlabError as error:
        yield Finding(
            NAME, GROUP, "no", f"{found.name} is there, a container does not start: {error}", runtime.CURE
        )
        return
    values = {"runtime": runtime.version(found.path), "ready_s": ready_s, "limits": bounded}
    says = f"{values['runtime']}: a world with one container is ready in {ready_s:.2f} s"
    if bounded:
        yield Finding(NAME, GROUP, "yes", says, values=values)
    else:
        says += "; an ordinary user's has no control group, so no limits and no account of its own"
        yield Finding(NAME, GROUP, "limited", says, "run as root for 'cpu' and 'memory'", values=values)


def _plan() -> Plan:
    vnic = {"vswitch": "h.br", "mac": "02:00:00:00:00:01", "ip": ["10.0.0.1/24"]}
    world = {
        "hosts": {"h": {}},
        "guests": {"a": {"platform": "container", "host": "h", "vnics": {"eth0": vnic}}},
        "vswitches": {"h.br": {"kind": "linux_bridge", "host": "h"}},
    }
    return Plan.model_validate({"world": world})
