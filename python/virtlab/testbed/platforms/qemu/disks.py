"""Disks of virtual machines: served by the leader over a descriptor, and what of them is refused beforehand.

A disk in memory is a file of the kernel without a name, one on a file is in a folder for temporary files that keeps
them over a restart, without a name as well: either ends with the leader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from virtlab.agents.requests.descriptors import DiskDescriptor
from virtlab.catalogue.disks import FILE, SERVICE
from virtlab.metrics.disks import disks_of
from virtlab.plan import Disk, Guest, Plan, Refusal
from virtlab.planner.mobility.moves import mirrors
from virtlab.testbed.build.pools import TOGETHER
from virtlab.testbed.build.stored_disks import disk_entity, on_store

FOLDER = "/var/tmp"  # noqa: S108 - for what has no name there


def served_disk(name: str, guest: Guest, plan: Plan | None = None) -> DiskDescriptor:
    """The descriptor of a guest's disk, as the leader makes it; of one on a store its Plan is needed."""
    assert guest.disk is not None, name
    if guest.disk.medium == SERVICE:
        assert plan is not None, name
        return DiskDescriptor(on_store(name, plan))
    model = guest.disk.model_dump(mode="json", exclude={"medium", "service", "block_bytes"})
    wanted = {"name": disk_entity(name), "together": f"{TOGETHER}{disks_of(guest.host)}", "model": model}
    return DiskDescriptor(wanted | ({"folder": FOLDER} if guest.disk.medium == FILE else {}))


def intended_disk(disk: Disk) -> dict[str, Any]:
    """A disk as what serves it has it."""
    of_model = {"write_cache_bytes", "rate_byte_per_s", "latency_ns"}
    of_store = {"service", "block_bytes"}
    return disk.model_dump(mode="json", exclude=of_model if disk.medium == SERVICE else of_store)


def joined_disk(name: str, host: str) -> DiskDescriptor:
    """The descriptor by which a second machine of a guest has its disk, which counts for that host once it runs
    there.
    """
    return DiskDescriptor({"join": disk_entity(name), "together": f"{TOGETHER}{disks_of(host)}"})


def mirrored_disk(name: str, guest: Guest, host: str) -> DiskDescriptor:
    """The descriptor of a disk at another host, to which a guest's own is copied, and which is that one then."""
    found = served_disk(name, guest)
    mine = {
        "name": f"{disk_entity(name)}, mirrored",
        "instead_of": disk_entity(name),
        "together": f"{TOGETHER}{disks_of(host)}",
    }
    return DiskDescriptor({**found.disk, **mine})


def disk_refusals(path: str, name: str, plan: Plan) -> Iterator[Refusal]:
    """Disks on files for which there is no room, all together: said of the largest."""
    wanted = {
        name: guest.disk.size_bytes * (2 if mirrors(plan, name) else 1)
        for name, guest in plan.world.guests.items()
        if guest.disk is not None and guest.disk.medium == FILE
    }
    largest = max(wanted, key=lambda each: wanted[each], default=None)
    if name != largest:
        return
    state = os.statvfs(FOLDER)
    free_bytes, together = state.f_bavail * state.f_frsize, sum(wanted.values())
    if together > free_bytes:
        reason = f"disks on files take {together / 2**30:.4g} GiB together, and {FOLDER} has {free_bytes / 2**30:.4g}"
        yield Refusal(f"{path}.disk.size_bytes", reason, "make room there, or the disks smaller")
