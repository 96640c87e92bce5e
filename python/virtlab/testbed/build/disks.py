"""Disks that are folders in memory: of namespaces, in a mount namespace of the guest, and of containers, which have one.

Where programs keep files across restarts, every process of the guest sees the same folder. The bytes are the machine's
memory, and the guest's where that is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from virtlab.catalogue import PLATFORMS
from virtlab.errors import MachineError
from virtlab.plan import Guest, Plan, Refusal
from virtlab.planner.guests.disks import is_folder
from virtlab.planner.guests.stored_disks import stored_disks

SIMULATED = "run with '--backend simulator'"
FOLDER = "/var/tmp"  # noqa: S108 - the guest's own


def folders(plan: Plan) -> dict[str, int]:
    """Guest -> bytes of its disk, of those whose disk is a folder."""
    return {
        name: guest.disk.size_bytes
        for name, guest in plan.world.guests.items()
        if guest.disk is not None and is_folder(guest)
    }


def read_back(path: str, guest: Guest, seen: Mapping[str, Any]) -> dict[str, Any]:
    """The disk of a guest as its kernel has it. MachineError where it is not as planned."""
    assert guest.disk is not None, path
    has_bytes = seen["disk_bytes"]
    if has_bytes != guest.disk.size_bytes:
        has = "nothing" if has_bytes is None else f"{has_bytes} B"
        what = f"{FOLDER} holds {has} in the kernel, not {guest.disk.size_bytes} B as planned"
        raise MachineError(f"{path}.disk", what, "see whether this kernel mounts tmpfs with a size")
    return {"folder": FOLDER, "file_system": "tmpfs", "size_bytes": has_bytes}


def disk_refusals(plan: Plan) -> Iterator[Refusal]:
    """Disks that cannot be here, or that the memory of their guest or pool cannot hold."""
    found = folders(plan)
    for name in stored_disks(plan):
        reason = "no machine of the testbed keeps the blocks of a disk as objects yet"
        yield Refusal(f"guests.{name}.disk.medium", reason, f"write 'medium: memory', or {SIMULATED}")
    for name, size_bytes in found.items():
        guest, path = plan.world.guests[name], f"guests.{name}.disk.size_bytes"
        if PLATFORMS[guest.platform].shares_files and not Path(FOLDER).is_dir():
            yield Refusal(
                f"guests.{name}.disk", f"this machine has no folder {FOLDER}", f"make it, or remove {path}"
            )
        if guest.memory_bytes is not None and size_bytes > guest.memory_bytes:
            reason = (
                f"a folder in memory of {_mib(size_bytes)} is part of its guest's {_mib(guest.memory_bytes)}"
            )
            yield Refusal(path, reason, "make it smaller, or give the guest more 'memory'")
    for pool, entry in plan.world.pools.items():
        together = sum(found[name] for name in found if plan.world.guests[name].pool == pool)
        if entry.memory_bytes is not None and together > entry.memory_bytes:
            reason = f"folders in memory of its guests have {_mib(together)} together, and it has {_mib(entry.memory_bytes)}"
            yield Refusal(
                f"pools.{pool}.memory_bytes", reason, "give the pool more, or make the disks smaller"
            )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.4g} MiB"
