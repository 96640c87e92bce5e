"""`http_get`: GET requests over HTTP/1.1 and their answers: virtlab's own client, its own server or a service.

On each connection there is one request at a time. Without `rate` each follows the answer before (a closed loop); with
it requests are due by a schedule, whatever has been answered, and their time counts from when they were due (open
loop).
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue.declaration import SHARED, AtService, Parameter, Values, Workload
from virtlab.catalogue.kinds import ARRIVALS, COUNT, FLAG, POSITIVE_DURATION, REQUEST_RATE, SIZE
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
from virtlab.metrics.migration import OF_CLIENTS

CONNECTIONS_MAX = 1024
RESPONSE_MAX_BYTES = 64 << 20
TRANSACTION_GUESS_NS = 50_000  # of an estimate, on one connection


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    traffic_ns = min(traffic_ns, int(values["duration_ns"]))
    closed = int(values["connections"]) * traffic_ns // TRANSACTION_GUESS_NS
    rate = values.get("rate_per_s")
    return {"transaction/1": closed if rate is None else int(rate) * traffic_ns // 10**9 + 1}


def _check(values: Values) -> list[tuple[str, str]]:
    found = []
    if int(values["connections"]) > CONNECTIONS_MAX:
        what = f"{values['connections']} connections are more than one role can keep"
        found.append(("connections", f"{what}; write at most {CONNECTIONS_MAX}"))
    if int(values["response_bytes"]) > RESPONSE_MAX_BYTES:
        found.append(("response", "a body is at most 64 MiB; write less, e.g. '1 MiB'"))
    if values.get("arrivals") is not None and values.get("rate_per_s") is None:
        found.append(
            ("arrivals", "without a rate each request follows the answer before; write a rate, or remove it")
        )
    return found


HTTP_GET = Workload(
    name="http_get",
    meaning="GET requests over HTTP/1.1, in turns or at a rate",
    part="measure",
    parameters=(
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "for which requests are due", "10 s"),
        Parameter("connections", COUNT, "connections", "on each there is one request at a time", SHARED),
        Parameter("keep_alive", FLAG, "keep_alive", "a connection carries more than one request", SHARED),
        Parameter("path", PATH, "path", "target of the requests", SHARED),
        SERVICE_PORT,
        SERVICE_GUEST,
        Parameter("response", SIZE, "response_bytes", "body of an answer", SHARED),
        Parameter("rate", REQUEST_RATE, "rate_per_s", "requests due per second; absent: each follows the answer before"),
        Parameter(
            "arrivals", ARRIVALS, "arrivals",
            "of a rate: constant, or poisson, exponential of the same mean; absent: constant",
        ),
        Parameter(
            "timeout", POSITIVE_DURATION, "timeout_ns", "a request without a whole answer by then is given up", SHARED
        ),
        *TCP_BUFFERS,
        CONGESTION_CONTROL,
        CODE_POINT,
        ECN,
    ),
    streams={"transaction/1": "from"},
    metrics=PROBE | SEARCH | OF_CLIENTS | {"transaction_time", "transaction_rate", "request_errors"},
    transport=lambda _: "tcp",
    duration_ns=lambda values: int(values["duration_ns"]) + int(values["timeout_ns"]),  # of the last request
    rows=_rows,
    check=_check,
    endless=True,
    turns=lambda values: values.get("rate_per_s") is None,
    at_service=AtService(
        speaks=lambda _: "http",
        without=lambda _: {"response": "the service's answers are as long as it makes them"},
        only=lambda _: [],
    ),
    arms={"testbed": None, "simulator": "heads of requests and connections that come and go are not modelled"},
)  # fmt: skip
