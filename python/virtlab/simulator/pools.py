"""Processors that guests share in the simulator: pools of hosts, and hosts with processors of their own.

M guests with V vCPUs each share P processors. V is a machine's `vcpus`; a namespace or container has as many as its
servers have threads. The core shares them out (`processors/pool.rs`): with A vCPUs active each works at the speed
min(1, P_eff / A), where P0 = P - c0 (V summed up over the guests) and P_eff = P0 (1 - e max(0, 1 - P0 / A)). A profile
says c0 (`platform.KIND.idle_vcpu_ratio`, processors per vCPU) and e (`pool.contention_ratio`); in the ideal one both
are 0. A guest that has nothing to work for takes no more than its idle vCPUs do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.costs import SIMULATED_AS
from virtlab.plan import Guest, Plan, Refusal
from virtlab.planner.guests.clusters import serving
from virtlab.planner.guests.weights import WEIGHT, weights
from virtlab.planner.mobility.moves import come, come_into, left_by_pools, pool_at
from virtlab.simulator.services import as_simulated, works_itself
from virtlab.simulator.shares import own_vcpus, processors, quota

CONTENTION = "pool.contention_ratio"
IDLE = "platform.{}.idle_vcpu_ratio"
REQUEST = "platform.{}.request_ns"
SLICE, SWITCH, CREDIT = "pool.slice_ns", "pool.switch_ns", "pool.credit_ns"
GROUPING = "pool.grouping_ratio"
SPIN, COMPLETION = "pool.spin_ns", "pool.completion_ns"


@dataclass(frozen=True, slots=True)
class Shared:
    """Processors that guests share: `path` of the pool in the Plan, or of the host whose own they are."""

    path: str
    host: str
    cpus: int
    guests: tuple[str, ...]
    arrivals: tuple[str, ...] = ()  # guests that are there once they have moved


def sharing_processors(plan: Plan) -> list[Shared]:
    """Whatever shares processors in a Plan: its pools, then what hosts with processors of their own have for guests in
    none.
    """
    guests = plan.world.guests.items()
    found = []
    for name, pool in plan.world.pools.items():
        inside = tuple(guest for guest, each in guests if each.pool == name)
        arrivals = tuple(come_into(plan, name))
        found.append(Shared(f"pools.{name}", pool.host, pool.cpus, inside, arrivals))
    return found + [each for each in _outside(plan) if each.cpus > 0]


def _outside(plan: Plan) -> Iterator[Shared]:
    """What the pools of each host with processors of its own leave to its guests in none."""
    for name in plan.world.hosts:
        guests = tuple(
            guest for guest, each in plan.world.guests.items() if each.host == name and each.pool is None
        )
        arrivals = tuple(guest for guest in come(plan, name) if pool_at(plan, guest, name) is None)
        left = left_by_pools(plan, name)
        if left is not None and (guests or arrivals):
            yield Shared(f"hosts.{name}", name, left, guests, arrivals)


def refusals_of_processors(plan: Plan) -> Iterator[Refusal]:
    """Hosts whose pools leave nothing to guests outside that work, and pools that have memory of their own."""
    for name, pool in plan.world.pools.items():
        if pool.memory_bytes is not None:
            reason = "what guests do when their memory is used up is not modelled"
            yield Refusal(
                f"pools.{name}.memory_bytes", reason, "remove 'memory', or run the file on the testbed"
            )
    worked = vcpus(plan)
    for each in _outside(plan):
        if each.cpus < 1 and (works := [name for name in each.guests if name in worked]):
            reason = f"its pools leave no processor to {', '.join(works)}"
            yield Refusal(f"{each.path}.cpus", reason, "write more, or put them into a pool")


def refusals_of_turns(plan: Plan, value: Callable[[str], float], profile: str) -> Iterator[Refusal]:
    """Options of vCPUs that take turns, where the profile has no `pool.slice_ns`: its other parameters, and weights."""
    if value(SLICE):
        return
    said = [name for name in (SWITCH, CREDIT, GROUPING) if value(name)]
    if said and in_pool(plan):
        reason = f"profile '{profile}' has {' and '.join(said)} without {SLICE}, so vCPUs take no turns"
        yield Refusal("pools", reason, f"add {SLICE}, e.g. 3000000, or remove the others")
    if (first := next((name for name in weights(plan) if name in in_pool(plan)), None)) is not None:
        reason = f"guests have time by weight where vCPUs take turns, and profile '{profile}' has no {SLICE}"
        cure = f"add {SLICE}, e.g. 3000000, to a profile (--profile), or remove 'weight'"
        yield Refusal(f"guests.{first}.weight", reason, cure)


def vcpus(plan: Plan) -> dict[str, float]:
    """Guest in which a server or a program works -> how many things can work in it at once."""
    return {name: _vcpus(plan.world.guests[name], count) for name, count in _threads(plan).items()}


def _threads(plan: Plan) -> dict[str, float]:
    """Guest in which a server or a program works -> threads of these."""
    threads: dict[str, dict[str, int]] = {}
    for name, role in plan.roles.items():
        kind = WORKLOADS.get(role.workload)
        values = as_simulated(plan, role)
        if works_itself(role):
            of_program = int(role.parameters[SIMULATED_AS].get("threads", 1))
            threads.setdefault(str(role.from_), {})[f"roles.{name}"] = of_program
        if kind is None or not kind.works(values):
            continue
        for guest in serving(plan, role):
            server = str(role.parameters.get("service", f"roles.{name}"))
            threads.setdefault(guest, {})[server] = int(kind.complete(values)["threads"])
    return {name: float(sum(servers.values())) for name, servers in threads.items()}


def _vcpus(guest: Guest, threads: float) -> float:
    own = processors(guest)
    if own is None:
        return threads
    return own if own_vcpus(guest) is not None else min(own, threads)


def pools(plan: Plan) -> dict[str, Any]:
    """The simulator core's input for processors that guests share; empty if the Plan has none."""
    places = {name: place for place, name in enumerate(plan.world.guests)}
    worked = vcpus(plan)
    lowered = [
        {
            "name": each.path,
            "processors": float(each.cpus),
            "guests": [places[name] for name in each.guests if name in worked],
            **arrivals(each, places, worked),
        }
        for each in sharing_processors(plan)
    ]
    return {"pools": lowered} if lowered else {}


def arrivals(pool: Shared, places: Mapping[str, int], worked: Mapping[str, float]) -> dict[str, list[int]]:
    """Places of guests that work and move there, if any do."""
    found = [places[name] for name in pool.arrivals if name in worked]
    return {"arrivals": found} if found else {}


def in_pool(plan: Plan) -> dict[str, float]:
    """Guests that share processors with others and in which servers work -> their vCPUs."""
    worked = vcpus(plan)
    return {name: worked[name] for each in sharing_processors(plan) for name in each.guests if name in worked}


def supplied(lowered: Mapping[str, Any], plan: Plan, value: Callable[[str], float]) -> dict[str, Any]:
    """The core's input with what a profile's values say of its pools, and of requests to servers that work."""
    lowered = (
        {**lowered, "guests": _with_requests(lowered["guests"], plan, value)}
        if "guests" in lowered
        else lowered
    )
    if "pools" not in lowered:
        return dict(lowered)
    working_on = vcpus(plan)
    given = []
    for pool, each in zip(lowered["pools"], sharing_processors(plan), strict=True):
        idle = sum(
            value(IDLE.format(plan.world.guests[name].platform)) * count
            for name in each.guests
            if (count := own_vcpus(plan.world.guests[name]) or working_on.get(name))
        )
        turns = _turns(plan, each, value)
        beside = {
            key: cost_ns
            for key, name in (("spin_ns", SPIN), ("completion_ns", COMPLETION))
            if (cost_ns := round(value(name)))
        }
        given.append({**pool, "idle": idle, "contention": min(1.0, value(CONTENTION)), **beside, **turns})
    return {**lowered, "pools": given}


def _turns(plan: Plan, pool: Shared, value: Callable[[str], float]) -> dict[str, Any]:
    """The simulator core's input for vCPUs that take turns; empty if the profile has no time slices."""
    if not (slice_ns := round(value(SLICE))):
        return {}
    threads, guests, weighed = _threads(plan), plan.world.guests, weights(plan)
    shares = [
        {
            "vcpus": own_vcpus(guests[name]) or int(threads[name]),
            **quota(guests[name]),
            **({"weight": weighed[name] / WEIGHT} if name in weighed else {}),
        }
        for name in (*pool.guests, *pool.arrivals)
        if name in threads
    ]
    found = {"slice_ns": slice_ns, "switch_ns": round(value(SWITCH)), "credit_ns": round(value(CREDIT))}
    # A weight is a guest's, however many vCPUs it has, as that of a control group is.
    grouping = 1.0 if weighed.keys() & {*pool.guests, *pool.arrivals} else min(1.0, value(GROUPING))
    return {"slices": {**found, "grouping": grouping, "shares": shares}}


def _with_requests(
    guests: Sequence[Mapping[str, Any]], plan: Plan, value: Callable[[str], float]
) -> list[Mapping[str, Any]]:
    """Guests as the core reads them, with what each request costs them beyond its demand."""
    cost = {
        platform: round(value(REQUEST.format(platform)))
        for platform in {guest.platform for guest in plan.world.guests.values()}
    }
    each = zip(guests, plan.world.guests.values(), strict=True)
    return [
        {**guest, "request_ns": cost_ns} if (cost_ns := cost[entry.platform]) else guest
        for guest, entry in each
    ]
