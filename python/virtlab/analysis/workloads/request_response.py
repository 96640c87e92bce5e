"""`request_response`: response times from when requests were due, and what came of each request.

Requests count in the window in which they were due. One that was given up, or was open at the end, enters the response
times with the time that it had waited: it would have taken longer, so a statistic that reaches it is a lower bound, and
leaving it out would hide just the slowest. Refused, failed and broken requests, and those of a bad gateway, have no
response time, and are counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.values import Collector
from virtlab.analysis.workloads import health
from virtlab.lazy import NDArray

ANSWERED, REFUSED, LOST, BROKEN, OPEN, FAILED, BAD_GATEWAY = range(7)  # as `error` of response/1 says it
NONE_DUE = "no request was due in the window"
UNKNOWN_SERVERS = "nothing says which server took or answered a request"


Rows = Mapping[str, "NDArray[Any]"]  # columns of response/1


def values(context: RoleContext) -> None:
    """Response times, waits for a connection, rates, and counts of what was not answered."""
    of_rows(context.out, context.samples("response/1", "intended_ns"), context.parameter)
    _over_its_whole_time(context)
    health.values(context)


def waits(rows: Rows) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Response times, and waits for a connection, each with the instants at which its requests ended."""
    due, error, finished = rows["intended_ns"], rows["error"], rows["finished_ns"]
    waited = (error == ANSWERED) | (error == LOST) | (error == OPEN)
    sent = rows["sent_ns"] >= 0
    return {
        "response_time": ((finished - due)[waited], finished[waited]),
        "client_wait": ((rows["sent_ns"] - due)[sent], finished[sent]),
    }


WHY_NONE = {
    "response_time": "no request was answered, given up or open in the window",
    "client_wait": "no request left in the window",
}


def of_rows(out: Collector, rows: Rows, parameter: Callable[[str], Any]) -> None:
    """What the rows of requests alone say, of a role with such parameters."""
    due, error = rows["intended_ns"], rows["error"]
    count = int(due.size)
    answered = error == ANSWERED
    for metric, (samples, _) in waits(rows).items():
        if samples.size:
            out.distribution(metric, samples)
        else:
            out.absent(metric, WHY_NONE[metric] if count else NONE_DUE)
    _rates(out, rows["finished_ns"][answered], due)
    found = {
        **({"failed_requests": FAILED} if parameter("protocol") == "http" else {"refused_requests": REFUSED}),
        "lost_requests": LOST,
        "censored_requests": OPEN,
        **({} if parameter("protocol") == "udp" else {"request_errors": BROKEN}),
    }
    clustered = parameter("passive_share_ratio") is not None
    if clustered:
        found["bad_gateway_requests"] = BAD_GATEWAY
    shares = {metric: int((error == ending).sum()) for metric, ending in found.items()}
    if clustered and count and not (rows["entry"] >= 0).any():
        out.absent("forwarded_requests", UNKNOWN_SERVERS)
    elif clustered:
        shares["forwarded_requests"] = int((answered & (rows["served_by"] != rows["entry"])).sum())
    deadline_ns = parameter("deadline_ns")
    if deadline_ns is None:
        out.absent("late_requests", "the role has no deadline")
    else:
        shares["late_requests"] = int(((rows["finished_ns"] - due)[answered] > deadline_ns).sum())
    for metric, number in shares.items():
        out.add(metric, "ratio", number / count if count else None, count, NONE_DUE)
        out.add(metric, "count", number if count else None, count, NONE_DUE)


def _over_its_whole_time(context: RoleContext) -> None:
    """Tries beyond the first, and answers that no request waited for, have no rows: what the client counted."""
    out, counters = context.out, context.counters
    on_connections = None if context.parameter("protocol") == "udp" else "answers come on connections"
    for metric, why_not in (
        ("retries", "the role has no retries" if context.parameter("retries") is None else None),
        ("late_answers", on_connections),
        ("duplicate_answers", on_connections),
    ):
        if why_not is not None:
            out.absent(metric, why_not)
        elif metric not in counters:
            out.absent(metric, health.NOT_COUNTED)
        else:
            count, requests = counters[metric], counters["requests"]
            out.add(metric, "ratio", count / requests if requests else None, requests, NONE_DUE)
            out.add(metric, "count", count, requests)


def _rates(out: Collector, answers: NDArray[Any], due: NDArray[Any]) -> None:
    """Requests due per second, over the gaps between the first and the last, and answers per second since the first."""
    span_ns = float(due.max() - due.min()) if due.size > 1 else 0.0
    few = "fewer than two requests were due in the window"
    out.add("request_rate", "mean", (due.size - 1) / span_ns * 1e9 if span_ns else None, int(due.size), few)
    took_ns = float(answers.max() - due.min()) if answers.size else 0.0
    rate = answers.size / took_ns * 1e9 if took_ns > 0 else None
    out.add("answer_rate", "mean", rate, int(answers.size), "no request was answered in the window")
