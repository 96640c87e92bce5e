"""Every statistic that a metric can be given by.

Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan 1996, numpy's default).
"""

from __future__ import annotations

from virtlab.metrics.metric import Statistic

_ALL = (
    Statistic("mean", "Arithmetic mean of the samples."),
    Statistic("median", "Half of the samples lie below.", 0.5),
    Statistic("p90", "90 % of the samples lie below.", 0.90, 10, "90th percentile"),
    Statistic("p95", "95 % of the samples lie below.", 0.95, 20, "95th percentile"),
    Statistic("p99", "99 % of the samples lie below.", 0.99, 100, "99th percentile"),
    Statistic("p99.9", "99.9 % of the samples lie below.", 0.999, 1000, "99.9th percentile"),
    Statistic("min", "The smallest sample.", label="minimum"),
    Statistic("max", "The largest sample.", label="maximum"),
    Statistic("range", "Largest minus smallest sample.", None, 2, "max - min"),
    Statistic("sd", "Sample standard deviation, divisor n - 1.", None, 2, "standard deviation"),
    Statistic(
        "mdev", "Population standard deviation, divisor n, as ping prints it: sqrt(mean(x^2) - mean(x)^2)."
    ),
    Statistic("final", "The value at the end of the window, as iperf prints its smoothed jitter."),
    Statistic("ratio", "A share of the whole window, 0 to 1."),
    Statistic("count", "How many."),
    Statistic("total", "The sum over the window."),
    Statistic("rate", "How many per second of the window."),
    Statistic("found", "What a search found, by its goal."),
    Statistic("lower", "The highest value that met the goal, below every one that did not."),
    Statistic("upper", "The lowest value that did not meet the goal."),
    Statistic("bound", "The bound within which the clock makes the metric uncertain."),
    Statistic("jain", "Jain's index (sum x)^2 / (n sum x^2): 1 = all equal, 1/n = one has all.", None, 2),
)

STATISTICS: dict[str, Statistic] = {statistic.key: statistic for statistic in _ALL}

DISTRIBUTION = ("mean", "median", "p90", "p95", "p99", "p99.9", "min", "max", "range", "sd", "mdev")
"""The statistics of a metric that has one sample per packet, burst or transaction."""

SPREAD = ("mean", "median", "p95", "p99", "p99.9", "max")
"""The statistics of a variation metric."""
