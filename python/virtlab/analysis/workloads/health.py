"""What every probe says of itself: stalls, receive-buffer drops, send errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtlab.analysis.context import RoleContext

NOT_COUNTED = "the probe reported no such counter"


def values(context: RoleContext) -> None:
    """Counters of the role's own health."""
    counters, out = context.counters, context.out
    for metric in ("stalls", "socket_drops", "send_errors"):
        if metric in counters:
            out.add(metric, "count", counters[metric], 1)
        else:
            out.absent(metric, NOT_COUNTED)
    if "stall_max_ns" in counters:
        out.add("stall", "max", counters["stall_max_ns"], 1)
    else:
        out.absent("stall", NOT_COUNTED)
