"""Metrics of searches: the highest value that a goal allows. A number without its goal says nothing.

`found` is what is reported (MLRsearch: the conditional throughput, the lower bound less the loss its trials had;
bisection: the last good value), `lower` and `upper` the bounds. The report prints the goal with each. For `limit_*`
the unit is that of the input that was searched.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

_FOUND = ("found", "lower", "upper")

SEARCHES = by_key(
    Metric(
        "ndr", "bit/s", "higher",
        "Highest offered load without loss by the goal of the search: whole frames for `raw_stream`, IP packets for "
        "`udp_stream`.", "RFC 2544, 26.1; draft-ietf-bmwg-mlrsearch", _FOUND, "role", "throughput without loss",
    ),
    Metric(
        "ndr_rate", "1/s", "higher", "The same in frames per second.", "RFC 2544, 26.1", _FOUND, "role",
        "throughput without loss in frames",
    ),
    Metric(
        "pdr", "bit/s", "higher", "Highest offered load with at most the loss ratio of the goal.",
        "draft-ietf-bmwg-mlrsearch", _FOUND, "role", "throughput with some loss",
    ),
    Metric(
        "pdr_rate", "1/s", "higher", "The same in frames per second.", "draft-ietf-bmwg-mlrsearch", _FOUND,
        "role", "throughput with some loss in frames",
    ),
    Metric(
        "limit_size", "bytes", "higher", "Largest size of the input at which the condition did not hold.",
        "bisection over trials", _FOUND, "role", "limit found",
    ),
    Metric(
        "limit_rate", "bit/s", "higher", "Highest rate of the input at which the condition did not hold.",
        "bisection over trials", _FOUND, "role", "limit found",
    ),
    Metric(
        "limit_packet_rate", "1/s", "higher", "Highest packet rate of the input at which the condition did not hold.",
        "bisection over trials", _FOUND, "role", "limit found",
    ),
    Metric(
        "limit_request_rate", "1/s", "higher", "Highest rate of requests as the input at which the condition did not hold.",
        "bisection over trials", _FOUND, "role", "limit found",
    ),
    Metric(
        "limit_time", "ns", "neither", "Longest time as the input at which the condition did not hold.",
        "bisection over trials", _FOUND, "role", "limit found",
    ),
    Metric(
        "limit_count", "count", "higher", "Highest count as the input at which the condition did not hold.",
        "bisection over trials", _FOUND, "role", "limit found",
    ),
    Metric(
        "search_trials", "count", "neither", "Trials that the search made, repeated ones included.",
        "virtlab", ("count",), "role", "trials of the search",
    ),
    Metric(
        "search_traffic", "ns", "lower", "Time of traffic that the search made.", "virtlab", ("total",), "role",
        "traffic of the search",
    ),
)  # fmt: skip
