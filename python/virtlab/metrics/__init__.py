"""What is measured: every metric with its unit, better direction, definition and source; every statistic.

>>> METRICS["rtt"].unit, METRICS["loss"].better, STATISTICS["p99"].quantile
('ns', 'lower', 0.99)
"""

from virtlab.metrics.metric import Better, Metric, Statistic, Unit
from virtlab.metrics.path import METRICS, MetricPath, unit_of
from virtlab.metrics.statistic import DISTRIBUTION, SPREAD, STATISTICS

__all__ = [
    "DISTRIBUTION", "METRICS", "SPREAD", "STATISTICS", "Better", "Metric", "MetricPath", "Statistic", "Unit",
    "unit_of",
]  # fmt: skip
