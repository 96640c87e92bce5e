"""Bytes counted per interval at each end of a stream: what a TCP stream and iperf3 give instead of packets.

An interval that reaches over the window's edge counts by its share inside. Rows of the receiver hold
`received_bytes`, rows of the sender `sent_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.lazy import NDArray, np


@dataclass(frozen=True, slots=True)
class Intervals:
    """Rows of `interval/1` that touch the window, and the share of each inside it (0..1)."""

    rows: dict[str, NDArray[Any]]
    share: NDArray[Any]
    begin_ns: int
    end_ns: int

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.share.size)

    def mean_bit_per_s(self, column: str) -> float | None:
        """Bits of a column per second, from the first interval that has any to the end of the last; None
        without any.
        """
        active = self.rows[column] > 0
        if not bool(active.any()):
            return None
        first = max(int(self.rows["begin_ns"][active].min()), self.begin_ns)
        last = min(int(self.rows["end_ns"][active].max()), self.end_ns)
        return 8.0 * float((self.rows[column] * self.share).sum()) / ((last - first) / 1e9)

    def per_interval_bit_per_s(self, column: str) -> NDArray[Any]:
        """Rates of single intervals, all flows together; the column must have some bytes."""
        active = self.rows[column] > 0
        begin, end = self.rows["begin_ns"][active], self.rows["end_ns"][active]
        usual_ns = max(1, int(np.median(end - begin)))  # tells which intervals of several flows are the same
        _, bins = np.unique(begin // usual_ns, return_inverse=True)
        rates = 8.0 * self.rows[column][active] / ((end - begin) / 1e9)
        return np.bincount(bins, weights=rates)


def intervals_of(context: RoleContext) -> Intervals:
    """The role's intervals in its window."""
    rows = context.record.samples(context.name, "interval/1")
    begin, end = rows["begin_ns"], rows["end_ns"]
    low, high = -(2**62), 2**62
    share = np.ones(begin.size)
    if not context.window.whole:
        low, high = context.window.begin_ns, context.window.end_ns
        inside = np.minimum(end, high) - np.maximum(begin, low)
        share = np.clip(inside / np.maximum(end - begin, 1), 0.0, 1.0)
    used = (share > 0) & (end > begin)
    return Intervals({name: column[used] for name, column in rows.items()}, share[used], low, high)


def goodput(context: RoleContext, intervals: Intervals) -> float | None:
    """Adds the goodput of what the receiver counted, and says it (bit/s)."""
    rate = intervals.mean_bit_per_s("received_bytes")
    if rate is None:
        reason = (
            "the receiver counted nothing" if intervals.count else "no interval was recorded in the window"
        )
        context.out.absent("goodput", reason)
        return None
    per_interval = intervals.per_interval_bit_per_s("received_bytes")
    context.out.add("goodput", "mean", rate, intervals.count)
    context.out.add("goodput", "min", float(per_interval.min()), intervals.count)
    context.out.add("goodput", "max", float(per_interval.max()), intervals.count)
    return rate
