"""Real-time priority of roles that measure delay: beside busy neighbours their threads run as soon as a packet is due.

A probe sleeps between its packets. Where a neighbour computes, the kernel's fair scheduler lets that neighbour end its
slice first, so the probe sends late, the run is tainted and has to be repeated. Under SCHED_FIFO the probe runs at once,
and takes from its neighbours no more than its packets cost.

A thread with the priority must sleep most of the time, because nothing else runs on its processor meanwhile. So it is for
roles whose rate of packets is known and small, in guests whose processors nothing bounds: a quota of the fair scheduler
does not hold such threads, and in a pool the contention is what is measured. The agent takes the priority back from a
probe that uses most of a processor all the same.
"""

from __future__ import annotations

from virtlab.catalogue import PLATFORMS, WORKLOADS
from virtlab.plan import Guest, Plan, Role

FIFO_PRIORITY = 1  # the soft switch, which all wait for, stands above (`build.world`)
PACKETS_PER_S_MAX = 20_000  # about a tenth of a processor


def fifo_priority(plan: Plan, role: Role, guest: str) -> int | None:
    """What the threads of a role in one of its guests get, if this machine lets them; None: they are scheduled as others."""
    packets_per_s = WORKLOADS[role.workload].packets_per_s
    if packets_per_s is None or role.parameters.get("meter", "virtlab") != "virtlab":
        return None
    if packets_per_s(WORKLOADS[role.workload].complete(role.parameters)) > PACKETS_PER_S_MAX:
        return None
    return FIFO_PRIORITY if _is_unbounded(plan.world.guests[guest]) else None


def condition(*, above: bool) -> str:
    """As a run's conditions say it: which probes may stand above other processes.

    >>> condition(above=True), condition(above=False)
    ('SCHED_FIFO 1 (burst_load, rtt)', 'none')
    """
    names = sorted(name for name, workload in WORKLOADS.items() if workload.packets_per_s is not None)
    return f"SCHED_FIFO {FIFO_PRIORITY} ({', '.join(names)})" if above else "none"


def _is_unbounded(guest: Guest) -> bool:
    """Whether threads of it may stand above others: nothing shares its processors out, and none of its threads polls."""
    return (
        PLATFORMS[guest.platform].is_stack
        and guest.cpu_quota_ratio is None
        and guest.pool is None
        and guest.idle == "sleep"
    )
