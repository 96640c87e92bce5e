"""What every probe says of itself: stalls, receive-buffer drops, send errors."""

from __future__ import annotations

from virtlab.analysis.context import RoleContext

# A metric and the counters that add up to it. While a process stands still, its threads stall: that is not counted
# twice.
COUNTED = {
    "stalls": ("stalls", "answer_stalls"), "socket_drops": ("socket_drops",), "send_errors": ("send_errors",),
}  # fmt: skip
LONGEST = ("stall_max_ns", "answer_stall_max_ns", "standstill_max_ns")
NOT_COUNTED = "the probe reported no such counter"


def values(context: RoleContext) -> None:
    """Counters of the role's own health."""
    counters, out = context.counters, context.out
    for metric, names in COUNTED.items():
        found = [counters[name] for name in names if name in counters]
        if found:
            out.add(metric, "count", sum(found), 1)
        else:
            out.absent(metric, NOT_COUNTED)
    longest = [counters[name] for name in LONGEST if name in counters]
    if longest:
        out.add("stall", "max", max(longest), 1)
    else:
        out.absent("stall", NOT_COUNTED)
