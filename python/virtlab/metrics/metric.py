"""What a metric and a statistic are.

A metric is a quantity of one run: what was measured, in which unit, which way is better, by whose definition.
A statistic turns the samples of a metric in one run into one number. `probe.rtt.p99` is a role, a metric, a
statistic. This file knows neither samples nor experiments.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Better = Literal["lower", "higher", "neither"]
Unit = Literal["ns", "ratio", "bit/s", "byte/s", "1/s", "bytes", "count"]


class Metric(NamedTuple):
    """One quantity: `unit` is the SI unit in which every value is kept; `statistics` are those that values are given
    for.

    A metric `of` a role is measured by the workloads that declare it; one of an entity (host, guest, link, switch)
    comes from a series or counter. `over_time`: its samples are a series, to be drawn as one.
    """

    key: str
    unit: Unit
    better: Better
    definition: str
    source: str
    statistics: tuple[str, ...]
    of: Literal["role", "entity"]
    label: str = ""
    over_time: bool = False

    def title(self) -> str:
        """The name for people: the label, or the key with spaces."""
        return self.label or self.key.replace("_", " ")


class Statistic(NamedTuple):
    """How samples of one run become one number. `quantile` is set for order statistics; `least_samples` is
    the number of samples under which the statistic is not given (p99 of fewer than 100 samples is their
    maximum)."""

    key: str
    definition: str
    quantile: float | None = None
    least_samples: int = 1
    label: str = ""


def by_key(*metrics: Metric) -> dict[str, Metric]:
    """Metrics by key. ValueError when two have the same."""
    found: dict[str, Metric] = {}
    for metric in metrics:
        if metric.key in found:
            raise ValueError(f"metric '{metric.key}' is declared twice")
        found[metric.key] = metric
    return found
