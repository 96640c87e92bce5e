"""Swap of guests and pools: what of their memory may be on disk while others need it. Pure.

Swap is of those whose memory is bounded: without a bound nothing of one guest is put there for the sake of another.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import PLATFORMS
from virtlab.plan import Plan, Refusal


def swap_mistakes(plan: Plan) -> Iterator[Refusal]:
    """Every one of guests and pools, on any arm."""
    for name, pool in plan.world.pools.items():
        if pool.swap_bytes is not None and pool.memory_bytes is None:
            reason = "its memory is not bounded, which swap needs"
            yield Refusal(f"pools.{name}.swap_bytes", reason, "write its 'memory', too")
    for name, guest in plan.world.guests.items():
        if guest.swap_bytes is None:
            continue
        path, platform = f"guests.{name}.swap_bytes", PLATFORMS.get(guest.platform)
        above = plan.world.pools.get(str(guest.pool))
        if platform is not None and "swap" not in platform.limits:
            reason = f"{guest.platform} guests have no swap limit of their own"
            yield Refusal(path, reason, "remove it, or write 'swap' at its pool")
        elif guest.memory_bytes is None:
            reason = "its memory is not bounded, which swap needs"
            yield Refusal(path, reason, "write its 'memory', too")
        elif (
            above is not None
            and above.memory_bytes is not None
            and guest.swap_bytes > (above.swap_bytes or 0)
        ):
            reason = f"{guest.swap_bytes} B of swap in a pool that has {above.swap_bytes or 0} B"
            yield Refusal(path, reason, "lower it, or give the pool more 'swap'")


def swapping(plan: Plan) -> dict[str, int]:
    """Path of whatever may have swap -> how much; of guests below a pool with memory it is the pool's."""
    pools, guests = plan.world.pools.items(), plan.world.guests.items()
    found = {f"pools.{name}": pool.swap_bytes for name, pool in pools if pool.swap_bytes is not None}
    for name, guest in guests:
        bounded_above = (
            guest.pool in plan.world.pools and plan.world.pools[guest.pool].memory_bytes is not None
        )
        if guest.swap_bytes is not None and not bounded_above:
            found[f"guests.{name}"] = guest.swap_bytes
    return found
