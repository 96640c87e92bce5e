"""Whether a design point has been repeated enough: the interval of one metric over the point's good runs.

The rule (stats.stopping) looks at planned sizes only, and widens each look so that the interval that stopped
the campaign still covers as stated. A run's value never changes once it is on disk, so every look gives the
same answer after a resume.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from virtlab.analysis.searches.goals import Goals
from virtlab.analysis.values_file import values_of
from virtlab.experiment import Repeat
from virtlab.metrics import MetricPath
from virtlab.results import Dataset, RunRecord
from virtlab.stats import StoppingRule, planned_sizes


@dataclass
class Precision:
    """Looks at one metric of a dataset's points by a stopping rule."""

    dataset: Dataset
    path: MetricPath
    rule: StoppingRule
    _values: dict[str, float | None] = field(default_factory=dict, repr=False)
    _looks: dict[tuple[int, int], bool] = field(default_factory=dict, repr=False)
    _learnt: dict[int, list[RunRecord]] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, dataset: Dataset, repeat: Repeat) -> Precision | None:
        """What the experiment asks for; None when it asks for a number of runs only."""
        if repeat.until is None:
            return None
        rule = StoppingRule(
            planned_sizes(repeat.minimum, repeat.maximum),
            relative=repeat.until.relative_interval,
            level=repeat.confidence,
        )
        return cls(dataset, repeat.until.path, rule)

    def values(self, point: int, n: int | None = None) -> list[float]:
        """The metric in the point's first n good runs (None: all), by repetition; a run that lacks it is left
        out.
        """
        found = []
        for record in self._good(point)[:n]:
            if record.name not in self._values:
                self._values[record.name] = self._value(record)
            if (value := self._values[record.name]) is not None:
                found.append(value)
        return found

    def learn(self, record: RunRecord) -> None:
        """Callers report every run or none: after the first, the folder is not searched at every look."""
        if self._learnt is None:
            self._learnt = {}
        if record.status == "ok":
            insort(self._learnt.setdefault(record.point, []), record, key=lambda each: each.key)

    def _good(self, point: int) -> list[RunRecord]:
        if self._learnt is None:
            return self.dataset.runs("ok", point=point)
        return self._learnt.get(point, [])

    def _value(self, record: RunRecord) -> float | None:
        if str(self.path) in record.sent_values:  # sent along by the process that made the run
            return record.sent_values[str(self.path)]
        return next((row.value for row in values_of(record) if row.path == self.path), None)

    def precise(self, point: int, n: int) -> bool:
        """Whether the point's first n good runs give an interval as narrow as asked."""
        if (point, n) not in self._looks:
            values = self.values(point, n)
            self._looks[point, n] = len(values) == n and self.rule.look(values).stop
        return self._looks[point, n]

    def width(self, point: int) -> str:
        """How wide the point's interval is now, for people: `probe.rtt.mean within 3.1 % (asked 2 %)`.

        What a search found has its goal behind it.
        """
        estimate = self.rule.interval(self.values(point))
        half = estimate.relative_half_width if estimate is not None else None
        if half is None:
            return ""
        asked = f" (asked {self.rule.relative:.2%})" if self.rule.relative is not None else ""
        goal = self._goal(point)
        return f"{self.path} within {half:.2%}{asked}" + (f"; goal: {goal}" if goal else "")

    def _goal(self, point: int) -> str:
        """The goal of the search that the metric hangs on; empty where it hangs on none."""
        return Goals.of_runs(self._good(point)[:1]).of(self.path.role, self.path.metric)
