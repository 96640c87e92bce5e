"""Metrics of tasks with hard deadlines under a CPU budget, held against their exact bounds.

They are given of the role (over all its tasks) and of every task by itself, as `ROLE.TASK`.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key
from virtlab.metrics.statistic import DISTRIBUTION

DEADLINES = by_key(
    Metric(
        "response_time", "ns", "lower", "Time from the release of a job to its end, of jobs that ended; of requests, from "
        "when one was due to its whole answer, of one given up or open at the end as long as it had waited.",
        "Joseph and Pandya 1986; of requests their intended instants", DISTRIBUTION, "role", "response time",
    ),
    Metric(
        "response_bound", "ns", "neither",
        "The exact worst-case response time R of the analysis, `min` and `max` over tasks; absent if none exists.",
        "least fixed point of R = f_inv(C + sum ceil(R/T_j) C_j)", ("min", "max"), "role", "bound of the response time",
    ),
    Metric(
        "bound_slack", "ns", "higher",
        "A task's bound R less its longest measured response time, the least of all tasks; negative: the analysis is "
        "refuted.", "response_bound minus response_time", ("min",), "role", "slack to the bound",
    ),
    Metric(
        "beyond_bound", "ratio", "lower", "Jobs that ended later than their exact bound, or did not end by their deadline "
        "though they have a bound within it.", "response_time above response_bound", ("ratio", "count"), "role",
        "jobs beyond their bound",
    ),
    Metric(
        "deadline_misses", "ratio", "lower", "Jobs that ended after their deadline, or not at all.",
        "response_time above the deadline", ("ratio", "count"), "role", "deadline misses",
    ),
    Metric(
        "deadline_slack", "ns", "higher", "Deadline less exact bound, the least of all tasks; negative: not schedulable.",
        "deadline minus response_bound", ("min",), "role", "proved slack",
    ),
    Metric(
        "supply", "ns", "higher", "CPU time per period of the guest that reached its tasks.", "the guest's own clock",
        ("mean", "median", "min", "max"), "role", "supply per period",
    ),
    Metric(
        "start_loss", "ns", "lower", "CPU time per period that was charged to the guest and did not reach its tasks.",
        "charged minus seen", ("mean", "median", "p95", "p99", "max"), "role", "loss per start",
    ),
    Metric(
        "supply_shortfall", "ns", "lower",
        "How much the worst interval fell short of the supply that the proof assumes; above zero the run is tainted.",
        "worst-case supply with E = B - X", ("max",), "role", "supply shortfall",
    ),
)  # fmt: skip
