"""Which metrics a report makes most of: which are primary, which stand among the health of the measurement, which have
distributions, runs beside each other and histograms.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from virtlab.catalogue import WORKLOADS
from virtlab.report.gather.model import Quantity, Result

PRIMARY = frozenset(
    {"ndr", "pdr", "limit_size", "limit_rate", "limit_packet_rate", "limit_request_rate", "limit_time", "limit_count",
     "rtt", "loss", "goodput", "transaction_time", "transaction_rate", "response_time", "operation_time", "operation_rate",
     "deadline_misses"}
)  # fmt: skip
AGAINST_LOAD = frozenset({"frame_loss", "tested_load"})
LEADING = ("mean", "median", "p99")
DISTRIBUTIONS = frozenset({"rtt", "owd", "transaction_time", "burst_time", "connect_time"})  # drawn unasked
RECURRING = frozenset({"rtt", "transaction_time", "connect_time", "burst_time"})  # runs beside each other
BUCKETED = frozenset({"rtt", "transaction_time", "connect_time"})  # of workloads with a parameter `histogram`
HEALTH = frozenset(
    {"pacing_error", "late_bursts", "stalls", "stall", "socket_drops", "send_errors", "warm_up", "start_spread",
     "client_cpu", "offered_load", "offered_fairness", "achieved_share", "achieved_burst"}
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


def primary(quantity: Quantity) -> bool:
    """Whether a report begins with its metric: one that the experiment declares is what it is about."""
    return quantity.declared is not None or quantity.metric in PRIMARY


def leads(quantity: Quantity) -> bool:
    """Whether it is the statistic that stands for its metric."""
    return quantity.statistic == lead(quantity.declaration.statistics)


def leading(results: Iterable[Result], metrics: Container[str]) -> Iterator[Result]:
    """The results that stand for their metric, of these metrics."""
    for one in results:
        metric = one.quantity.metric
        if metric in metrics and leads(one.quantity):
            yield one
