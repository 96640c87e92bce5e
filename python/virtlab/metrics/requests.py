"""Metrics of requests to a service: how long clients waited, for what, and what came of the rest.

Response time counts from when a request was due, never from when it was sent: a client that waits with its next request
until the last one was answered would leave out exactly the requests that a slow server delays.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key
from virtlab.metrics.statistic import DISTRIBUTION

_SHARE = ("ratio", "count")

REQUESTS = by_key(
    Metric(
        "client_wait", "ns", "lower",
        "Time from when a request was due until it left, waiting for a connection that was free. Part of its response time.",
        "intended and sent instants", DISTRIBUTION, "role", "wait at the client",
    ),
    Metric(
        "request_rate", "1/s", "neither", "Requests, or operations at a rate, due per second of the window.",
        "intended instants", ("mean",), "role", "requests due",
    ),
    Metric(
        "answer_rate", "1/s", "higher", "Requests answered per second, from the first that was due to the last answer.",
        "answers over their time", ("mean",), "role", "requests answered",
    ),
    Metric(
        "refused_requests", "ratio", "lower", "Requests that the server refused, because its backlog was full.",
        "the server's answer", _SHARE, "role", "refused requests",
    ),
    Metric(
        "late_requests", "ratio", "lower", "Requests answered after their `deadline`; absent where the role has none.",
        "response time above the deadline", _SHARE, "role", "late requests",
    ),
    Metric(
        "failed_requests", "ratio", "lower",
        "Requests that the service answered with an error, over HTTP a status of 400 or more; absent of other protocols.",
        "RFC 9110, 15.5 and 15.6", _SHARE, "role", "failed requests",
    ),
    Metric(
        "forwarded_requests", "ratio", "neither",
        "Requests that entered at a passive server and that the active one served; absent of other services.",
        "entry and server of the answer", _SHARE, "role", "forwarded requests",
    ),
    Metric(
        "bad_gateway_requests", "ratio", "lower",
        "Requests that entered at a passive server, which had no answer of the active one; absent of other services.",
        "the passive server's answer", _SHARE, "role", "bad gateway",
    ),
    Metric(
        "retries", "ratio", "lower",
        "Tries beyond the first of each request, per request; absent where the role has no `retries`.",
        "counted by the client over its whole time", _SHARE, "role", "retries",
    ),
    Metric(
        "late_answers", "ratio", "lower",
        "Answers to requests that had been given up, per request; absent where answers come on connections.",
        "counted by the client over its whole time", _SHARE, "role", "late answers",
    ),
    Metric(
        "duplicate_answers", "ratio", "lower",
        "Further answers to requests that had one, per request; absent where answers come on connections.",
        "counted by the client over its whole time", _SHARE, "role", "duplicate answers",
    ),
    Metric(
        "lost_requests", "ratio", "lower", "Requests given up without an answer, `timeout` after they were due.",
        "the client's time-out", _SHARE, "role", "lost requests",
    ),
    Metric(
        "censored_requests", "ratio", "lower", "Requests without an answer when the role was stopped.",
        "requests under way at the end", _SHARE, "role", "requests open at the end",
    ),
)  # fmt: skip
