"""Disks that are folders: of namespaces, in a mount namespace of the guest, and of containers, which have one.

Where programs keep files across restarts, every process of the guest sees the same folder. The bytes are the machine's
memory, and the guest's where that is bounded; or they are on a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.disks import FOLDER
from virtlab.errors import MachineError
from virtlab.plan import Guest, Plan, Refusal
from virtlab.planner.guests.disks import is_folder
from virtlab.planner.guests.stores import guests_of
from virtlab.planner.mobility.copying import crossing, stored_disks
from virtlab.planner.mobility.moves import OVER, source_of
from virtlab.testbed.build.stored_disks import folder_refusals, folders_on_stores

SIMULATED = "run with '--backend simulator'"


def folders(plan: Plan) -> dict[str, int]:
    """Guest -> bytes of its disk, of those whose disk is a folder."""
    return {
        name: guest.disk.size_bytes
        for name, guest in plan.world.guests.items()
        if guest.disk is not None and is_folder(guest)
    }


def read_back(
    path: str, guest: Guest, seen: Mapping[str, Any], mounted: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The disk of a guest as its kernel has it. MachineError where it is not as planned.

    `mounted`: of one on a store, as the leader serves it.
    """
    assert guest.disk is not None, path
    has_bytes = seen["disk_bytes"]
    if has_bytes != guest.disk.size_bytes:
        has = "nothing" if has_bytes is None else f"{has_bytes} B"
        what = f"{FOLDER} holds {has} in the kernel, not {guest.disk.size_bytes} B as planned"
        raise MachineError(
            f"{path}.disk", what, "see whether this kernel mounts such a file system with a size"
        )
    if mounted is not None:
        of_store = {key: mounted[key] for key in ("service", "block_bytes")}
        return {"folder": FOLDER, "file_system": "fuse", "size_bytes": has_bytes, **of_store}
    return {"folder": FOLDER, "file_system": "tmpfs", "size_bytes": has_bytes}


def disk_refusals(plan: Plan, *, inside: bool = False) -> Iterator[Refusal]:
    """Disks that cannot be here, or that the memory of their guest or pool cannot hold."""
    found = folders(plan)
    yield from folder_refusals(plan, inside=inside)
    for name, disk in stored_disks(plan).items():
        yield from _out_of_reach(plan, name, str(disk.service))
    stored = folders_on_stores(plan)
    for name in (*found, *stored):
        # Elsewhere a container's runtime makes the folder in its own files.
        here = name in stored or PLATFORMS[plan.world.guests[name].platform].shares_files
        if here and not Path(FOLDER).is_dir():
            path = f"guests.{name}.disk"
            yield Refusal(path, f"this machine has no folder {FOLDER}", f"make it, or remove {path}")
    for name, size_bytes in found.items():
        guest, path = plan.world.guests[name], f"guests.{name}.disk.size_bytes"
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


def _out_of_reach(plan: Plan, name: str, service: str) -> Iterator[Refusal]:
    """Why the host of a guest cannot ask the store on which the guest's disk is, for it does that itself."""
    guest, path = plan.world.guests[name], f"guests.{name}.disk.medium"
    host, store = plan.world.hosts.get(guest.host), plan.world.services.get(service)
    if host is None or store is None:
        return  # which is said elsewhere
    if host.vnic is None:
        reason = f"{guest.host} has no address of its own from which it could ask '{service}'"
        yield Refusal(path, reason, f"give it a virtual switch and 'network' a larger pool, or {SIMULATED}")
        return
    if any(guest.host in {source_of(plan, action), action.to} for _, action in crossing(plan)):
        reason = f"guests are copied from or to {guest.host}, and '{service}' could reach the machine that waits there"
        yield Refusal(path, reason, f"write 'over: {OVER}' where they move, or {SIMULATED}")
    near = ip_interface(host.vnic.ip[0])
    for part in guests_of(store):
        vnics = plan.world.guests[part].vnics.values() if part in plan.world.guests else ()
        if not any(ip_interface(text).network == near.network for vnic in vnics for text in vnic.ip):
            reason = f"{part} of '{service}' is not in the network of {guest.host}, {near.network}"
            yield Refusal(path, reason, f"put both on one network, or {SIMULATED}")
            return


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.4g} MiB"
