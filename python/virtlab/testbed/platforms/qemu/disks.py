"""Disks of virtual machines: served by the leader over a descriptor, and what of them is refused beforehand.

A disk in memory is a file of the kernel without a name, one on a file is in a folder for temporary files that keeps them
over a restart, without a name as well: either ends with the leader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from virtlab.metrics.disks import disk_of, disks_of
from virtlab.plan import Guest, Plan, Refusal
from virtlab.planner.mobility.moves import mirrors
from virtlab.testbed.build.pools import TOGETHER

FOLDER = "/var/tmp"  # noqa: S108 - for what has no name there


def disk_entity(guest: str) -> str:
    """What the leader calls the disk of a guest, which is no network."""
    return f"{TOGETHER}{disk_of(guest)}"


def served_disk(name: str, guest: Guest) -> dict[str, Any]:
    """The descriptor of a guest's disk, as the leader makes it."""
    assert guest.disk is not None, name
    model = guest.disk.model_dump(mode="json", exclude={"medium"})
    wanted = {"name": disk_entity(name), "together": f"{TOGETHER}{disks_of(guest.host)}", "model": model}
    return {"kind": "disk", "disk": wanted | ({"folder": FOLDER} if guest.disk.medium == "file" else {})}


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
