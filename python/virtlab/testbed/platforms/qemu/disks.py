"""Disks of virtual machines: served by the leader over a descriptor, and what of them is refused beforehand.

A disk in memory is a file of the kernel without a name, one on a file is in a folder for temporary files that keeps them
over a restart, without a name as well: either ends with the leader.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from ipaddress import ip_interface
from typing import Any

from virtlab.catalogue.disks import SERVICE
from virtlab.catalogue.services.store import MULTICAST
from virtlab.metrics.disks import disk_of, disks_of
from virtlab.plan import Disk, Guest, Plan, Refusal, Service
from virtlab.planner.guests.stored_disks import as_roles
from virtlab.planner.guests.stores import clients, guests_of, peer_parameters, reached
from virtlab.planner.mobility.copying import stored_disks
from virtlab.planner.mobility.moves import mirrors
from virtlab.testbed.build.pools import TOGETHER
from virtlab.testbed.steps.names import host_namespace

FOLDER = "/var/tmp"  # noqa: S108 - for what has no name there


def disk_entity(guest: str) -> str:
    """What the leader calls the disk of a guest, which is no network."""
    return f"{TOGETHER}{disk_of(guest)}"


def served_disk(name: str, guest: Guest, plan: Plan | None = None) -> dict[str, Any]:
    """The descriptor of a guest's disk, as the leader makes it; of one on a store its Plan is needed."""
    assert guest.disk is not None, name
    if guest.disk.medium == SERVICE:
        assert plan is not None, name
        return {"kind": "disk", "disk": _on_store(name, guest, plan)}
    model = guest.disk.model_dump(mode="json", exclude={"medium", "service", "block_bytes"})
    wanted = {"name": disk_entity(name), "together": f"{TOGETHER}{disks_of(guest.host)}", "model": model}
    return {"kind": "disk", "disk": wanted | ({"folder": FOLDER} if guest.disk.medium == "file" else {})}


def intended_disk(disk: Disk) -> dict[str, Any]:
    """A disk as what serves it has it."""
    of_model = {"write_cache_bytes", "rate_byte_per_s", "latency_ns"}
    of_store = {"service", "block_bytes"}
    return disk.model_dump(mode="json", exclude=of_model if disk.medium == SERVICE else of_store)


def _on_store(name: str, guest: Guest, plan: Plan) -> dict[str, Any]:
    """The store's client, in the network of the guest's host, and whom it asks."""
    disk, own = guest.disk, plan.world.hosts[guest.host].vnic
    assert disk is not None, name
    assert own is not None, name
    asked = {
        "number": list(stored_disks(plan)).index(name), "network": host_namespace(guest.host),
        "local": str(ip_interface(own.ip[0]).ip), "port": plan.world.services[str(disk.service)].ready.port,  # type: ignore[union-attr]
        "asked": _asked(plan, name, disk),
    }  # fmt: skip
    return {
        "name": disk_entity(name), "together": f"{TOGETHER}{disks_of(guest.host)}", **asked,
        "size_bytes": disk.size_bytes, "service": disk.service, "block_bytes": disk.block_bytes,
    }  # fmt: skip


def _asked(plan: Plan, guest: str, disk: Disk) -> dict[str, Any]:
    """What the client of a guest's disk has to know of its store."""
    own = str(disk.service)
    service = plan.world.services[own]
    role = as_roles(plan, own)[guest]
    ends = [reached(plan, role, part) for part in guests_of(service)]
    place = list(clients(plan, own)).index(f"guests.{guest}.disk")
    return {
        "me": len(ends) + place, "nodes": len(service.on), "folder": 0, "parameters": peer_parameters(service),
        "peers": [str(end.address.ip) for end in ends if end is not None and end.address is not None],
        **asking_group(own, service),
    }  # fmt: skip


def asking_group(name: str, service: Service) -> dict[str, str]:
    """To which questions for all nodes go: an address of the store's name, below those of one organisation (RFC 2365)."""
    if peer_parameters(service)["lookup"] != MULTICAST:
        return {}
    number = zlib.crc32(name.encode()) % 0xFFFE + 1
    return {"group": f"239.192.{number >> 8}.{number & 255}"}


def joined_disk(name: str, host: str) -> dict[str, Any]:
    """The descriptor by which a second machine of a guest has its disk, which counts for that host once it runs there."""
    return {"kind": "disk", "disk": {"join": disk_entity(name), "together": f"{TOGETHER}{disks_of(host)}"}}


def mirrored_disk(name: str, guest: Guest, host: str) -> dict[str, Any]:
    """The descriptor of a disk at another host, to which a guest's own is copied, and which is that one then."""
    found = served_disk(name, guest)
    mine = {
        "name": f"{disk_entity(name)}, mirrored",
        "instead_of": disk_entity(name),
        "together": f"{TOGETHER}{disks_of(host)}",
    }
    return found | {"disk": found["disk"] | mine}


def disk_refusals(path: str, name: str, plan: Plan) -> Iterator[Refusal]:
    """Disks on files for which there is no room, all together: said of the largest."""
    wanted = {
        name: guest.disk.size_bytes * (2 if mirrors(plan, name) else 1)
        for name, guest in plan.world.guests.items()
        if guest.disk is not None and guest.disk.medium == "file"
    }
    largest = max(wanted, key=lambda each: wanted[each], default=None)
    if name != largest:
        return
    state = os.statvfs(FOLDER)
    free_bytes, together = state.f_bavail * state.f_frsize, sum(wanted.values())
    if together > free_bytes:
        reason = f"disks on files take {together / 2**30:.4g} GiB together, and {FOLDER} has {free_bytes / 2**30:.4g}"
        yield Refusal(f"{path}.disk.size_bytes", reason, "make room there, or the disks smaller")
