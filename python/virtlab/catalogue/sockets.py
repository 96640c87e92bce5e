"""Parameters that several workloads have of their sockets and packets, so that they are called and explained alike."""

from __future__ import annotations

import re
from typing import Any

from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import DSCP, FLAG, POSITIVE_SIZE, TEXT, Kind, choice, shown

PORT_MAX = 65_535
TARGET = r"/[!-~]{0,1023}"


def _port(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= PORT_MAX:
        raise ValueError(f"'{shown(value)}' is not a TCP port; write a number from 1 to {PORT_MAX}")
    return value


PORT = Kind("port", _port, {"type": "integer", "minimum": 1, "maximum": PORT_MAX}, "8080")
SERVICE_PORT = Parameter(
    "port", PORT, "port", "of the service at which it ends; absent: the one of its 'ready'"
)


def _path(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(TARGET, value):
        raise ValueError(
            f"'{shown(value)}' is not a path; write '/' and visible ASCII characters, e.g. '/index.html'"
        )
    return value


PATH = Kind("path", _path, {"type": "string", "pattern": f"^{TARGET}$"}, "/index.html")
FIRST = "first"  # of the guests of a service
ROUND_ROBIN = "round_robin"  # all of them in turn
SERVICE_GUEST = Parameter(
    "server",
    Kind("guest", TEXT.parse, TEXT.schema, "h2.g1"),
    "server",
    "of a service on several guests: the guest that is asked, 'first', the one that it names first, or, of requests over "
    "TCP to servers of virtlab's own, 'round_robin', all in turn",
)

CODE_POINT = Parameter("dscp", DSCP, "dscp", "code point in the IP headers of its packets, both ways")
TCP_BUFFERS = (
    Parameter("send_buffer", POSITIVE_SIZE, "send_buffer_bytes", "socket send buffers; absent: the system's"),
    Parameter(
        "receive_buffer",
        POSITIVE_SIZE,
        "receive_buffer_bytes",
        "socket receive buffers; absent: the system's",
    ),
)
CONGESTION_CONTROL = Parameter(
    "congestion_control",
    choice("cubic", "newreno"),
    "congestion_control",
    "how it answers congestion; absent: the system's (simulator: cubic)",
)
ECN = Parameter("ecn", FLAG, "ecn", "packets may be marked instead of dropped (RFC 3168); absent: no")
