"""Which of all possible plots a report draws: few enough to read, and every one that somebody asked for.

Drawn always: of a workload's primary metrics the leading statistic over every factor, mean, median and p99
over the main factor, distribution and course; of its other metrics the leading statistic over the main
factor. Drawn when asked: whatever a claim speaks about, and whatever the study's figures.yaml names. The
probe's own health stands in tables. What was the same in every run is said in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from virtlab.catalogue import WORKLOADS
from virtlab.metrics import METRICS
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.report import names
from virtlab.report.figures.distributions import main_factor
from virtlab.report.gather.model import Factor, Result

PRIMARY = frozenset(
    {
        "ndr",
        "pdr",
        "limit_size",
        "limit_rate",
        "limit_packet_rate",
        "limit_time",
        "limit_count",
        "rtt",
        "loss",
        "goodput",
        "transaction_time",
        "transaction_rate",
        "response_time",
        "deadline_misses",
    }
)
AGAINST_LOAD = frozenset({"frame_loss", "tested_load"})
LEADING = ("mean", "median", "p99")
DISTRIBUTIONS = frozenset({"rtt", "owd", "transaction_time", "burst_time", "connect_time"})  # drawn unasked
RECURRING = frozenset({"rtt", "transaction_time", "connect_time", "burst_time"})  # runs beside each other
BUCKETED = frozenset({"rtt", "transaction_time", "connect_time"})  # of workloads with a parameter `histogram`
HEALTH = frozenset(
    {"pacing_error", "late_bursts", "stalls", "stall", "socket_drops", "send_errors", "warm_up",
     "offered_load", "offered_fairness", "achieved_share", "achieved_burst"}
)  # fmt: skip


def bucketed(workload: str, metric: str) -> bool:
    """Whether a metric of a workload has a histogram of its own."""
    return metric in BUCKETED and WORKLOADS[workload].parameter("histogram") is not None


def lead(statistics: Sequence[str]) -> str:
    """The statistic that stands for a metric: the mean, or the first that it declares.

    >>> lead(("min", "mean")), lead(("ratio", "count"))
    ('mean', 'ratio')
    """
    return "mean" if "mean" in statistics else statistics[0]


def interval_plots(
    results: Iterable[Result], factors: Sequence[Factor], asked: frozenset[str], claimed: frozenset[str]
) -> list[tuple[Result, str | None, str]]:
    """(result, axis factor, name) of every interval plot to draw, in the order of the page."""
    main = main_factor(factors)
    varying = [factor.name for factor in factors]
    axes: list[str | None] = [*varying] if varying else [None]
    if main is not None:
        axes.sort(key=lambda name: name != main.name)
    chosen = []
    for result in results:
        quantity = result.quantity
        for x in axes:
            name = names.interval_plot(quantity.role, quantity.metric, quantity.statistic, x, varying)
            at_main = main is None or x == main.name
            if name in asked or _unasked(result, at_main=at_main, claimed=quantity.path in claimed):
                chosen.append((result, x, name))
    return chosen


def _unasked(result: Result, *, at_main: bool, claimed: bool) -> bool:
    quantity = result.quantity
    metric = METRICS.get(quantity.metric)
    values = {value for cell in result.cells for value in cell.present}
    if not values or metric is None or metric.of == "entity":
        return False
    if claimed and at_main:
        return True
    if quantity.metric in AGAINST_LOAD or (quantity.role.count(".") > 1 and quantity.metric in BENCHMARKS):
        return False  # they are drawn against load; of single flows at a load they stand in a table
    if len(values) == 1 or quantity.metric in HEALTH:
        return False
    leading = quantity.statistic == lead(metric.statistics)
    if quantity.metric not in PRIMARY:
        return leading and at_main
    return leading or (at_main and quantity.statistic in LEADING)
