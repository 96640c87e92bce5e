"""`burst_load`: L bytes every T, shared over S streams; what was achieved is recorded.

A stream sends its share L/S as one datagram, in fragments when it exceeds the MTU, so a stream carries at
most the payload of one IPv4 datagram: 65,535 B less 20 B of IP header and 8 B of UDP or ICMP header. `burst:
0 B` asks for no load: the role then makes no traffic at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue.declaration import SHARED, Parameter, Values, Workload, usual
from virtlab.catalogue.kinds import COUNT, DURATION, POSITIVE_DURATION, SIZE, choice
from virtlab.catalogue.measures import LOAD, PROBE, SEARCH
from virtlab.catalogue.sockets import CODE_POINT
from virtlab.units import Size

STREAM_MAX_BYTES = 65_535 - 20 - 8
FRAGMENT_BYTES = 1480  # of what an IPv4 packet carries at the usual MTU


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    sides = 2 if values["origin"] == "both" else 1
    return {"burst/1": sides * int(values["streams"]) * (traffic_ns // int(values["period_ns"]) + 1)}


def _packets_per_s(values: Values) -> float:
    """The most packets of each end in a second: bursts of both directions, in fragments."""
    streams = int(values["streams"])
    fragments = streams * -(-int(values["burst_bytes"]) // (streams * FRAGMENT_BYTES))
    return 2 * fragments * 1e9 / int(values["period_ns"])


def _check(values: Values) -> list[tuple[str, str]]:
    burst_bytes, streams = int(values["burst_bytes"]), int(values["streams"])
    mistakes = []
    if streams > 1024:
        mistakes.append(
            ("streams", f"{streams} streams are more than one role can carry; write at most 1024")
        )
    elif -(-burst_bytes // streams) > STREAM_MAX_BYTES:
        most = Size(STREAM_MAX_BYTES * streams)
        need = -(-burst_bytes // STREAM_MAX_BYTES)
        what = f"{Size(burst_bytes)} in {streams} stream{'s' if streams > 1 else ''}"
        cure = f"write at most '{most}', or at least {need} streams"
        mistakes.append(("burst", f"{what} is more than one datagram per stream carries; {cure}"))
    elif 0 < burst_bytes < streams:
        mistakes.append(
            ("burst", f"{burst_bytes} B cannot be shared by {streams} streams; write at least '{streams} B'")
        )
    if int(values["phase_ns"]) >= int(values["period_ns"]):
        mistakes.append(
            ("phase_offset", "the offset is not shorter than the period; write a time below the period")
        )
    return mistakes


BURST_LOAD = Workload(
    name="burst_load",
    meaning="bursts of bytes at a fixed period, in several streams",
    part="load",
    parameters=(
        Parameter(
            "burst", SIZE, "burst_bytes", "payload bytes per period over all streams; 0 B: no load",
            required=True, tunable=True
        ),
        Parameter("period", POSITIVE_DURATION, "period_ns", "time between bursts", "10 ms"),
        Parameter("streams", COUNT, "streams", "number of streams that share a burst", SHARED),
        Parameter("protocol", choice("udp", "icmp"), "protocol", "what carries the bursts", SHARED),
        Parameter(
            "direction", choice("one_way", "request_reply"), "direction", "does the far end send each burst back?", SHARED
        ),
        Parameter("origin", choice("from", "to", "both"), "origin", "which end originates bursts", SHARED),
        Parameter(
            "phase", choice("fixed", "spread", "random"), "phase",
            "of the streams: all at once, spread over the period, or random per run", SHARED,
        ),
        CODE_POINT,
        Parameter("phase_offset", DURATION, "phase_ns", "the first burst after the start", SHARED),
    ),
    streams={"burst/1": "from"},
    metrics=PROBE | SEARCH | LOAD | {
        "loss", "burst_time", "achieved_burst", "pacing_error", "late_bursts",
    },
    transport=lambda values: values.get("protocol", usual("burst_load", "protocol")),
    duration_ns=lambda _: None,
    rows=_rows,
    check=_check,
    idle=lambda values: values.get("burst_bytes") == 0,
    packets_per_s=_packets_per_s,
    envelope="bursts",
    one_way=lambda values: values.get("direction") != "request_reply",
    grace_ns=40_000_000,
)  # fmt: skip
