"""Why guests and pools cannot have the swap that a file gives them, found before anything is built.

How much a group has of swap is the kernel's to bound: with control groups of version 2 (`memory.swap.max`), and of
version 1 where it accounts for swap (`memory.memsw.limit_in_bytes`). The swap itself is the machine's.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.plan import Plan, Refusal
from virtlab.planner.guests.swap import swapping

MIB = 1 << 20


def swap_refusals(plan: Plan, has_bytes: int, *, accounts: bool, inside: str | None) -> Iterator[Refusal]:
    """`has_bytes`: the machine's swap; `accounts`: whether its kernel bounds what a group has of it."""
    wanted = swapping(plan)
    if not wanted:
        return
    largest = max(wanted, key=lambda path: wanted[path])
    if inside is not None:
        yield Refusal(
            f"{largest}.swap_bytes", f"there is no swap inside {inside}", "remove 'swap', or leave out --in"
        )
    elif not accounts:
        reason = "this kernel does not bound what a control group has of swap"
        cure = "boot it with 'swapaccount=1' or control groups of version 2, or remove 'swap'"
        yield Refusal(f"{largest}.swap_bytes", reason, cure)
    elif sum(wanted.values()) > has_bytes:
        together = f"{sum(wanted.values()) / MIB:.4g} MiB"
        has = f"{has_bytes / MIB:.4g} MiB" if has_bytes else "none"
        reason = f"pools and guests may have {together} of swap together, and this machine has {has}"
        cure = "add some (mkswap, swapon), or lower or remove 'swap'"
        yield Refusal(f"{largest}.swap_bytes", reason, cure)
