"""What is wrong with disks of a Plan's guests on any arm, and which of them are folders, in memory or on a store.

A folder in memory has a size, and nothing else: writing takes as long as memory does, and no kernel counts what is done
there. A server keeps what it writes in a file of its own, so those of a guest have to fit into its folder together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.declaration import Platform
from virtlab.catalogue.disks import SERVICE, disk_faults, store_faults
from virtlab.catalogue.services.demand_server import DEMAND_SERVER
from virtlab.catalogue.workloads.request_response import REQUEST_RESPONSE
from virtlab.plan import Disk, Guest, Plan, Refusal

MOST_BYTES = 64 << 20  # of a server's file, before it is overwritten from its beginning
_KEYS = {
    "medium": "medium",
    "service": "service",
    "block_bytes": "block",
    "write_cache_bytes": "write_cache",
    "rate_byte_per_s": "rate",
    "latency_ns": "latency",
}  # of a Plan, and of a file
_OWN = {key: own for own, key in _KEYS.items()} | {"size": "size_bytes"}


def is_folder(guest: Guest) -> bool:
    """Whether a guest has a disk that is a folder in memory."""
    return guest.disk is not None and guest.disk.medium != SERVICE and _has_folder(guest)


def is_stored_folder(guest: Guest) -> bool:
    """Whether a guest has a disk that is a folder on a store."""
    return guest.disk is not None and guest.disk.medium == SERVICE and _has_folder(guest)


def _has_folder(guest: Guest) -> bool:
    platform = PLATFORMS.get(guest.platform)
    return platform is not None and platform.disk_is_folder


def counted(plan: Plan) -> list[str]:
    """Guests that have a disk of which operations, bytes and times are counted."""
    return [
        name for name, guest in plan.world.guests.items() if guest.disk is not None and not is_folder(guest)
    ]


def disk_mistakes(path: str, name: str, disk: Disk, platform: Platform, plan: Plan) -> Iterator[Refusal]:
    """Every one of a guest's disk, at `path`."""
    said = [key for own, key in _KEYS.items() if getattr(disk, own) != type(disk).model_fields[own].default]
    of_platform = list(disk_faults(platform, said, disk.size_bytes, disk.medium))
    of_store = store_faults(said, disk.block_bytes, on_store=disk.medium == SERVICE)
    for fault in of_platform or of_store:
        yield Refusal(f"{path}.{_OWN[fault.key]}" if fault.key else path, fault.what, fault.cure)
    if not platform.disk_is_folder:
        return
    files = [max(min(MOST_BYTES, disk.size_bytes), each) for each in _writes(plan, name)]
    if sum(files) > disk.size_bytes:
        reason = (
            f"files of the guest's servers ({len(files)}) have up to {sum(files)} B together, and its disk "
            f"{disk.size_bytes}"
        )
        yield Refusal(
            f"{path}.size_bytes",
            reason,
            f"write at least '{sum(files)} B', or put some of the servers into another guest",
        )


def _writes(plan: Plan, guest: str) -> Iterator[int]:
    """How much each server in a guest writes at once, of those that write."""
    servers: list[Mapping[str, object]] = [
        service.parameters
        for service in plan.world.services.values()
        if service.kind == DEMAND_SERVER.name and guest in service.on
    ]
    servers += [
        role.parameters
        for role in plan.roles.values()
        if role.workload == REQUEST_RESPONSE.name and role.to == guest and not role.parameters.get("service")
    ]
    for parameters in servers:
        if isinstance(at_once := parameters.get("write_bytes"), int) and at_once:
            yield at_once
