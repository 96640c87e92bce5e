"""What guests of a pool get of its processors against each other while they want more together than there is.

Where one guest of a pool has a weight, all have, so that what each gets is known: as much of the pool as its weight is
of the sum over those that want some, however many processors it has of its own.
"""

from __future__ import annotations

from virtlab.plan import Plan
from virtlab.planner.mobility.moves import pools_of_guests

WEIGHT = 100  # of a guest that says none beside one that does: the kernel's (cpu.weight)


def weights(plan: Plan) -> dict[str, int]:
    """Guest -> its weight in its pool, of pools in which some guest has one.

    >>> from virtlab.plan import Guest, Pool, World
    >>> a, b, c = (Guest(platform="any", host="h", vnics={}, pool=pool) for pool in ("h.p", "h.p", "h.q"))
    >>> guests = {"a": a.model_copy(update={"weight": 300}), "b": b, "c": c}
    >>> pools = {"h.p": Pool(host="h", cpus=1), "h.q": Pool(host="h", cpus=1)}
    >>> weights(Plan(world=World(hosts={"h": {}}, pools=pools, guests=guests)))
    {'a': 300, 'b': 100}
    """
    guests = plan.world.guests
    if all(guest.weight is None for guest in guests.values()):
        return {}
    pools = pools_of_guests(plan)
    weighed = {pool for name in pools if guests[name].weight is not None for pool in pools[name]}
    return {name: guests[name].weight or WEIGHT for name in guests if weighed & pools.get(name, set())}
