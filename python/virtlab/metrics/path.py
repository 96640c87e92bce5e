"""Where a value is found: `<role>.<metric>.<statistic>`, e.g. `probe.rtt.p99.9`.

The first part may itself hold dots (an entity such as `h1.up`), and so may the last (`p99.9`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.lazy import pattern
from virtlab.metrics.declared import NONE, Declared, keys_of, metric_of
from virtlab.metrics.metric import Metric, Statistic
from virtlab.metrics.registry import METRICS
from virtlab.metrics.statistic import STATISTICS
from virtlab.units import did_you_mean, nearest

LISTED = "docs/reference/metrics.md"

_PATH = pattern(r"([A-Za-z][\w.-]*)\.([A-Za-z][A-Za-z0-9_]*)\.([A-Za-z][A-Za-z0-9_]*(?:\.\d+)?)\Z")

MEANT = {
    "p50": "median",
    "avg": "mean",
    "average": "mean",
    "maximum": "max",
    "minimum": "min",
    "p100": "max",
    "p0": "min",
}
"""What other tools call a statistic -> its name here."""


@dataclass(frozen=True, slots=True, order=True)
class MetricPath:
    """A role (or entity), a metric and a statistic of it. `declared` is the metric where the experiment declares it.

    >>> str(MetricPath.parse("probe.rtt.p99.9"))
    'probe.rtt.p99.9'
    >>> MetricPath.parse("probe.rtt.medain")
    Traceback (most recent call last):
    ValueError: 'medain' is not a statistic of rtt; did you mean 'median'?
    >>> MetricPath.parse("probe.rtt.p50")
    Traceback (most recent call last):
    ValueError: 'p50' is not a statistic of rtt; did you mean 'median'?
    """

    role: str
    metric: str
    statistic: str
    declared: Metric | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, declared: Declared = NONE) -> MetricPath:
        """From text. ValueError when it is no path, or the metric or its statistic is unknown; plain `jitter`
        is refused. `declared` are metrics that roles have besides virtlab's own."""
        match = _PATH.match(text)
        if not match:
            raise ValueError(
                f"'{text}' is not a path; write <role>.<metric>.<statistic>, e.g. 'probe.rtt.median'"
            )
        role, metric, statistic = match.groups()
        if metric == "jitter":
            raise ValueError(
                "'jitter' has several meanings; write one of rtt.mdev, rtt.range, jitter_rfc3550.final, "
                "ipdv.mean, pdv.p99"
            )
        found = metric_of(role, metric, declared)
        if found is None:
            raise ValueError(f"'{metric}' is not a metric; {_cure(role, metric, declared)}")
        if statistic not in found.statistics:
            meant = MEANT.get(statistic, statistic)
            cure = (
                f"did you mean '{meant}'?"
                if meant in found.statistics
                else did_you_mean(statistic, found.statistics)
            )
            raise ValueError(f"'{statistic}' is not a statistic of {metric}; {cure}")
        return cls(role, metric, statistic, None if metric in METRICS else found)

    def __str__(self) -> str:
        return f"{self.role}.{self.metric}.{self.statistic}"

    @property
    def declaration(self) -> Metric:
        """The metric."""
        return self.declared or METRICS[self.metric]

    @property
    def unit(self) -> str:
        """The unit of the value: the metric's own, but a count for `count` and per second for `rate`."""
        return unit_of(self.declaration, STATISTICS[self.statistic])


def _cure(role: str, metric: str, declared: Declared) -> str:
    """What to write instead of a name that no metric has."""
    own, all_of_them = list(declared.get(role, {})), keys_of(role, declared)
    if own and not nearest(metric, all_of_them):
        return f"'{role}' declares {', '.join(own)}, and {LISTED} has virtlab's own"
    return did_you_mean(metric, all_of_them, LISTED)


def unit_of(metric: Metric, statistic: Statistic) -> str:
    """The unit of a metric's statistic.

    >>> unit_of(METRICS["duplicates"], STATISTICS["count"]), unit_of(METRICS["rtt"], STATISTICS["mdev"])
    ('count', 'ns')
    """
    if statistic.key == "count":
        return "count"
    if statistic.key == "rate":
        return "1/s"
    if statistic.key in {"ratio", "jain"}:
        return "ratio"
    return metric.unit
