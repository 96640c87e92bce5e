"""A router's licence, on every backend: a token bucket at each of its ports, and what may wait before it.

The bucket counts frames as the kernel does, with the Ethernet header and without FCS, and holds two of the largest.
"""

from __future__ import annotations

from virtlab.plan import Vnic
from virtlab.units.ethernet import AROUND_PACKET_BYTES

BURST_FRAMES = 2
QUEUE_PACKETS = 100


def burst_bytes(vnic: Vnic) -> int:
    """Tokens that the bucket of a port holds.

    >>> burst_bytes(Vnic(uplink="u", mac="02:00:00:00:00:01"))
    3076
    """
    return BURST_FRAMES * (vnic.mtu_bytes + AROUND_PACKET_BYTES)
