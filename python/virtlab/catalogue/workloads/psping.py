"""`psping`: the tests of Sysinternals PsPing v2: ping (ICMP, or connecting over TCP), latency, bandwidth.

`size` is `-l`, `count` `-n`, `warmup` `-w`, `at_most` `-n 10s`, `reverse` `-r`; `interval` is `-i` of a ping and
`outstanding` `-i` of a bandwidth test. PsPing's own defaults of `-w` are 1 (ping), 5 (latency) and twice the CPUs
(bandwidth, and at least as many as are outstanding), of `-i` in a bandwidth test the lesser of 16 and twice the CPUs;
here no default depends on a machine. `histogram` is `-h`.

A request is over when the far end has it whole and its answer is back. PsPing does not say how long the answer of its
server is; 1 B fits the published 28 ms of 8192 B over 2.5 Mbit/s, which take 26.2 ms one way and 52.4 ms as an echo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.catalogue.declaration import SHARED, Parameter, Values, Workload
from virtlab.catalogue.kinds import (
    COUNT,
    COUNT_MAX,
    DURATION,
    FLAG,
    POSITIVE_DURATION,
    POSITIVE_SIZE,
    SIZE,
    Kind,
    PlacedError,
    choice,
    shown,
)
from virtlab.catalogue.measures import PROBE, SEARCH

DATAGRAM_MAX_BYTES = 65_507
STREAM_MAX_BYTES = 64 << 20
REQUEST_GUESS_NS = 500_000  # of an estimate, where neither interval nor bound says the time
RATE_GUESS_BYTE_PER_S = 10_000_000
BUCKETS_MAX = 200


def _warmup(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise ValueError(f"'{shown(value)}' is not a number of requests; write 0 or more, without a unit")
    return value


def _histogram(value: Any) -> tuple[str, Any]:
    """Plan name and value: a number of equal buckets, or the edges between buckets."""
    if not isinstance(value, list):
        return "histogram_buckets", BUCKETS.parse(value)
    if not 1 <= len(value) <= BUCKETS_MAX:
        raise ValueError(f"{len(value)} times make no histogram; write between 1 and {BUCKETS_MAX}")
    edges: list[int] = []
    for place, edge in enumerate(value):
        try:
            edges.append(POSITIVE_DURATION.parse(edge))
        except ValueError as error:
            raise PlacedError((place,), str(error)) from None
        if edges[-1] <= max(edges[:-1], default=0):
            raise PlacedError(
                (place,), f"'{shown(edge)}' is not above the time before it; write rising times"
            )
    return "histogram_edges_ns", edges


def _buckets(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= BUCKETS_MAX:
        what = f"'{shown(value)}' is not a number of buckets"
        raise ValueError(f"{what}; write 1 to {BUCKETS_MAX}, or a list of times, e.g. '[1 ms, 5 ms]'")
    return value


BUCKETS = Kind("count", _buckets, {"type": "integer", "minimum": 1, "maximum": BUCKETS_MAX}, "20")
HISTOGRAM = Kind(
    "list of times between buckets, or how many buckets",
    _histogram,
    {"anyOf": [BUCKETS.schema, {"type": "array", "minItems": 1, "items": POSITIVE_DURATION.schema}]},
    "[1 ms, 5 ms]",
)
WARMUP = Kind("count", _warmup, {"type": "integer", "minimum": 0, "maximum": COUNT_MAX}, "5")


def _total(values: Values) -> int:
    return int(values["count"]) + int(values["warmup"])


def _duration_ns(values: Values) -> int:
    each_ns = max(int(values["interval_ns"]), REQUEST_GUESS_NS)
    if values["test"] == "bandwidth":
        each_ns = int(values["request_bytes"]) * 10**9 // RATE_GUESS_BYTE_PER_S
    expected_ns = _total(values) * each_ns + int(values["timeout_ns"])
    return min(expected_ns, int(values.get("limit_ns", expected_ns)))


def _rows(values: Values, _: int) -> Mapping[str, int]:
    total = _total(values)
    return {"sent/1": total, "rtt/1": total} if values["protocol"] == "icmp" else {"request/1": total}


def _check(values: Values) -> list[tuple[str, str]]:
    test, protocol, size_bytes = values["test"], values["protocol"], int(values["request_bytes"])
    allowed = ("icmp", "tcp") if test == "ping" else ("tcp", "udp")
    if protocol not in allowed:
        return [("protocol", f"test {test} does not go over {protocol}; write {' or '.join(allowed)}")]
    largest = max(size_bytes, int(values["response_bytes"]))
    most = DATAGRAM_MAX_BYTES if protocol in {"udp", "icmp"} else STREAM_MAX_BYTES
    if largest > most:
        return [
            ("size", f"{largest} B is more than a request over {protocol} holds; write at most '{most} B'")
        ]
    if size_bytes == 0 and protocol != "icmp" and test != "ping":
        return [("size", "a request of nothing cannot be answered; write at least '1 B'")]
    if protocol == "icmp" and values.get("limit_ns") is not None:
        return [("at_most", "an ICMP ping ends by its count; remove 'at_most'")]
    return []


def _tells(values: Values) -> str | None:
    if values.get("protocol") == "icmp":
        return "rtt/1"
    return "request/1" if values.get("test") in {"latency", "ping"} else None


def _never(values: Values) -> frozenset[str]:
    """Each test of PsPing measures one thing.

    >>> sorted(_never({"test": "latency", "protocol": "tcp"}))
    ['bandwidth', 'connect_time', 'transaction_time']
    """
    test = values.get("test")
    if test == "bandwidth":
        return frozenset({"rtt", "connect_time"})
    connecting = test == "ping" and values.get("protocol") == "tcp"
    return frozenset({"bandwidth", "transaction_time", "rtt" if connecting else "connect_time"})


PSPING = Workload(
    name="psping",
    meaning="PsPing's tests: ping, latency and bandwidth of requests of a given size",
    part="measure",
    parameters=(
        Parameter("test", choice("latency", "ping", "bandwidth"), "test", "which of PsPing's tests", "latency"),
        Parameter("protocol", choice("tcp", "udp", "icmp"), "protocol", "what carries the requests", "tcp"),
        Parameter("size", SIZE, "request_bytes", "payload of a request (-l)", "32 B"),
        Parameter("response", POSITIVE_SIZE, "response_bytes", "payload of its answer; over UDP at least 18 B", SHARED),
        Parameter("count", COUNT, "count", "requests that count (-n)", 100),
        Parameter("warmup", WARMUP, "warmup", "requests before them that do not (-w)", 5),
        Parameter("interval", DURATION, "interval_ns", "least time between two requests (-i of a ping)", SHARED),
        Parameter("outstanding", COUNT, "outstanding", "requests under way in a bandwidth test (-i)", 16),
        Parameter("reverse", FLAG, "reverse", "the server sends `size` and the client `response` (-r)", SHARED),
        Parameter(
            "timeout", POSITIVE_DURATION, "timeout_ns", "an answer or a connection later than this is lost; TCP waits",
            SHARED,
        ),
        Parameter("at_most", POSITIVE_DURATION, "limit_ns", "ends after this time, even with requests left (-n 10s)"),
        Parameter(
            "histogram", HISTOGRAM, "histogram_buckets", "buckets in the report, or the times between them (-h); absent: 20"
        ),
    ),
    streams={"request/1": "from", "sent/1": "from", "rtt/1": "from"},
    metrics=PROBE | SEARCH | {"rtt", "loss", "transaction_time", "connect_time", "bandwidth"},
    transport=lambda values: values.get("protocol", "tcp"),
    duration_ns=_duration_ns,
    rows=_rows,
    check=_check,
    never=_never,
    turns=lambda values: values.get("test") == "latency",
    envelope="unbounded",
    tells=_tells,
)  # fmt: skip
