"""Where containers are made: what they are made of, by paths of that place, and how their control groups are read
there.

A home is this machine, or another kernel that a laboratory booted: programs that were taken along lie elsewhere there,
its root file system cannot be pivoted away from, and its control groups are read by asking.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.kinds.capabilities import allowed
from virtlab.testbed.leader.memory_accounts import Account, accounts_for_swap, counts_processes
from virtlab.testbed.leader.process import agent_path

BESIDE = "/sys/fs/cgroup/unified"  # version 2, where version 1 has the controllers


@dataclass(frozen=True, slots=True)
class Home:
    """What a place offers. `version`: the runtime's own words; `before`: a shell's words before bundles are laid out.

    `swaps`: whether its kernel accounts for swap; `counts`: whether it bounds a group's processes; `patience`: how many
    times longer than here a container may take to start.
    """

    runtime: runtime.Runtime
    version: str
    agent: str
    busybox: Path | None
    capabilities: Callable[[], tuple[str, ...] | None]  # that root has there; None: all
    account: Callable[[str], Account]
    before: str = ""
    place: str | None = None  # the folder that bundles hide; None: one of this machine's that is found
    swaps: Callable[[], bool] = accounts_for_swap
    counts: Callable[[], bool] = counts_processes
    patience: int = 1


def here(wanted: str | None = None) -> Home:
    """This machine, with the runtime of that name. MachineError without one."""
    found = runtime.find(wanted)
    if found is None:
        raise MachineError("guests", str(runtime.missing(wanted)), runtime.cure(wanted))
    busybox: Path | None = None
    with contextlib.suppress(MachineError):
        busybox = find_busybox()
    # crun refuses a machine that has both versions of control groups: it is shown the first one only. podman may call
    # it.
    both = f"! grep -q ' {BESIDE} ' /proc/mounts || mount -t tmpfs virtlab {BESIDE} || exit; "
    return Home(
        found,
        runtime.version(found.path),
        str(agent_path()),
        busybox,
        lambda: allowed(Path("/proc/self/status").read_text(encoding="utf-8")),
        Account,
        both if found.name != "runc" else "",
    )
