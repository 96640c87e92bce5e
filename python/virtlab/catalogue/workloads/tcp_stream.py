"""`tcp_stream`: bytes over TCP as fast as it goes, with netperf's meaning of buffers and message (TCP_STREAM).

Goodput is what the receiver read; retransmits and smoothed RTT come from the sender's TCP_INFO.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue.declaration import Parameter, Values, Workload
from virtlab.catalogue.kinds import COUNT, DSCP, FLAG, POSITIVE_DURATION, POSITIVE_SIZE, choice
from virtlab.catalogue.measures import PROBE, SEARCH

INTERVAL_NS = 100_000_000  # of progress rows


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    return {"interval/1": int(values["streams"]) * (traffic_ns // INTERVAL_NS + 1)}


TCP_STREAM = Workload(
    name="tcp_stream",
    meaning="bytes over TCP as fast as possible, one way",
    part="measure",
    parameters=(
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "how long it sends", "10 s"),
        Parameter("message", POSITIVE_SIZE, "message_bytes", "bytes per send call", "16 KiB"),
        Parameter(
            "send_buffer",
            POSITIVE_SIZE,
            "send_buffer_bytes",
            "socket buffer of the sender; absent: the system's",
        ),
        Parameter(
            "receive_buffer", POSITIVE_SIZE, "receive_buffer_bytes", "of the receiver; absent: the system's"
        ),
        Parameter("streams", COUNT, "streams", "number of connections", 1),
        Parameter(
            "congestion_control",
            choice("cubic", "newreno"),
            "congestion_control",
            "how it answers congestion; absent: the system's (simulator: cubic)",
        ),
        Parameter("dscp", DSCP, "dscp", "code point in the IP headers of its packets, both ways"),
        Parameter("ecn", FLAG, "ecn", "packets may be marked instead of dropped (RFC 3168); absent: no"),
        Parameter("no_delay", FLAG, "no_delay", "switches Nagle's algorithm off", default=False),
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
