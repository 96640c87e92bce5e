"""What is measured: every metric with its unit, better direction, definition and source; every statistic.

>>> METRICS["rtt"].unit, METRICS["loss"].better, STATISTICS["p99"].quantile
('ns', 'lower', 0.99)
"""

from virtlab.metrics.declared import NONE, Declared, declared_of, metric_of
from virtlab.metrics.metric import Better, Metric, Statistic, Unit
from virtlab.metrics.path import MetricPath, unit_of
from virtlab.metrics.registry import METRICS
from virtlab.metrics.statistic import DISTRIBUTION, SPREAD, STATISTICS

__all__ = [
    "DISTRIBUTION", "METRICS", "NONE", "SPREAD", "STATISTICS", "Better", "Declared", "Metric", "MetricPath", "Statistic",
    "Unit", "declared_of", "metric_of", "unit_of",
]  # fmt: skip
