"""`dirty`: pages of memory that a guest wrote, counted per interval by the writer itself.

An interval counts if it begins in the window. Rates are per interval by the guest's clock.
"""

from __future__ import annotations

from virtlab.analysis.context import RoleContext
from virtlab.units import PAGE_BYTES

NOTHING = "no interval was recorded in the window"


def values(context: RoleContext) -> None:
    """The rate of writes, how many there were, and which share of them was passed over."""
    out = context.out
    rows = context.samples("memory/1", "begin_ns")
    lasts_ns = rows["end_ns"] - rows["begin_ns"]
    written, missed = int(rows["written_pages"].sum()), int(rows["missed_pages"].sum())
    count, due = int(lasts_ns.size), written + missed
    if not count:
        for metric in ("written_rate", "written_pages", "missed_pages"):
            out.absent(metric, NOTHING)
        return
    whole = lasts_ns > 0
    out.distribution("written_rate", rows["written_pages"][whole] * PAGE_BYTES / (lasts_ns[whole] / 1e9))
    out.add("written_pages", "total", written, count)
    out.add("missed_pages", "ratio", missed / due if due else None, due, "no page was due")
    out.add("missed_pages", "count", missed, due)
