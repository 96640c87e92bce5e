"""How much of processors is used in the simulator, as series: of those that guests share, and of those that nodes and
proxies of a store have for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from virtlab.catalogue.collected import GUEST_CPU, HOST_CPU
from virtlab.plan import Guest, Plan
from virtlab.planner.mobility.moves import cpus_of_hosts, moves
from virtlab.simulator.pools import arrivals, in_pool, sharing_processors, vcpus
from virtlab.simulator.shares import own_vcpus, processors
from virtlab.simulator.stores import guests_with_processors


def sampled(plan: Plan) -> dict[str, int]:
    """Series that the simulator has of a Plan, and how often each is sampled."""
    shared = bool(in_pool(plan))
    sources = [GUEST_CPU.name] if shared or guests_with_processors(plan) else []
    sources += [HOST_CPU.name] if shared else []
    found = {each.source: each.every_ns for each in plan.collect.series if each.source in sources}
    every_ns = plan.collect.telemetry_ns
    return (dict.fromkeys(sources, every_ns) if every_ns else {}) | found


def usage(plan: Plan) -> dict[str, Any]:
    """The simulator core's input for series of processors; empty if the Plan samples none."""
    found = list(_usage(plan))
    return {"usage": found} if found else {}


def _usage(plan: Plan) -> Iterator[dict[str, Any]]:
    places = {name: place for place, name in enumerate(plan.world.guests)}
    worked = vcpus(plan)
    each_of = {GUEST_CPU.name: _of_guests, HOST_CPU.name: _of_hosts}
    for source, every_ns in sampled(plan).items():
        entities = list(each_of[source](plan, places, worked))
        if entities:
            yield {"every_ns": every_ns, "of": entities}


def _of_guests(
    plan: Plan, places: Mapping[str, int], worked: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    for place, pool in enumerate(sharing_processors(plan)):
        host = plan.world.hosts[pool.host].cpus
        of_host = {} if host is None else {"host_cpu_share": float(host)}
        working_in = [name for name in pool.guests if name in worked]
        for name in working_in:
            whole = may_use(plan.world.guests[name], pool.cpus)
            # Of hosts with other numbers of processors no one share is of the host where it is.
            alike = len(cpus_of_hosts(plan, name)) == 1
            metrics = {"cpu": 1.0, "cpu_share": whole, **(of_host if alike else {})}
            own = [places[name]]
            moving = {"arrivals": own} if name in moves(plan) else {}
            yield {"entity": f"guests.{name}", "guests": own, **moving, "pools": [], "metrics": metrics}
        coming = arrivals(pool, places, worked)
        if (working_in or coming) and pool.path.startswith("pools."):
            metrics = {"cpu": 1.0, "cpu_share": float(pool.cpus), **of_host}
            mine = [places[name] for name in working_in]
            yield {"entity": pool.path, "guests": mine, **coming, "pools": [place], "metrics": metrics}
    yield from _of_peers(plan, places)


def _of_peers(plan: Plan, places: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Entities of guests in which a store's node or proxy works, and no server that shares processors with others."""
    sharing = in_pool(plan)
    for name in guests_with_processors(plan):
        if name not in sharing:
            peers = [places[name]]
            yield {
                "entity": f"guests.{name}",
                "guests": [],
                "peers": peers,
                "pools": [],
                "metrics": {"cpu": 1.0},
            }


def may_use(guest: Guest, cpus: int) -> float:
    """What the share of a guest is of: of a machine its vCPUs, of any other guest the processors that it may use."""
    if (own := own_vcpus(guest)) is not None:
        return float(own)
    return min(float(cpus), processors(guest) or float(cpus))


def _of_hosts(plan: Plan, places: Mapping[str, int], worked: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    every = sharing_processors(plan)
    for name, host in plan.world.hosts.items():
        own = [(place, pool) for place, pool in enumerate(every) if pool.host == name]
        working_in = [guest for _, pool in own for guest in pool.guests if guest in worked]
        arriving = [places[guest] for _, pool in own for guest in pool.arrivals if guest in worked]
        if host.cpus is not None and (working_in or arriving):
            yield {
                "entity": f"hosts.{name}",
                "guests": [places[guest] for guest in working_in],
                **({"arrivals": arriving} if arriving else {}),
                "pools": [place for place, _ in own],
                "metrics": {"cpu": float(host.cpus)},
            }
