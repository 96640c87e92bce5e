"""`tcp_stream`: bytes over TCP as fast as it goes, with netperf's meaning of buffers and message (TCP_STREAM).

Goodput is what the receiver read; retransmits and smoothed RTT come from the sender's TCP_INFO.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue.declaration import SHARED, Parameter, Values, Workload, usual
from virtlab.catalogue.kinds import COUNT, FLAG, POSITIVE_DURATION, POSITIVE_SIZE
from virtlab.catalogue.measures import PROBE, SEARCH
from virtlab.catalogue.sockets import CODE_POINT, CONGESTION_CONTROL, ECN, TCP_BUFFERS

INTERVAL_NS: int = usual("tcp_stream", "interval_ns")  # of progress rows


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    return {"interval/1": int(values["streams"]) * (traffic_ns // INTERVAL_NS + 1)}


TCP_STREAM = Workload(
    name="tcp_stream",
    meaning="bytes over TCP as fast as possible, one way",
    part="measure",
    parameters=(
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "how long it sends", "10 s"),
        Parameter("message", POSITIVE_SIZE, "message_bytes", "bytes per send call", SHARED),
        *TCP_BUFFERS,
        Parameter("streams", COUNT, "streams", "number of connections", SHARED),
        CONGESTION_CONTROL,
        CODE_POINT,
        ECN,
        Parameter("no_delay", FLAG, "no_delay", "switches Nagle's algorithm off", SHARED),
    ),
    streams={"interval/1": "to"},
    metrics=PROBE | SEARCH | {"srtt", "goodput", "fairness", "retransmits", "congestion_window"},
    transport=lambda _: "tcp",
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    meters=("virtlab", "iperf3"),
    endless=True,
    envelope="window",
)
