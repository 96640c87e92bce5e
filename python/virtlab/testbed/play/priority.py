"""Real-time priority of roles that measure delay: beside busy neighbours their threads run as soon as a packet is due.

A probe sleeps between its packets. Where a neighbour computes, the kernel's fair scheduler lets that neighbour end its
slice first, so the probe sends late, the run is tainted and has to be repeated. Under SCHED_FIFO the probe runs at
once, and takes from its neighbours no more than its packets cost.

A thread with the priority must sleep most of the time, because nothing else runs on its processor meanwhile. So it is
for roles whose rate of packets is known, and small for all such roles together, in guests whose processors nothing
bounds: a quota of the fair scheduler does not hold such threads, and in a pool the contention is what is measured. What
counts is the highest rate that a search or the timeline sets. The agent takes the priority back from a probe that uses
most of a processor all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.catalogue import PLATFORMS, WORKLOADS
from virtlab.catalogue.actions import tunes_role
from virtlab.plan import Guest, Plan, Role

FIFO_PRIORITY = 1  # the soft switch, which all wait for, stands above (`build.world`)
PACKETS_PER_S_MAX = 20_000  # of all such roles, at each end: about a tenth of a processor


@dataclass(frozen=True, slots=True)
class Priorities:
    """Which roles of a Plan stand above other processes, where this machine lets them."""

    plan: Plan
    allowed: bool

    @classmethod
    def of(cls, plan: Plan, *, machine: bool) -> Priorities:
        """`machine`: whether its kernel grants such a priority."""
        return cls(plan, machine and sum(_all(plan).values()) <= PACKETS_PER_S_MAX)

    def fifo(self, name: str, parameters: Mapping[str, Any], guest: str) -> int | None:
        """What the threads of a role in one of its guests get; None: they are scheduled as others.

        `parameters` are those of a trial, which a search may have changed.
        """
        rates = _all(self.plan)
        if not self.allowed or name not in rates:
            return None
        rates[name] = max(rates[name], _packets_per_s(self.plan.roles[name], parameters) or 0.0)
        if sum(rates.values()) > PACKETS_PER_S_MAX:
            return None
        return FIFO_PRIORITY if _is_unbounded(self.plan.world.guests[guest]) else None

    def condition(self) -> str:
        """As the run's conditions say it."""
        names = sorted({self.plan.roles[name].workload for name in _all(self.plan)})
        return f"SCHED_FIFO {FIFO_PRIORITY} ({', '.join(names)})" if self.allowed and names else "none"


def _all(plan: Plan) -> dict[str, float]:
    """The most packets per second of each role of which that is known, whatever the timeline sets."""
    found = {}
    for name, role in plan.roles.items():
        later = [action.args for action in plan.timeline if tunes_role(action.do) and action.role == name]
        rates = [_packets_per_s(role, {**role.parameters, **args}) for args in ({}, *later)]
        if (known := [rate for rate in rates if rate is not None]) == rates:
            found[name] = max(known)
    return found


def _packets_per_s(role: Role, parameters: Mapping[str, Any]) -> float | None:
    """The packets per second of each end of a role; None where that is not known, or where another program measures."""
    workload = WORKLOADS.get(role.workload)
    if workload is None or workload.packets_per_s is None or parameters.get("meter", "virtlab") != "virtlab":
        return None
    return workload.packets_per_s(workload.complete(parameters))


def _is_unbounded(guest: Guest) -> bool:
    """Whether threads of it may stand above others: nothing shares its processors out, and none of its threads
    polls.
    """
    return (
        PLATFORMS[guest.platform].is_stack
        and guest.cpu_quota_ratio is None
        and guest.pool is None
        and guest.idle == "sleep"
    )
