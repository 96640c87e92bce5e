"""`rtt`: requests on an open-loop schedule, each answered by the far end; every round trip is kept.

ICMP echo as ping does it, or UDP echo. A size above the MTU travels in fragments; 65,500 B is the largest
that all variants of the echo can carry. Source of the meaning of min/avg/max/mdev: iputils ping.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from virtlab.catalogue.declaration import SHARED, Parameter, Values, Workload, size_of, size_parameter, usual
from virtlab.catalogue.kinds import ARRIVALS, COUNT, POSITIVE_DURATION, choice
from virtlab.catalogue.measures import PACKETS, PROBE, SEARCH
from virtlab.catalogue.sockets import CODE_POINT
from virtlab.metrics.migration import OF_CLIENTS
from virtlab.units.ethernet import HEADER_AND_FCS_BYTES

SIZE_MAX_BYTES = 65_500
FRAGMENT_BYTES = 1480  # of what an IPv4 packet carries at the usual MTU
HEADERS_BYTES = {"frame": HEADER_AND_FCS_BYTES + 20 + 8, "ip_packet": 20 + 8, "payload": 0}


def _duration_ns(values: Values) -> int:
    return int(values["count"]) * int(values["interval_ns"]) + int(values["timeout_ns"])


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    sent = int(values["count"])
    if values["interval_ns"]:  # else each follows the reply to the one before
        sent = min(sent, traffic_ns // int(values["interval_ns"]) + 1)
    return {"sent/1": sent, "rtt/1": sent}


def _packets_per_s(values: Values) -> float:
    """The packets of each end in a second, answers included; an echo that each reply calls forth knows no bound."""
    fragments = -(-size_of(values)[1] // FRAGMENT_BYTES)
    return 2 * fragments * 1e9 / values["interval_ns"] if values["interval_ns"] else math.inf


def _check(values: Values) -> list[tuple[str, str]]:
    layer, size_bytes = size_of(values)
    if size_bytes > SIZE_MAX_BYTES:
        return [
            (
                "size",
                f"{size_bytes} B is more than an echo can carry; write at most '{SIZE_MAX_BYTES} B {layer}'",
            )
        ]
    if size_bytes < HEADERS_BYTES[layer]:
        least = HEADERS_BYTES[layer]
        return [
            ("size", f"{size_bytes} B {layer} is less than its headers; write at least '{least} B {layer}'")
        ]
    return []


RTT = Workload(
    name="rtt",
    meaning="round-trip time of requests on an open-loop schedule",
    part="measure",
    parameters=(
        Parameter("protocol", choice("icmp", "udp"), "protocol", "what carries the echo", SHARED),
        CODE_POINT,
        size_parameter("84 B ip_packet"),
        Parameter("interval", POSITIVE_DURATION, "interval_ns", "time between intended send times", "100 ms"),
        Parameter(
            "arrivals",
            ARRIVALS,
            "arrivals",
            "intervals: constant, or poisson, exponential of the same mean; absent: constant",
        ),
        Parameter("count", COUNT, "count", "number of requests", 100),
        Parameter(
            "timeout", POSITIVE_DURATION, "timeout_ns", "a reply later than this counts as lost", SHARED
        ),
    ),
    streams={"sent/1": "from", "rtt/1": "from"},
    metrics=PROBE | SEARCH | PACKETS | OF_CLIENTS | {"rtt", "path_rtt", "pacing_error", "warm_up"},
    transport=lambda values: values.get("protocol", usual("rtt", "protocol")),
    duration_ns=_duration_ns,
    rows=_rows,
    check=_check,
    meters=("virtlab", "ping"),
    packets_per_s=_packets_per_s,
    echoes=True,
    envelope="echoes",
    grace_ns=30_000_000,
    tells=lambda _: "rtt/1",
)
