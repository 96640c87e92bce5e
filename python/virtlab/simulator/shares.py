"""What a Plan's processors and devices make of a profile's costs: who pays them where, when, and how often.

Nothing here is measured. A guest with a CPU quota works its costs off within its share of each period
(`processors/bandwidth.rs`). Guests with `pin` forward on the processor that the testbed would choose. Segments of TCP
cross a vNIC with offloads together, so that they pay for a packet once (`network/packets.rs`). A virtual switch asks
its rules for the first frame of each entry of its datapath (`costs/upcalls.rs`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from virtlab.catalogue import PLATFORMS, WORKLOADS
from virtlab.plan import Guest, Plan, Vnic
from virtlab.planner.check import QUOTA_PERIOD_NS
from virtlab.planner.guests.clusters import serving
from virtlab.simulator.services import as_simulated, works_itself

CUTTING_MODELS = frozenset({"e1000"})  # QEMU's cuts segments of TCP itself (hw/net/e1000.c: process_tx_desc)


def pinned(plan: Plan, processors: int) -> dict[str, int]:
    """Guest that forwards -> its processor, as the testbed chooses it: the last, or (`spread`) each another in turn.

    >>> from virtlab.plan import World
    >>> keys = {"platform": "any", "host": "h", "vnics": {}, "forwards": True, "pin": "spread"}
    >>> pinned(Plan(world=World(hosts={"h": {}}, guests={name: Guest(**keys) for name in ("r1", "r2", "r3")})), 2)
    {'r1': 1, 'r2': 0, 'r3': 1}
    """
    found: dict[str, int] = {}
    spread = 0
    for name, guest in plan.world.guests.items():
        if guest.pin == "none" or not (guest.forwards or guest.bridges):
            continue
        found[name] = processors - 1 - (spread % processors if guest.pin == "spread" else 0)
        spread += guest.pin == "spread"
    return found


def quota(guest: Guest) -> dict[str, Any]:
    """The simulator core's input for a guest's share of a processor; empty if the guest has no quota."""
    if guest.cpu_quota_ratio is None:
        return {}
    quota_ns = round(guest.cpu_quota_ratio * QUOTA_PERIOD_NS)
    return {"quota": {"quota_ns": quota_ns, "period_ns": QUOTA_PERIOD_NS}}


def working(plan: Plan) -> frozenset[str]:
    """Guests in which servers work off the demands of requests, and programs their own."""
    own = frozenset(str(role.from_) for role in plan.roles.values() if works_itself(role))
    return own | frozenset(
        guest
        for role in plan.roles.values()
        if (kind := WORKLOADS.get(role.workload)) is not None and kind.works(as_simulated(plan, role))
        for guest in serving(plan, role)
    )


def processors(guest: Guest) -> float | None:
    """How many processors what works in a guest shares; None where the Plan does not say.

    A quota counts as a part of a processor at all times, whatever its period.

    >>> machine = Guest(platform="any", host="h", vnics={}, vcpus=2)
    >>> processors(machine), processors(machine.model_copy(update={"cpu_quota_ratio": 0.5}))
    (2.0, 0.5)
    """
    given = [float(each) for each in (own_vcpus(guest), guest.cpu_quota_ratio) if each is not None]
    return min(given, default=None)


def own_vcpus(guest: Guest) -> int | None:
    """The virtual processors of a machine; None of a guest that has as many as threads work in it."""
    platform = PLATFORMS.get(guest.platform)
    return guest.vcpus if platform is None else platform.vcpus(guest.vcpus)


def together(vnic: Vnic) -> dict[str, bool]:
    """Whether segments of TCP cross a vNIC as one."""
    if vnic.offloads == "off" or vnic.model in CUTTING_MODELS:
        return {}
    return {"together": True}


def upcall_costs(plan: Plan, value: Callable[[str], float]) -> dict[str, Any]:
    """What virtual switches do with a frame that their datapath has no entry for; none where that costs nothing
    anywhere.
    """
    found = [
        {
            "upcall_ns": round(value(f"vswitch.{each.kind}.upcall_ns")),
            "own": each.parameters.get("flow_entries") == "own",
        }
        for each in plan.world.vswitches.values()
    ]
    if not any(each["upcall_ns"] for each in found):
        return {}
    return {"asking": [each if each["upcall_ns"] else None for each in found]}
