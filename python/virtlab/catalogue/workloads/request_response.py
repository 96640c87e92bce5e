"""`request_response`: requests to a server that spends a demand of processor time on each; open or closed loop.

With `rate` requests are due by a schedule, whatever has been answered (open loop): their time counts from when they
were due, so a server that stands still cannot hide it. Without, each connection is a client that thinks between an
answer and its next request (closed loop). The server is virtlab's own, threads that serve in order and a bounded
backlog, unless the role ends at a service.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from virtlab.catalogue.declaration import SHARED, AtService, Parameter, Values, Workload, usual
from virtlab.catalogue.kinds import (
    COUNT,
    DURATION,
    FILE_BESIDE,
    FLAG,
    POSITIVE_DURATION,
    POSITIVE_SIZE,
    RATIO,
    REQUEST_RATE,
    SHARE,
    Kind,
    PlacedError,
    choice,
    shown,
)
from virtlab.catalogue.measures import PROBE, SEARCH
from virtlab.catalogue.sockets import (
    CODE_POINT,
    CONGESTION_CONTROL,
    ECN,
    PATH,
    SERVICE_GUEST,
    SERVICE_PORT,
    TCP_BUFFERS,
)
from virtlab.catalogue.workloads import speaking
from virtlab.metrics.migration import OF_CLIENTS
from virtlab.units import Duration

NAME = "request_response"
CONNECTIONS_MAX = THREADS_MAX = SUBTASKS_MAX = 1024
MESSAGE_MAX_BYTES = 64 << 20
HEADER_BYTES = 16  # of every message: its length, kind and number
RESPONSE_GUESS_NS = 50_000  # of an estimate, beside demand and thinking
CLOSED_ONLY = {"think_ns": "think", "think_distribution": "think_distribution"}
DISTRIBUTION = choice("constant", "exponential")
SAMPLES_MAX = 10_000
SAMPLES_EXAMPLE = "[0.8 ms, 1.2 ms, 9 ms]"
EMPIRICAL = "empirical"


def _samples(value: Any) -> list[int]:
    if not isinstance(value, list):
        raise ValueError(f"'{shown(value)}' is not a list of times; write e.g. '{SAMPLES_EXAMPLE}'")
    if not 1 <= len(value) <= SAMPLES_MAX:
        raise ValueError(f"{len(value)} samples are too few or too many; write 1 to {SAMPLES_MAX}")
    times = []
    for place, sample in enumerate(value):
        try:
            times.append(DURATION.parse(sample))
        except ValueError as error:
            raise PlacedError((place,), str(error)) from None
    return times


SAMPLES = Kind(
    "list of times", _samples,
    {"type": "array", "minItems": 1, "maxItems": SAMPLES_MAX, "items": DURATION.schema}, SAMPLES_EXAMPLE,
)  # fmt: skip
TCP, UDP, HTTP = "tcp", "udp", "http"
DATAGRAM_MAX_BYTES = 65_507
OF_TCP = {"congestion_control": "congestion_control", "ecn": "ecn"}
STRAY = frozenset({"late_answers", "duplicate_answers"})
RETRIES_MAX = 1000
RETRY = {"retries": "retries", "retry_after": "retry_after_ns"}
OF_HTTP = ("path", "keep_alive")
OF_OUR_SERVER = (
    "response", "serial_demand", "demand", "subtasks", "demand_distribution", "demand_variation", "demand_samples", "lock",
    "write", "write_mode", "idle_write", "threads", "backlog", "full", "pause", "pause_after",
)  # fmt: skip


PASSIVE_SHARE = Parameter(
    "passive_share", SHARE, "passive_share_ratio",
    "of a service with an active server: the share of requests that enter at a passive one, drawn for each; absent: none",
)  # fmt: skip

TRACE = "trace"
ARRIVALS = choice("constant", "poisson", TRACE)


def _closed(values: Values) -> bool:
    return values.get("rate_per_s") is None and values.get("trace_ns") is None


def _over_http(values: Values) -> bool:
    return values.get("protocol") == HTTP


def _speaks(values: Values) -> str:
    return str(values.get("protocol", TCP))


def _without(values: Values) -> Mapping[str, str]:
    """Parameters that a role has not that ends at a service."""
    why = "it is of virtlab's own server, and the role ends at a service"
    return dict.fromkeys(OF_OUR_SERVER, why) | (
        {"request": "a GET over HTTP is its head alone"} if _over_http(values) else {}
    )


def _never(values: Values) -> frozenset[str]:
    """Metrics that such a role cannot have."""
    none = {"refused_requests" if _over_http(values) else "failed_requests"}
    if values.get(PASSIVE_SHARE.plan) is None:
        none |= {"forwarded_requests", "bad_gateway_requests"}
    none |= {"request_errors"} if _speaks(values) == UDP else STRAY
    return frozenset(none if values.get("retries") is not None else {*none, "retries"})


def _only_at_services(values: Values) -> list[tuple[str, str]]:
    if not _over_http(values):
        return []
    others = " or ".join(speaking(HTTP))
    cure = f"let the role end at a service ('to: SERVICE'), or take {others}"
    return [("protocol", f"virtlab's own server speaks its own protocol; {cure}")]


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    traffic_ns = min(traffic_ns, int(values["duration_ns"]))
    samples = values.get("demand_samples_ns", [0])
    turn_ns = RESPONSE_GUESS_NS + sum(samples) // len(samples)
    turn_ns += sum(int(values.get(key, 0)) for key in ("serial_demand_ns", "demand_ns", "think_ns"))
    rate, trace = values.get("rate_per_s"), values.get("trace_ns")
    if rate is not None:
        due = int(rate) * traffic_ns // 10**9 + 1
    elif trace is not None:
        passes, rest_ns = divmod(traffic_ns, int(values.get("trace_period_ns", traffic_ns + 1)))
        due = passes * len(trace) + bisect_left(trace, rest_ns)
    else:
        due = int(values["connections"]) * traffic_ns // turn_ns
    return {"response/1": due}


def works(values: Values) -> bool:
    """Whether its server takes processor time for a request."""
    return any(values.get(key) is not None for key in ("serial_demand_ns", "demand_ns", "demand_samples_ns"))


def _empirical(values: Values) -> list[tuple[str, str]]:
    empirical, sampled = values.get("demand_distribution") == EMPIRICAL, "demand_samples_ns" in values
    if empirical and not sampled:
        what = "an empirical demand is drawn from samples"
        return [("demand_distribution", f"{what}; write 'demand_samples: {SAMPLES_EXAMPLE}'")]
    if sampled and not empirical:
        what = "only an empirical demand has samples"
        return [("demand_samples", f"{what}; write 'demand_distribution: {EMPIRICAL}', or remove them")]
    if sampled and values.get("demand_ns") is not None:
        return [("demand", "an empirical demand has the mean of its samples; remove 'demand'")]
    return []


def _trace(values: Values) -> list[tuple[str, str]]:
    times, period_ns = values.get("trace_ns"), values.get("trace_period_ns")
    traced = values.get("arrivals") == TRACE
    if traced and times is None:
        return [
            ("arrivals", f"requests are due at the times of a trace; write 'trace: {FILE_BESIDE.example}'")
        ]
    if times is None:
        what = "there is no trace to begin again"
        return (
            []
            if period_ns is None
            else [("trace_period", f"{what}; write 'arrivals: trace' and 'trace', or remove it")]
        )
    if not traced:
        return [("trace", "requests are due otherwise; write 'arrivals: trace', or remove it")]
    if values.get("rate_per_s") is not None:
        return [("rate", "a trace says when requests are due; remove it, or 'arrivals: trace'")]
    if period_ns is not None and int(period_ns) <= times[-1]:
        last = Duration(times[-1])
        return [("trace_period", f"the last request of the trace is due after {last}; write a longer time")]
    return []


def _lowered(values: Values) -> Values:
    """The values without `arrivals: trace`, which the Plan says by the times of the trace."""
    return {key: value for key, value in values.items() if (key, value) != ("arrivals", TRACE)}


def _too_many(values: Values, bounds: Mapping[str, int]) -> list[tuple[str, str]]:
    return [
        (key, f"{values[key]} {key} are more than one role can keep; write at most {most}")
        for key, most in bounds.items()
        if int(values.get(key, 1)) > most
    ]


def _size(values: Values, key: str) -> list[tuple[str, str]]:
    what = f"a {key} has a head of {HEADER_BYTES} B and at most 64 MiB"
    size = int(values.get(f"{key}_bytes", HEADER_BYTES))  # a role that ends at a service has no such size
    if not HEADER_BYTES <= size <= MESSAGE_MAX_BYTES:
        return [(key, f"{what}; write e.g. '64 B'")]
    if _speaks(values) == UDP and size > DATAGRAM_MAX_BYTES:
        what = f"a {key} over UDP is one datagram, of at most {DATAGRAM_MAX_BYTES} B"
        return [(key, f"{what}; write a smaller size, or 'protocol: {TCP}'")]
    return []


def _does_not_fit(values: Values, service: Values) -> list[str]:
    """Why a role cannot ask a service of virtlab's own server, each as "WHAT; CURE"."""
    return [text for _, text in _size({**service, "protocol": _speaks(values)}, "response")]


def server_mistakes(values: Values) -> list[tuple[str, str]]:
    """Parameters of virtlab's own server that do not fit together, each with "WHAT; CURE"."""
    found = _too_many(values, {"threads": THREADS_MAX, "subtasks": SUBTASKS_MAX}) + _size(values, "response")
    if values.get("demand_distribution") not in (None, EMPIRICAL) and not works(values):
        found.append(("demand_distribution", "there is no demand; write 'demand', or remove it"))
    if float(values.get("lock_ratio") or 0) > 1:
        found.append(("lock", "all of the work is the most that can be done under it; write at most '100 %'"))
    if values.get("lock_ratio") is not None and not works(values):
        found.append(("lock", "there is no demand to do under it; write 'demand', or remove it"))
    if values.get("subtasks") is not None and {"demand_ns", "demand_samples_ns"}.isdisjoint(values):
        found.append(("subtasks", "there is no demand to split into them; write 'demand', or remove it"))
    found += _empirical(values)
    if values.get("demand_variation_ratio") is not None and values.get("demand_distribution") != "lognormal":
        what = "only a lognormal demand has a variation of its own"
        found.append(("demand_variation", f"{what}; write 'demand_distribution: lognormal', or remove it"))
    for key, plan in (("write_mode", "write_mode"), ("idle_write", "idle_write_ns")):
        if values.get(plan) is not None and values.get("write_bytes") is None:
            found.append((key, "nothing is written; write e.g. 'write: 4 KiB', or remove it"))
    if int(values.get("write_bytes", 0)) > MESSAGE_MAX_BYTES:
        found.append(("write", "it is more than one write takes; write at most '64 MiB'"))
    if values.get("pause_after_ns") is not None and values.get("pause_ns") is None:
        found.append(("pause_after", "there is no pause; write 'pause', or remove it"))
    return found


def _check(values: Values) -> list[tuple[str, str]]:
    found = _too_many(values, {"connections": CONNECTIONS_MAX}) + _size(values, "request")
    closed = _closed(values)
    found += _trace(values)
    if closed and values.get("arrivals") not in (None, TRACE):
        what = "without a rate each request follows the answer before"
        found.append(("arrivals", f"{what}; write a rate, or remove it"))
    for plan, key in CLOSED_ONLY.items():
        if not closed and values.get(plan) is not None:
            what = "at a rate requests are due whatever was answered, so no client thinks"
            found.append((key, f"{what}; remove it, or the rate"))
    if closed and values.get("think_distribution") is not None and values.get("think_ns") is None:
        found.append(("think_distribution", "there is no time to think; write 'think', or remove it"))
    for key, other in (("retries", "retry_after"), ("retry_after", "retries")):
        if values.get(RETRY[key]) is not None and values.get(RETRY[other]) is None:
            found.append((key, f"without '{other}' no request is asked again; write '{other}', or remove it"))
    if int(values.get("retries", 0)) > RETRIES_MAX:
        found.append(("retries", f"a request is asked again {RETRIES_MAX} times at most; write fewer"))
    for plan, key in OF_TCP.items():
        if values.get(plan) is not None and _speaks(values) == UDP:
            found.append((key, f"it is of TCP; write 'protocol: {TCP}', or remove it"))
    if float(values.get(PASSIVE_SHARE.plan) or 0) > 0 and _speaks(values) == UDP:
        what = "a passive server takes requests over TCP alone"
        found.append((PASSIVE_SHARE.name, f"{what}; write 'protocol: {TCP}', or remove it"))
    for key in OF_HTTP:
        if values.get(key) is not None and not _over_http(values):
            found.append((key, "it is of HTTP; write 'protocol: http', or remove it"))
    return found + server_mistakes(values)


REQUEST_RESPONSE = Workload(
    name=NAME,
    meaning="requests to a server that works for each, at a rate or from clients that think",
    part="measure",
    parameters=(
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "for which requests are due", "10 s"),
        Parameter(
            "rate", REQUEST_RATE, "rate_per_s",
            "requests due per second; absent: each connection is a client that asks in turns", tunable=True,
        ),
        Parameter(
            "arrivals", ARRIVALS, "arrivals",
            "of a rate: constant, or poisson, exponential of the same mean; or at the times of a trace; absent: constant",
        ),
        Parameter(
            TRACE, FILE_BESIDE, TRACE,
            "file beside the experiment file with the times at which requests are due, from the start of the role",
        ),
        Parameter(
            "trace_period", POSITIVE_DURATION, "trace_period_ns",
            "the trace begins again so long after it began; absent: after its last request none is due",
        ),
        Parameter(
            "protocol", choice(TCP, UDP, HTTP), "protocol",
            "virtlab's own over TCP or UDP, or GET over HTTP/1.1 to a service; absent: tcp",
        ),
        SERVICE_PORT,
        SERVICE_GUEST,
        PASSIVE_SHARE,
        Parameter("path", PATH, "path", "target of requests over HTTP; absent: '/'"),
        Parameter("keep_alive", FLAG, "keep_alive", "a connection carries more than one request over HTTP; absent: it does"),
        Parameter("connections", COUNT, "connections", "on each there is one request at a time", SHARED),
        Parameter(
            "think", POSITIVE_DURATION, "think_ns", "of a client, between an answer and its next request; absent: none"
        ),
        Parameter(
            "think_distribution", DISTRIBUTION, "think_distribution",
            "constant, or exponential of the same mean; absent: constant",
        ),
        Parameter("request", POSITIVE_SIZE, "request_bytes", "of a request, with its head of 16 B", SHARED),
        Parameter("response", POSITIVE_SIZE, "response_bytes", "of an answer, with its head of 16 B", SHARED),
        Parameter("timeout", POSITIVE_DURATION, "timeout_ns", "a request without its answer by then is given up", SHARED),
        Parameter(
            "retries", COUNT, "retries", "tries of a request beyond its first, counted apart from requests; absent: none"
        ),
        Parameter(
            "retry_after", POSITIVE_DURATION, "retry_after_ns",
            "from the begin of a try to the next, where no answer came or it was refused, failed or broken",
        ),
        Parameter("deadline", POSITIVE_DURATION, "deadline_ns", "an answer after it is late; absent: none is"),
        Parameter(
            "serial_demand", POSITIVE_DURATION, "serial_demand_ns",
            "processor time that a request takes before its subtasks, as counted work; absent: none",
        ),
        Parameter(
            "demand", POSITIVE_DURATION, "demand_ns", "processor time that a request takes at the server, as counted work; "
            "absent: none",
        ),
        Parameter(
            "subtasks", COUNT, "subtasks",
            f"into which the demand is split, for as many threads at a time; absent: {usual(NAME, 'subtasks')}",
        ),
        Parameter(
            "demand_distribution", choice("constant", "exponential", "lognormal", EMPIRICAL), "demand_distribution",
            "of the serial stage and of each subtask: constant, exponential or lognormal of the same mean, or drawn from "
            "samples; absent: constant",
        ),
        Parameter(
            "demand_variation", RATIO, "demand_variation_ratio",
            f"of a lognormal demand: standard deviation over mean; absent: {usual(NAME, 'demand_variation_ratio'):.0%}",
        ),
        Parameter(
            "demand_samples", SAMPLES, "demand_samples_ns",
            "of an empirical demand: measured processor times, each as likely; absent: none",
        ),
        Parameter(
            "lock", RATIO, "lock_ratio",
            "of the server: the share of all its work that one thread at a time does, under a lock; absent: none",
        ),
        Parameter(
            "write", POSITIVE_SIZE, "write_bytes",
            "of the server: what it writes to a file of its own for each request; absent: nothing",
        ),
        Parameter(
            "write_mode", choice("buffered", "fsync", "throttled"), "write_mode",
            "to the kernel (buffered), to the disk (fsync), or to the disk in at most half of the time (throttled); absent: "
            "buffered",
        ),
        Parameter(
            "idle_write", POSITIVE_DURATION, "idle_write_ns",
            "of the server: it writes as much where it has not for so long, requests or not; absent: it does not",
        ),
        Parameter("threads", COUNT, "threads", "of the server: requests that are served at a time", SHARED),
        Parameter("backlog", COUNT, "backlog", "of the server: requests that wait for a thread, at most", SHARED),
        Parameter(
            "full", choice("reject", "wait"), "full",
            "of the server: what comes beyond its backlog is refused, or waits, too", SHARED,
        ),
        Parameter(
            "pause", POSITIVE_DURATION, "pause_ns", "of the server: for how long it serves nothing, once; absent: never"
        ),
        Parameter("pause_after", DURATION, "pause_after_ns", "from the first request to that pause; absent: at once"),
        *TCP_BUFFERS,
        CONGESTION_CONTROL,
        CODE_POINT,
        ECN,
    ),
    streams={"response/1": "from"},
    metrics=PROBE | SEARCH | OF_CLIENTS | {
        "response_time", "client_wait", "request_rate", "answer_rate", "refused_requests", "late_requests", "lost_requests",
        "censored_requests", "request_errors", "failed_requests", "retries", "forwarded_requests", "bad_gateway_requests",
    } | STRAY,
    transport=lambda values: "udp" if _speaks(values) == UDP else "tcp",
    duration_ns=lambda values: int(values["duration_ns"]) + int(values["timeout_ns"]),  # of the last request
    rows=_rows,
    check=_check,
    lowered=_lowered,
    turns=_closed,
    traced=TRACE,
    never=_never,
    at_service=AtService(
        speaks=_speaks, without=_without, only=_only_at_services, does_not_fit=_does_not_fit, places=True
    ),
    works=works,
    told_by=frozenset({"testbed", "simulator"}),
)  # fmt: skip
