"""What is taken from the packets of a trial as they come: delays per flow, and gaps in what arrived.

A trial of 120 s at full rate has more rows than memory should hold, so these keep sums, counts and the last row of each
flow only. Blocks come in order of arrival. Rows are of `packet/1`: seq, flow, sent_ns, received_ns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from virtlab.campaign.trials.delay_counts import DelayCounts
from virtlab.lazy import np
from virtlab.plan.backend import Columns

KEPT_GAPS = 64  # longest waits of each block and flow


@dataclass
class Delays:
    """One-way delay of each of `flows` flows: the mean of all frames, and of one that is tagged.

    Tagged is the first frame of each flow that was sent `tag_after_ns` or more after the first frame of all.
    """

    flows: int
    tag_after_ns: int
    tagged: bool
    counts: DelayCounts = field(default_factory=DelayCounts)  # of all frames; of none where one is tagged
    _sum_ns: list[float] = field(default_factory=list)
    _count: list[int] = field(default_factory=list)
    _tag: list[tuple[int, int] | None] = field(default_factory=list)  # (sent_ns, delay)
    _began_ns: int | None = None

    def __post_init__(self) -> None:
        self._sum_ns, self._count, self._tag = [0.0] * self.flows, [0] * self.flows, [None] * self.flows

    def take(self, columns: Columns) -> None:
        """Rows of one block."""
        flow, sent = columns["flow"].astype(np.int64), columns["sent_ns"].astype(np.int64)
        if not flow.size:
            return
        delay = columns["received_ns"].astype(np.int64) - sent
        if self._began_ns is None:
            self._began_ns = int(sent.min())
        counts = np.bincount(flow, minlength=self.flows)
        sums = np.bincount(flow, weights=delay.astype(np.float64), minlength=self.flows)
        if not self.tagged:
            self.counts.add(delay)
        late = sent >= self._began_ns + self.tag_after_ns
        for one in np.flatnonzero(counts).tolist():
            self._count[one] += int(counts[one])
            self._sum_ns[one] += float(sums[one])
        places = np.flatnonzero(late)
        seen, first = np.unique(flow[places], return_index=True)
        for one, place in zip(seen.tolist(), places[first].tolist(), strict=True):
            if self._tag[one] is None:
                self._tag[one] = (int(sent[place]), int(delay[place]))

    def of_flows(self) -> list[float | None]:
        """Delay of each flow in ns; None where no frame that counts arrived."""
        if self.tagged:
            return [None if tag is None else float(tag[1]) for tag in self._tag]
        return [
            total / count if count else None for total, count in zip(self._sum_ns, self._count, strict=True)
        ]

    def counted(self) -> DelayCounts:
        """Delays that count for quantiles: of all frames, or the one of the stream that is tagged."""
        tag = self.of_stream() if self.tagged else None
        if tag is None:
            return self.counts
        found = DelayCounts()
        found.add(np.array([tag]))
        return found

    def of_stream(self) -> float | None:
        """Delay of the whole stream: of the frame that was tagged first, or the mean of all frames."""
        if self.tagged:
            return min((tag for tag in self._tag if tag is not None), default=(0, None))[1]
        return sum(self._sum_ns) / sum(self._count) if sum(self._count) else None


@dataclass
class Gaps:
    """Frames that are missing between those that arrived, and the longest time without any, of some flows.

    When a missing frame was sent is between its neighbours of the same flow, evenly. `only`: the flows that count;
    None: all.
    """

    flows: int
    only: frozenset[int] | None = None
    missing: list[int] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    last_lost_ns: float | None = None
    gaps: list[tuple[int, int]] = field(
        default_factory=list
    )  # (last before, first after), some of each block
    _last: list[tuple[int, int, int] | None] = field(default_factory=list)  # seq, sent_ns, received_ns

    def __post_init__(self) -> None:
        self.missing, self.arrived, self._last = [0] * self.flows, [0] * self.flows, [None] * self.flows

    def take(self, columns: Columns) -> None:
        """Rows of one block."""
        flows = columns["flow"].astype(np.int64)
        for one in np.unique(flows).tolist() if self.only is None else sorted(self.only):
            mine = np.flatnonzero(flows == one)
            if not mine.size:
                continue
            seq, sent, received = (
                columns[name][mine].astype(np.int64) for name in ("seq", "sent_ns", "received_ns")
            )
            self.arrived[one] += int(mine.size)
            before = self._last[one]
            first = (-1, int(sent[0]), int(received[0])) if before is None else before
            seq, sent, received = (
                np.concatenate([[value], column])
                for value, column in zip(first, (seq, sent, received), strict=True)
            )
            self._keep(one, seq, sent, received)
            self._last[one] = (int(seq.max()), int(sent[-1]), int(received[-1]))

    def _keep(self, flow: int, seq: Any, sent: Any, received: Any) -> None:
        steps, waits = np.diff(seq), np.diff(received)
        skipped = np.flatnonzero(steps > 1)
        late = int(np.count_nonzero(steps < 1))  # a frame that others overtook fills a gap that was counted
        self.missing[flow] = max(0, self.missing[flow] + int((steps[skipped] - 1).sum()) - late)
        if skipped.size:
            at = int(skipped[-1])
            lost_ns = float(sent[at]) + (float(sent[at + 1]) - float(sent[at])) * (1 - 1 / float(steps[at]))
            self.last_lost_ns = lost_ns if self.last_lost_ns is None else max(self.last_lost_ns, lost_ns)
        # What ends after which instant is asked when all has come; the last wait is kept so that something does.
        for at in {*np.argsort(waits)[-KEPT_GAPS:].tolist(), int(waits.size) - 1}:
            self.gaps.append((int(received[at]), int(received[at + 1])))

    def longest_ending_after(self, instant_ns: int) -> tuple[int, int] | None:
        """The longest time without a frame that ends after an instant: (last before, first after)."""
        later = [gap for gap in self.gaps if gap[1] > instant_ns]
        return max(later, key=lambda gap: gap[1] - gap[0], default=None)
