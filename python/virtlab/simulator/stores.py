"""Distributed stores in the simulator: where their nodes and proxies are.

A store that no role asks has nothing to do, and is left out. Its peers speak under the addresses under which a client
reaches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.plan import Plan
from virtlab.plan.seeds import service_seed
from virtlab.planner.ends import RoleEnd
from virtlab.planner.stores import asking, guests_of, is_store, peer_parameters, reached


def stores(plan: Plan, places: Mapping[tuple[str, str], int], seed: int) -> dict[str, Any]:
    """The core's words for stores; nothing of a Plan without. `places`: of vNICs, by guest and name."""
    found = []
    for name, service in plan.world.services.items():
        role = next(iter(asking(plan, name).values()), None)
        if is_store(service) and role is not None:
            ends = [
                _end(end, places, service_seed(seed, name, guest))
                for guest in guests_of(service)
                if (end := reached(plan, role, guest)) is not None
            ]
            nodes = len(service.on)
            found.append(
                {
                    "service": name,
                    "nodes": ends[:nodes],
                    "proxies": ends[nodes:],
                    "parameters": peer_parameters(service),
                }
            )
    return {"stores": found} if found else {}


def _end(end: RoleEnd, places: Mapping[tuple[str, str], int], seed: int) -> dict[str, Any]:
    address = None if end.address is None else str(end.address.ip)
    return {"vnic": places[end.guest, end.vnic], "address": address, "seed": seed}
