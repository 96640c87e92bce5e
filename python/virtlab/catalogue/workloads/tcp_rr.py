"""`tcp_rr`: one request, one response, one at a time, over one TCP connection; netperf's TCP_RR.

Transactions per second is its rate; every transaction's time is kept, since 1/rate is only a mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue.declaration import SHARED, Parameter, Values, Workload
from virtlab.catalogue.kinds import POSITIVE_DURATION, POSITIVE_SIZE
from virtlab.catalogue.measures import PROBE, SEARCH
from virtlab.catalogue.sockets import CODE_POINT, CONGESTION_CONTROL, ECN, TCP_BUFFERS
from virtlab.metrics.migration import OF_CLIENTS

TRANSACTION_GUESS_NS = 50_000  # of an estimate


def _rows(_: Values, traffic_ns: int) -> Mapping[str, int]:
    return {"transaction/1": traffic_ns // TRANSACTION_GUESS_NS}


TCP_RR = Workload(
    name="tcp_rr",
    meaning="request and response over TCP, one at a time",
    part="measure",
    parameters=(
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "how long it lasts", "10 s"),
        Parameter("request", POSITIVE_SIZE, "request_bytes", "bytes of a request", SHARED),
        Parameter("response", POSITIVE_SIZE, "response_bytes", "bytes of a response", SHARED),
        *TCP_BUFFERS,
        CONGESTION_CONTROL,
        CODE_POINT,
        ECN,
    ),
    streams={"transaction/1": "from"},
    metrics=PROBE | SEARCH | OF_CLIENTS | {"transaction_time", "transaction_rate"},
    transport=lambda _: "tcp",
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    endless=True,
    turns=lambda _: True,
    envelope="window",
    tells=lambda _: "transaction/1",
)
