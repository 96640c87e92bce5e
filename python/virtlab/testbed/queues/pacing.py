"""What shapes a port: its link's rate, what holds its sender back, there or in front of its host's wire, a router's
licence. Each is HTB with one class there.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue.qdiscs.fifo import PFIFO
from virtlab.catalogue.qdiscs.htb import HTB, class_options
from virtlab.plan import Queue, Vnic
from virtlab.planner.queues.licence import QUEUE_PACKETS, burst_bytes
from virtlab.planner.queues.pushback import BURST_FRAMES, UPLINK_PACKETS, SharedQueue
from virtlab.testbed.steps.operations import ClassAdd, Discipline, LinkSet, Operation, QdiscAdd
from virtlab.units.ethernet import AROUND_PACKET_BYTES, UNCOUNTED_BYTES, WIRE_LEAST_BYTES

AT_RATE = "1:1"  # the class of HTB that holds a rate
CLOSED = Discipline(PFIFO.name, {"limit_packets": 0})  # a queue that takes nothing
WAITING = "10:"  # handle of what waits in front of a wire


def shaper(
    namespace: str, link: str, rate_bit_per_s: int, burst_bytes: int, *, octets: bool = True
) -> Iterator[Operation]:
    """HTB with one class, 1:1, at a rate. `octets`: a frame counts as its octets on Ethernet, else as the kernel
    has it.
    """
    top = Discipline(HTB.name, HTB.kernel.options(Queue(kind=HTB.name), 1))
    yield QdiscAdd(namespace, link, top, handle="1:")
    # A quantum of its own: the kernel's default (rate / 10) warns about fast links.
    quantum_bytes = min(60_000, max(1600, burst_bytes))
    options = class_options(
        {"rate_bit_per_s": rate_bit_per_s, "burst_bytes": burst_bytes, "quantum_bytes": quantum_bytes}
    )
    if octets:
        options |= {"overhead_bytes": UNCOUNTED_BYTES, "minimum_bytes": WIRE_LEAST_BYTES}
    yield ClassAdd(namespace, link, "1:", AT_RATE, Discipline(HTB.name, options))


def pushback(
    namespace: str, link: str, vnic: Vnic, *, by_link: bool = False, shared: bool = False
) -> Iterator[Operation]:
    """HTB at the link's rate on the vNIC itself: it holds its sender back, as a real port's full ring would.

    `by_link`: the vNIC is the sending end of a link whose own queue is there already, and does so. `shared`: the queue
    in front of its host's wire does so, for all guests; it takes single frames, too.

    24 octets (FCS, preamble, gap) are added to what the kernel counts, and a frame counts for at least 84: the octet
    times of Ethernet. The burst is ten frames. TCP hands over single frames: of a packet of many segments HTB would
    count the octets once and let all go together, 43 frames and 1.5 % faster than the link; with offloads left at their
    default that is what was requested.
    """
    rate = vnic.pushback_bit_per_s
    if rate is None and not shared:
        return
    if vnic.offloads == "off":
        yield LinkSet(namespace, link, segments_at_once=1)
    if by_link or rate is None:
        return
    yield from shaper(namespace, link, rate, BURST_FRAMES * (vnic.mtu_bytes + AROUND_PACKET_BYTES))


def in_front_of_wire(namespace: str, link: str, shared: SharedQueue) -> Iterator[Operation]:
    """The queue that a host's guests share: HTB at the wire's rate at the host's own end of it, with a FIFO inside.

    Between a guest's socket and this end a frame crosses a veth and the kernel's own switch, which keep it its sender's
    (since Linux 4.19), unless the kernel shows bridged packets to its packet filter, which virtlab has turned off.
    """
    burst = BURST_FRAMES * (shared.mtu_bytes + AROUND_PACKET_BYTES)
    yield from shaper(namespace, link, shared.rate_bit_per_s, burst)
    waits = Discipline(PFIFO.name, {"limit_packets": UPLINK_PACKETS})
    yield QdiscAdd(namespace, link, waits, parent=AT_RATE, handle=WAITING)


def licence(namespace: str, link: str, vnic: Vnic, rate_bit_per_s: int) -> Iterator[Operation]:
    """HTB at a router's port for what it sends there: frames as the kernel counts them, header without FCS.

    A token bucket of two frames, and 100 packets that wait; the port's own serialisation is its link's.
    """
    yield from shaper(namespace, link, rate_bit_per_s, burst_bytes(vnic), octets=False)
    yield QdiscAdd(
        namespace,
        link,
        Discipline(PFIFO.name, {"limit_packets": QUEUE_PACKETS}),
        parent=AT_RATE,
        handle="10:",
    )
