"""Parameters that several workloads have of their sockets and packets, so that they are called and explained alike."""

from __future__ import annotations

from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import DSCP, FLAG, POSITIVE_SIZE, choice

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
