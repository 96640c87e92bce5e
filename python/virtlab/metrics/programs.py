"""Metrics of programs of the user's own, beside those that the experiment file declares of their output."""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

PROGRAMS = by_key(
    Metric(
        "program_time", "ns", "lower",
        "From the start of a role's program to its end, as the testbed saw both: within a few milliseconds.",
        "virtlab", ("total",), "role", "time of the program",
    ),
)  # fmt: skip
