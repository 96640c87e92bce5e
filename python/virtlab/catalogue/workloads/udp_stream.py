"""`udp_stream`: datagrams at a rate or as fast as possible, one way; throughput, jitter, loss, one-way delay.

RFC 3550 jitter as iperf computes it, IPDV (RFC 3393), PDV (RFC 5481). `rate` is of IP packets; without it the
sender goes as fast as its access link lets it.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue.declaration import Parameter, Values, Workload, size_of, size_parameter
from virtlab.catalogue.kinds import ARRIVALS, POSITIVE_DURATION, POSITIVE_SIZE, RATE, RATE_OR_NONE
from virtlab.catalogue.measures import STREAM
from virtlab.catalogue.sockets import CODE_POINT
from virtlab.units.ethernet import HEADER_AND_FCS_BYTES

PAYLOAD_MAX_BYTES = 65_535 - 20 - 8
HEADERS_BYTES = {"frame": HEADER_AND_FCS_BYTES + 20 + 8, "ip_packet": 20 + 8, "payload": 0}
STAMP_BYTES = 16  # sequence number and send time in every datagram
RATE_GUESS_BIT_PER_S = 100_000_000  # of an estimate, where the file does not say the rate


def payload_bytes(values: Values) -> int:
    """Payload of one datagram over IPv4."""
    layer, size_bytes = size_of(values)
    return size_bytes - HEADERS_BYTES[layer]


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    rate = int(values.get("rate_bit_per_s", RATE_GUESS_BIT_PER_S))
    return {"packet/1": rate * traffic_ns // (8 * (payload_bytes(values) + 28)) // 10**9 + 1}


def _check(values: Values) -> list[tuple[str, str]]:
    layer, _ = size_of(values)
    payload = payload_bytes(values)
    if payload < STAMP_BYTES:
        least = STAMP_BYTES + HEADERS_BYTES[layer]
        return [("size", f"no room for sequence number and send time; write at least '{least} B {layer}'")]
    if payload > PAYLOAD_MAX_BYTES:
        most = PAYLOAD_MAX_BYTES + HEADERS_BYTES[layer]
        return [("size", f"more than one datagram can carry; write at most '{most} B {layer}'")]
    return []


UDP_STREAM = Workload(
    name="udp_stream",
    meaning="datagrams at a rate or as fast as possible, one way",
    part="measure",
    parameters=(
        Parameter(
            "rate",
            RATE,
            "rate_bit_per_s",
            "of IP packets; 0 bit/s: no stream; absent: as fast as possible",
            tunable=True,
            at_start=RATE_OR_NONE,
        ),
        CODE_POINT,
        Parameter(
            "arrivals",
            ARRIVALS,
            "arrivals",
            "gaps: constant, or poisson, exponential of the same mean; absent: constant",
        ),
        size_parameter("1472 B payload"),
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "how long it sends", "10 s"),
        Parameter(
            "send_buffer", POSITIVE_SIZE, "send_buffer_bytes", "socket buffer of the sender; absent: 512 KiB"
        ),
        Parameter(
            "receive_buffer", POSITIVE_SIZE, "receive_buffer_bytes", "of the receiver; absent: 64 MiB"
        ),
    ),
    streams={"packet/1": "to"},
    metrics=STREAM,
    transport=lambda _: "udp",
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    check=_check,
    idle=lambda values: values.get("rate_bit_per_s") == 0,
    meters=("virtlab", "iperf3"),
    parts=True,
    pace="rate_bit_per_s",
    envelope="datagrams",
    one_way=lambda _: True,
    tells=lambda _: "packet/1",
)  # fmt: skip
