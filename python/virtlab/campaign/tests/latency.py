"""Latency at stated loads: the mean over trials of a frame's one-way delay at the throughput, and at parts of it.

RFC 2544, 26.2: a stream of at least 120 s at the throughput; one frame is tagged after 60 s (half-way); at least 20
trials, of which the mean is the result. `tag: all` takes the mean of all frames of a trial instead, which needs far
fewer trials for the same interval. Quantiles are of the frames that count, of all trials of a load together: means hide
the tail that a late frame sees. Deviations: delay is one way, up to the receiver's kernel stamp; each flow has a tagged
frame of its own. The trials of all loads take turns, so a drift of the machine falls on all alike.

With flows of strong and weak shares L = q mean(L over weak) + (1 - q) mean(L over strong); see `catalogue.split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from virtlab.campaign.tests.protocol import NOTHING_FOUND, BenchmarkTrial, Value, spread
from virtlab.campaign.trials.delay_counts import DelayCounts
from virtlab.campaign.trials.journal import TrialLine
from virtlab.catalogue.flows import FLOWS_TOLD
from virtlab.catalogue.split import combined_latency_ns
from virtlab.experiment.work.benchmark import LatencyTest, StatedLoad
from virtlab.metrics import STATISTICS
from virtlab.units.factors import NS_PER_S

QUANTILES = ("median", "p90", "p99")
UNEQUAL_MAX = 2  # shares are strong or weak


@dataclass(slots=True)
class Latency:
    """`good_load` in the unit of the searched input; `shares`: each flow's part of a load."""

    test: LatencyTest
    good_load: float | None
    shares: Sequence[float]
    name: str = field(default="latency", init=False)
    _lines: dict[str, list[TrialLine]] = field(default_factory=dict, init=False)

    def _load(self, load: StatedLoad) -> float | str:
        """The load itself, or why it cannot be tested."""
        if self.good_load is None:
            return NOTHING_FOUND
        if load.share is not None:
            return load.share * self.good_load
        assert load.value is not None
        return (
            float(load.value)
            if load.value <= self.good_load
            else "it lies above the load that the search found"
        )

    def ask(self) -> BenchmarkTrial | None:
        """The load that has the fewest trials yet, in the file's order."""
        short = [
            (len(self._lines.get(load.part, ())), place)
            for place, load in enumerate(self.test.loads)
            if not isinstance(self._load(load), str)
            and len(self._lines.get(load.part, ())) < self.test.trials
        ]
        if not short:
            return None
        load = self.test.loads[min(short)[1]]
        value = self._load(load)
        assert not isinstance(value, str)
        return BenchmarkTrial(
            self.name, value, self.test.trial_ns / NS_PER_S, "delay", load.part, tagged=self.test.tagged
        )

    def tell(self, line: TrialLine) -> None:
        """Takes the result of the trial that `ask` gave."""
        self._lines.setdefault(line.part, []).append(line)

    def trials_left(self) -> int:
        """The number of trials still to make, over all loads."""
        possible = sum(not isinstance(self._load(load), str) for load in self.test.loads)
        return possible * self.test.trials - sum(len(lines) for lines in self._lines.values())

    def results(self) -> list[Value]:
        """Per load: latency of the stream with quantiles, and of each flow, combined latency, loss, the load itself."""
        values: list[Value] = []
        for load in self.test.loads:
            lines = self._lines.get(load.part, [])
            possible = self._load(load)
            why = possible if isinstance(possible, str) else "no frame that counts arrived"
            values += spread(load.part, "latency", [line.measured for line in lines], why)
            values += quantiles(load.part, lines, why)
            flows = len(self.shares) if len(self.shares) > 1 else 0
            for flow in range(flows if flows <= FLOWS_TOLD else 0):
                own = [(line.flows_ns or [None] * flows)[flow] for line in lines]
                values += spread(load.part, "latency", own, why, flow=flow)
            if flows and len(set(self.shares)) <= UNEQUAL_MAX:
                combined = [found for line in lines if (found := self._combined(line)) is not None]
                mean = sum(combined) / len(combined) if combined else None
                values.append(Value(load.part, "split_latency", "mean", mean, len(combined), why))
            values += loss_and_load(load.part, lines, why)
        return values

    def _combined(self, line: TrialLine) -> float | None:
        """L of one trial; None where a flow has no delay."""
        means = line.flows_ns or []
        known = [mean for mean in means if mean is not None]
        if not means or len(known) != len(means):
            return None
        high = max(self.shares)
        weak = [mean for mean, share in zip(known, self.shares, strict=True) if share < high]
        strong = [mean for mean, share in zip(known, self.shares, strict=True) if share == high]
        return combined_latency_ns(weak, strong, sum(share for share in self.shares if share < high))


def quantiles(part: str, lines: Sequence[TrialLine], why: str) -> list[Value]:
    """Quantiles of the delay of all frames that count, of all trials; none of too few frames for one."""
    counted = DelayCounts.of(line.delays for line in lines if line.delays is not None)
    found = []
    for name in QUANTILES:
        statistic = STATISTICS[name]
        assert statistic.quantile is not None
        enough = counted.size >= statistic.least_samples
        value = counted.quantile_ns(statistic.quantile) if enough else None
        reason = (
            f"{counted.size} frames count, {name} needs {statistic.least_samples}" if counted.size else why
        )
        found.append(Value(part, "latency", name, value, counted.size, reason))
    return found


def loss_and_load(part: str, lines: Sequence[TrialLine], why: str) -> list[Value]:
    """The load of a part and the loss at it, over all its trials."""
    asked = sum((line.sent or 0) + (line.unsent or 0) for line in lines)
    lost = sum(line.lost for line in lines)
    return [
        Value(part, "frame_loss", "ratio", lost / asked if asked else None, asked, why),
        Value(part, "tested_load", "mean", float(lines[0].value) if lines else None, len(lines), why),
    ]
