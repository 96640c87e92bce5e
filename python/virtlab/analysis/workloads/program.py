"""`program`: what the file declares of a program's output, and how long it ran.

The numbers that it printed were read when it ended, in the SI units of their metrics; here they are summed up.
"""

from __future__ import annotations

from virtlab.analysis.context import RoleContext
from virtlab.lazy import np

UNSAID = "a simulated guest runs no programs, and 'simulated_as' gave the metric no value"


def values(context: RoleContext) -> None:
    """The statistics of every declared metric."""
    out = context.out
    length_ns = context.window.length_ns if context.window.whole else None
    out.add("program_time", "total", length_ns, 1, "when it began and ended is not known")
    rows = context.samples("value/1", "t_ns") if context.has("value/1") else None
    simulated = context.record.backend == "simulator"
    for key in out.declared:
        if rows is None:
            out.absent(key, UNSAID if simulated else "nothing of its output was kept")
        else:
            mine = rows["metric"] == key
            if simulated and not mine.any():
                out.absent(key, UNSAID)
                continue
            out.distribution(key, np.repeat(rows["value"][mine], rows["count"][mine]))
