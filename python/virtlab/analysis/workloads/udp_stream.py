"""`udp_stream`: datagrams one way. Goodput is iperf's figure (UDP payload), throughput counts whole frames.

A datagram larger than the MTU travels as fragments, each a frame of its own: payload cut at multiples of 8 B
(RFC 791; RFC 8200 adds an 8 B fragment header), 18 B of Ethernet header and FCS, 64 B at least.
"""

from __future__ import annotations

from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.analysis.workloads import iperf3, stream
from virtlab.lazy import NDArray, np
from virtlab.units.ethernet import FRAME_LEAST_BYTES, HEADER_AND_FCS_BYTES

UDP_BYTES = 8


def values(context: RoleContext) -> None:
    """All metrics of the stream."""
    if context.parameter("meter") == "iperf3" and not context.has("packet/1"):  # a simulated one has packets
        _by_iperf3(context)
        return
    packets = context.samples("packet/1", "sent_ns", stream.COLUMNS)
    mtu_bytes, version = path_of(context)
    sizes, which = np.unique(packets["payload_bytes"], return_inverse=True)
    if sizes.size == 1:
        frames: NDArray[Any] | int = frames_bytes(int(sizes[0]), mtu_bytes, version)
    else:
        frames = np.array([frames_bytes(int(size), mtu_bytes, version) for size in sizes], dtype=np.int64)[
            which
        ]
    _offered(context, version)
    stream.values(context, frames, packets, whole_frames=False)


def frames_bytes(payload_bytes: int, mtu_bytes: int, version: int) -> int:
    """Bytes of all frames (header to FCS) that carry one datagram.

    >>> frames_bytes(1472, 1500, 4), frames_bytes(1473, 1500, 4), frames_bytes(18, 1500, 4)
    (1518, 1582, 64)
    """
    header_bytes = 20 if version == 4 else 40
    rest = payload_bytes + UDP_BYTES
    if rest + header_bytes <= mtu_bytes:
        return max(FRAME_LEAST_BYTES, rest + header_bytes + HEADER_AND_FCS_BYTES)
    if version == 6:
        header_bytes += 8
    room = (mtu_bytes - header_bytes) // 8 * 8
    total = 0
    while rest > 0:
        part = min(room, rest) if rest > mtu_bytes - header_bytes else rest
        total += max(FRAME_LEAST_BYTES, part + header_bytes + HEADER_AND_FCS_BYTES)
        rest -= part
    return total


def path_of(context: RoleContext) -> tuple[int, int]:
    """(smallest MTU of the two ends in bytes, IP version) of a role."""
    guests = context.record.plan.world.guests
    ends = [guests[end] for end in (context.role.from_, context.role.to) if end in guests]
    vnics = [vnic for guest in ends for vnic in guest.vnics.values()]
    mtu_bytes = min((vnic.mtu_bytes for vnic in vnics), default=1500)
    addresses = [address for vnic in vnics for address in vnic.ip]
    version = 6 if addresses and all(":" in address for address in addresses) else 4
    return mtu_bytes, version


def _by_iperf3(context: RoleContext) -> None:
    mtu_bytes, version = path_of(context)
    offered = _offered(context, version)
    payload = payload_of(context, version)
    frames = frames_bytes(payload, mtu_bytes, version) if payload is not None else 0
    iperf3.values(context, payload_bytes=payload, frame_bytes=frames, offered_bit_per_s=offered)


def payload_of(context: RoleContext, version: int) -> int | None:
    """Payload of one datagram in bytes; None when the role names no size."""
    headers = (20 if version == 4 else 40) + UDP_BYTES
    for name, less in (
        ("payload_bytes", 0),
        ("ip_packet_bytes", headers),
        ("frame_bytes", headers + HEADER_AND_FCS_BYTES),
    ):
        if (size := context.parameter(name)) is not None:
            return int(size) - less
    return None


def _offered(context: RoleContext, version: int) -> float | None:
    """The requested rate is of IP packets; as payload it is smaller by the headers' share."""
    rate = context.parameter("rate_bit_per_s")
    payload = payload_of(context, version)
    if rate is None or payload is None:
        reason = "as fast as possible" if rate is None else "the role names no size"
        context.out.absent("offered_load", reason)
        return None
    offered = float(rate) * payload / (payload + (20 if version == 4 else 40) + UDP_BYTES)
    context.out.add("offered_load", "mean", offered, 1)
    return offered
