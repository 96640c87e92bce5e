"""Disks of guests whose blocks are objects of a store: which there are, how they ask it, and what no arm can play.

Nodes and proxies are reached at the addresses at which any client in the guest would reach them. In the simulator the
guest is the client, at its own vNIC; on the testbed its host is, at that of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue.actions import restarts_guest
from virtlab.catalogue.disks import store_fault
from virtlab.catalogue.services.store import PROXIES, STORE
from virtlab.plan import Plan, Refusal, Role, Service
from virtlab.planner.mobility.copying import stored_disks
from virtlab.planner.mobility.moves import moves


def as_roles(plan: Plan, service: str) -> dict[str, Role]:
    """By guest, each disk on a store as the role that would ask as it does: what one operation moves is a block."""
    nodes = plan.world.services[service].on
    return {
        guest: Role.model_validate(
            {
                "workload": STORE.whole, "from": guest, "to": nodes[0], "service": service,
                "object_bytes": disk.block_bytes,
            }
        )
        for guest, disk in stored_disks(plan, service).items()
    }  # fmt: skip


def stored_disk_mistakes(plan: Plan) -> Iterator[Refusal]:
    """Disks on what is no store, or whose guest moves or is reset."""
    kinds = {name: service.kind for name, service in plan.world.services.items()}
    parts = {name: _parts(each) for name, each in plan.world.services.items() if each.kind == STORE.name}
    found = stored_disks(plan)
    for guest, disk in found.items():
        path = f"guests.{guest}.disk"
        fault = store_fault(guest, str(disk.service), kinds, parts)
        if fault is not None:
            yield Refusal(f"{path}.{fault.key}", fault.what, fault.cure)
        if guest in moves(plan):
            reason = f"{guest} moves, and the client of a disk on a store does not move with it"
            yield Refusal(f"{path}.medium", reason, "write 'medium: memory', or let another guest move")
    for position, action in enumerate(plan.timeline):
        if restarts_guest(action.do) and action.guest in found:
            reason = (
                f"{action.guest} has a disk on a store, and what a reset leaves of its requests is unknown"
            )
            yield Refusal(
                f"timeline[{position}].guest", reason, "remove the reset, or write 'medium: memory'"
            )


def _parts(service: Service) -> tuple[str, ...]:
    """Nodes and proxies of a store."""
    return (*service.on, *service.parameters.get(PROXIES, ()))
