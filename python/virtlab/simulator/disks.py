"""Disks of guests in the simulator: the model of `virtlab-disk` in virtual time, its counters and its samples.

What a server writes goes to the disk of its guest. A guest whose platform has no model of a disk has none here either,
and one whose disk is a folder in memory writes to that in no time, and nothing of it is counted: as on the testbed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from virtlab.catalogue.collected import GUEST_DISK, HOST_DISK
from virtlab.catalogue.disks import SERVICE
from virtlab.metrics.disks import disk_of, disks_of
from virtlab.plan import Plan, Refusal
from virtlab.planner.guests.disks import counted, is_folder
from virtlab.planner.mobility.copying import stored_disks
from virtlab.planner.mobility.moves import come
from virtlab.simulator.services import as_simulated

BUFFERED = "buffered"
# Linux writes in the background beyond a tenth of the memory that files can have, and holds writers up beyond a fifth
# (vm.dirty_background_ratio, vm.dirty_ratio). What a machine's kernel and its small system keep was read inside of two
# (nr_dirty_background_threshold of /proc/vmstat): 72.9 of 96 MiB, 77.7 of 256 MiB.
BACKGROUND_RATIO, LIMIT_RATIO = 0.1, 0.2
KERNEL_BYTES, KERNEL_RATIO = 70 << 20, 0.03
MEMORY_BYTES = 96 << 20  # of a virtual machine that says nothing

__all__ = ["counted", "disk", "disk_usage", "sampled_disks"]


def disk(plan: Plan, name: str) -> dict[str, Any]:
    """The simulator core's input for the disk of a guest; empty if the guest has none."""
    given = plan.world.guests[name].disk
    if given is None:
        return {}
    model = given.model_dump(mode="json", exclude={"medium", "service", "block_bytes"})
    named = {} if is_folder(plan.world.guests[name]) else {"name": disk_of(name)}
    return {"disk": {**named, "model": model, **_buffers(plan, name)}}


def _buffers(plan: Plan, name: str) -> dict[str, Any]:
    """Limits of the guest's write buffer; empty if no server buffers writes."""
    disk = plan.world.guests[name].disk
    if (
        disk is None
        or disk.medium == SERVICE
        or not any(_buffers_some(as_simulated(plan, role)) for role in plan.roles.values())
    ):
        return {}
    memory_bytes = plan.world.guests[name].memory_bytes or MEMORY_BYTES
    free = max(0.0, memory_bytes * (1 - KERNEL_RATIO) - KERNEL_BYTES)
    background, limit = (int(free * ratio) for ratio in (BACKGROUND_RATIO, LIMIT_RATIO))
    return {"buffers": {"background_bytes": background, "limit_bytes": limit}}


def _buffers_some(values: Mapping[str, Any]) -> bool:
    return bool(values.get("write_bytes")) and values.get("write_mode", BUFFERED) == BUFFERED


def refusals_of_buffers(plan: Plan) -> Iterator[Refusal]:
    """Servers that write to their guest's kernel, which would have to keep that until the store has answered."""
    disks = stored_disks(plan)
    for name, role in plan.roles.items():
        service = plan.world.services.get(str(role.parameters.get("service")))
        guests = (role.to,) if service is None else service.on
        on = next((guest for guest in guests if guest in disks), None)
        if on is not None and _buffers_some(as_simulated(plan, role)):
            path = f"roles.{name}" if service is None else f"services.{role.parameters['service']}"
            reason = f"what the kernel of {on} holds for a disk on a store is not modelled"
            yield Refusal(f"{path}.write_mode", reason, "write 'write_mode: fsync'")


def sampled_disks(plan: Plan) -> dict[str, int]:
    """Series of disks that the simulator has of a Plan, and how often each is sampled."""
    if not counted(plan):
        return {}
    found = {
        each.source: each.every_ns
        for each in plan.collect.series
        if each.source in (GUEST_DISK.name, HOST_DISK.name)
    }
    every_ns = plan.collect.telemetry_ns
    return ({GUEST_DISK.name: every_ns, HOST_DISK.name: every_ns} if every_ns else {}) | found


def disk_usage(plan: Plan) -> dict[str, Any]:
    """The simulator core's input for series of disks; empty if the Plan samples none."""
    places = {name: place for place, name in enumerate(plan.world.guests)}
    each_of = {GUEST_DISK.name: _of_guests, HOST_DISK.name: _of_hosts}
    usage = [
        {"every_ns": every_ns, "of": list(each_of[source](plan, places))}
        for source, every_ns in sampled_disks(plan).items()
    ]
    return {"disk_usage": usage} if usage else {}


def _of_guests(plan: Plan, places: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for name in counted(plan):
        yield {"entity": disk_of(name), "guests": [places[name]]}


def _of_hosts(plan: Plan, places: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for number, host in enumerate(plan.world.hosts):
        mine = [places[name] for name in counted(plan) if plan.world.guests[name].host == host]
        coming = [places[name] for name in come(plan, host) if name in counted(plan)]
        if mine or coming:
            arrivals = {"arrivals": coming} if coming else {}
            yield {"entity": disks_of(host), "guests": mine, "host": number, **arrivals}
