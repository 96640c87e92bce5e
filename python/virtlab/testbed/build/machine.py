"""What this machine has that lowering and refusals depend on, found out by trying, once per process."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from virtlab import __version__
from virtlab.agents.requests.leader import Apply, Spawn, TryQdiscs
from virtlab.catalogue import QDISCS
from virtlab.errors import MachineError, VirtlabError
from virtlab.testbed.image.initramfs import programs_of_machines
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.leader.process import Leader
from virtlab.testbed.steps.operations import NamespaceAdd, SysctlSet

OTHERS = ("fq", "ingress", "cls_u32", "cls_flower")  # of which the doctor tells, too
# `fifo` is the kernel's pfifo and bfifo.
KERNEL_QDISCS = (*(name for name, entry in QDISCS.items() if not entry.kernel.needs), *OTHERS)


def kernel() -> tuple[int, ...]:
    """Version of the running one: its first two numbers."""
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


@cache
def findings() -> Findings:
    """Tries: starts a world, and each queue discipline in a namespace of its own that is dropped at once."""
    has_ipv6 = Path("/proc/sys/net/ipv6").is_dir()
    filters = Path("/proc/sys/net/bridge").is_dir()
    root = os.geteuid() == 0
    try:
        with Leader.start() as leader:
            _set_values(leader)
            found = leader.control.call(TryQdiscs(list(KERNEL_QDISCS)))
            played = _switch_qdiscs(leader)
            return Findings(
                world=None,
                qdiscs=found["kinds"],
                root=not leader.rootless,
                has_ipv6=has_ipv6,
                filters_bridges=filters,
                switch_qdiscs=played,
                probe_workloads=workloads_of(leader.hello),
                small_system=programs_of_machines(),
            )
    except VirtlabError as error:
        reason = f"{error.where}: {error.what}" if error.where else error.what
        return Findings((reason, error.cure), {}, root, has_ipv6, filters)


def workloads_of(hello: Mapping[str, object]) -> tuple[str, ...] | None:
    """What probes of a leader play, as it says; None where it says nothing."""
    said = hello.get("workloads")
    return tuple(said) if isinstance(said, list) else None


def _set_values(leader: Leader) -> None:
    """Sets a value under /proc/sys of a network namespace, as every world does. MachineError where it cannot."""
    batch = [NamespaceAdd("trial:values"), SysctlSet("trial:values", "net/ipv4/ip_forward", "0")]
    try:
        leader.control.call(Apply([operation.json() for operation in batch]))
    except VirtlabError as error:
        raise MachineError(
            "",
            f"a network namespace of its own cannot set values: {error.what}",
            "start the container that this runs in with a writable /proc/sys: podman by '--security-opt unmask=ALL', "
            "docker by '--security-opt systempaths=unconfined'",
        ) from None


def _switch_qdiscs(leader: Leader) -> tuple[str, ...]:
    """The disciplines that the soft switch says it plays."""
    control = leader.control
    control.call(Apply([NamespaceAdd("trial:switch").json()]))
    control.call(Spawn(1, "switch", "trial:switch"))
    said = control.greet(1)["capabilities"]
    return tuple(word for word in said if word in QDISCS)


def versions(hello: Mapping[str, object] | None = None) -> dict[str, str]:
    """Versions of what builds and carries a world."""
    found = {"virtlab": __version__, "kernel": platform.release(), "python": platform.python_version()}
    if hello is not None:
        found["agent"] = str(hello.get("build", ""))
        found["agent_protocol"] = ".".join(str(part) for part in hello.get("protocol", []))  # type: ignore[attr-defined]
    return found


def fingerprint() -> dict[str, str]:
    """Machine, kernel and CPU, for the manifest."""
    model = ""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        pass
    return {
        **versions(),
        "machine": platform.machine(),
        "cpu": model,
        "cpus": str(len(os.sched_getaffinity(0))),
        "user": "root" if os.geteuid() == 0 else "ordinary user",
    }
