"""What shapes a port: its link's rate, what holds its sender back, a router's licence. Each is HTB with one class there."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.plan import Vnic
from virtlab.planner.licence import ETHERNET_OCTETS, QUEUE_PACKETS, burst_bytes
from virtlab.testbed.build.operations import ClassAdd, Htb, LinkSet, Operation, Pfifo, QdiscAdd

BURST_FRAMES = 10


def shaper(
    namespace: str, link: str, rate_bit_per_s: int, burst_bytes: int, *, octets: bool = True
) -> Iterator[Operation]:
    """HTB with one class, 1:1, at a rate. `octets`: a frame counts as its octets on Ethernet, else as the kernel has it."""
    yield QdiscAdd(namespace, link, Htb(default_class=1), handle="1:")
    counted = {} if octets else {"overhead_bytes": 0, "minimum_bytes": 0}
    yield ClassAdd(
        namespace,
        link,
        parent="1:",
        handle="1:1",
        rate_bit_per_s=rate_bit_per_s,
        ceil_bit_per_s=rate_bit_per_s,
        burst_bytes=burst_bytes,
        **counted,
    )


def pushback(namespace: str, link: str, vnic: Vnic, *, by_link: bool = False) -> Iterator[Operation]:
    """HTB at the link's rate on the vNIC itself: it holds its sender back, as a real port's full ring would.

    `by_link`: the vNIC is the sending end of a link whose own queue is there already, and does so.

    24 octets (FCS, preamble, gap) are added to what the kernel counts, and a frame counts for at least 84: the octet
    times of Ethernet. The burst is ten frames. TCP hands over single frames: of a packet of many segments HTB would
    count the octets once and let all go together, 43 frames and 1.5 % faster than the link; with offloads left at their
    default that is what was asked for.
    """
    rate = vnic.pushback_bit_per_s
    if rate is None:
        return
    if vnic.offloads == "off":
        yield LinkSet(namespace, link, segments_at_once=1)
    if by_link:
        return
    yield from shaper(namespace, link, rate, BURST_FRAMES * (vnic.mtu_bytes + ETHERNET_OCTETS))


def licence(namespace: str, link: str, vnic: Vnic, rate_bit_per_s: int) -> Iterator[Operation]:
    """HTB at a router's port for what it sends there: frames as the kernel counts them, header without FCS.

    A token bucket of two frames, and 100 packets that wait; the port's own serialisation is its link's.
    """
    yield from shaper(namespace, link, rate_bit_per_s, burst_bytes(vnic), octets=False)
    yield QdiscAdd(namespace, link, Pfifo(QUEUE_PACKETS), parent="1:1", handle="10:")
