"""Where a value is found: `<role>.<metric>.<statistic>`, e.g. `probe.rtt.p99.9`.

The first part may itself hold dots (an entity such as `h1.up`), and so may the last (`p99.9`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.metrics.deadlines import DEADLINES
from virtlab.metrics.health import HEALTH
from virtlab.metrics.machines import MACHINES
from virtlab.metrics.metric import Metric, Statistic, by_key
from virtlab.metrics.network import NETWORK
from virtlab.metrics.rates import RATES
from virtlab.metrics.searches import SEARCHES
from virtlab.metrics.statistic import STATISTICS
from virtlab.units import did_you_mean

METRICS: dict[str, Metric] = by_key(
    *NETWORK.values(),
    *RATES.values(),
    *SEARCHES.values(),
    *BENCHMARKS.values(),
    *DEADLINES.values(),
    *HEALTH.values(),
    *MACHINES.values(),
)
"""Every metric by key."""

_PATH = re.compile(r"([A-Za-z][\w.-]*)\.([A-Za-z][A-Za-z0-9_]*)\.([A-Za-z][A-Za-z0-9_]*(?:\.\d+)?)\Z")


@dataclass(frozen=True, slots=True, order=True)
class MetricPath:
    """A role (or entity), a metric and a statistic of it.

    >>> str(MetricPath.parse("probe.rtt.p99.9"))
    'probe.rtt.p99.9'
    >>> MetricPath.parse("probe.rtt.medain")
    Traceback (most recent call last):
    ValueError: 'medain' is not a statistic of rtt; did you mean 'median'?
    """

    role: str
    metric: str
    statistic: str

    @classmethod
    def parse(cls, text: str) -> MetricPath:
        """From text. ValueError when it is no path, or the metric or its statistic is unknown; plain `jitter`
        is refused."""
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
        if metric not in METRICS:
            raise ValueError(f"'{metric}' is not a metric; {did_you_mean(metric, METRICS)}")
        if statistic not in METRICS[metric].statistics:
            cure = did_you_mean(statistic, METRICS[metric].statistics)
            raise ValueError(f"'{statistic}' is not a statistic of {metric}; {cure}")
        return cls(role, metric, statistic)

    def __str__(self) -> str:
        return f"{self.role}.{self.metric}.{self.statistic}"

    @property
    def unit(self) -> str:
        """The unit of the value: the metric's own, but a count for `count` and per second for `rate`."""
        return unit_of(METRICS[self.metric], STATISTICS[self.statistic])


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
