"""Real-time priority of roles that measure delay: beside busy neighbours their threads run as soon as a packet is due.

A probe sleeps between its packets. Where a neighbour computes, the kernel's fair scheduler lets that neighbour end its
slice first, so the probe sends late, the run is tainted and has to be repeated. Under SCHED_FIFO the probe runs at once,
and takes from its neighbours no more than its packets cost.

A thread with the priority must sleep most of the time, because nothing else runs on its processor meanwhile. So it is
for roles whose rate of packets is known, and small for all such roles together, in guests whose processors nothing
bounds: a quota of the fair scheduler does not hold such threads, and in a pool the contention is what is measured. The
agent takes the priority back from a probe that uses most of a processor all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from virtlab.catalogue import PLATFORMS, WORKLOADS
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
        rates = [rate for role in plan.roles.values() if (rate := _packets_per_s(role)) is not None]
        return cls(plan, machine and sum(rates) <= PACKETS_PER_S_MAX)

    def fifo(self, role: Role, guest: str) -> int | None:
        """What the threads of a role in one of its guests get; None: they are scheduled as others."""
        if not self.allowed or _packets_per_s(role) is None:
            return None
        return FIFO_PRIORITY if _is_unbounded(self.plan.world.guests[guest]) else None

    def condition(self) -> str:
        """As the run's conditions say it."""
        names = sorted(
            {role.workload for role in self.plan.roles.values() if _packets_per_s(role) is not None}
        )
        return f"SCHED_FIFO {FIFO_PRIORITY} ({', '.join(names)})" if self.allowed and names else "none"


def _packets_per_s(role: Role) -> float | None:
    """Of each end of a role; None where that is not known, or where another program measures."""
    workload = WORKLOADS.get(role.workload)
    if (
        workload is None
        or workload.packets_per_s is None
        or role.parameters.get("meter", "virtlab") != "virtlab"
    ):
        return None
    return workload.packets_per_s(workload.complete(role.parameters))


def _is_unbounded(guest: Guest) -> bool:
    """Whether threads of it may stand above others: nothing shares its processors out, and none of its threads polls."""
    return (
        PLATFORMS[guest.platform].is_stack
        and guest.cpu_quota_ratio is None
        and guest.pool is None
        and guest.idle == "sleep"
    )
