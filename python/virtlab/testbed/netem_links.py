"""A link direction by netem: frames wait, hold the wire for their time at its rate, and propagate.

A queue's limit bounds what waits, here as in the soft switch. netem's limit counts all that it holds: what waits, the one
frame on the wire, and what propagates. The frame on the wire is therefore let in beside the limit. What propagates is no
fixed number of frames (18 of the shortest take the place of a full one), so no limit of one netem is right for all sizes:
enough room for the shortest is a queue of full frames many times as long as the file says, room for full frames loses short
ones of which none had to wait. So where more than a tenth of the limit could propagate at once, were frames the shortest,
two netems do it in turn, as on a cable:

```text
1:   prio with one band in use: counts all frames of the direction
10:  netem at the link's rate, limit + 1 packets          20: netem with the delay, inside 10:, never full
```
Shorter propagation (7 us at 100 Mbit/s for each 10 packets of limit) stays in one netem, `1:`, with limit + 1 packets: there
full frames wait as many as the file says to one in 180, the shortest to one in ten.

prio is there for its backlog: whether netem's own holds that of the one inside depends on the kernel (Linux 6.13, and the
updates of older ones that took its change over, against those before).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.plan import Queue
from virtlab.planner.licence import ETHERNET_OCTETS
from virtlab.testbed.kernel_queues import CLASS_PACKETS, PortQueue
from virtlab.testbed.operations import Netem, Operation, Prio, QdiscAdd

TOP = "1:"
RATE_STAGE = "10:"
DELAY_STAGE = "20:"
BESIDE_OCTETS = ETHERNET_OCTETS - 14  # of FCS, preamble and gap: what netem is told to add to each frame
SHORTEST_OCTETS = 84  # of a frame on the wire, preamble and gap included
LEAST_OCTETS = (
    38  # of a frame as netem counts it, which pads none: an Ethernet header and what is beside every frame
)
PROPAGATING_PER_LIMIT = 10  # at most one in so many of the limit may propagate unseen
ROOM_PACKETS = 1000  # of the stage that delays, for frames that a late timer lets go together
LIMIT_MAX = 2**32 - 1
NS = 10**9


@dataclass(frozen=True, slots=True)
class NetemQueue(PortQueue):
    """Where a link direction by netem queues. `single_frames`: nobody sends packets of many segments."""

    rate_bit_per_s: int = 0
    delay_ns: int = 0
    apart: bool = False  # propagation is a stage of its own
    single_frames: bool = True

    def waiting_packets(self, entries: Mapping[str, Mapping[str, Any]]) -> int | None:
        """Frames that wait for the wire, of disciplines read back at once; None where some may propagate beside them.

        >>> NetemQueue("fabric", "p0", {}, rate_bit_per_s=10**8).waiting_packets({"1:": {"backlog_packets": 3}})
        2
        """
        if self.delay_ns and not self.apart:
            return None
        held = int(entries.get(TOP, {}).get("backlog_packets", 0))
        if self.apart:
            held -= int(entries.get(DELAY_STAGE, {}).get("backlog_packets", 0))
        return max(0, held - 1)

    def on_the_way_ns(self, packets: int, octets: int) -> int:
        """Time that sent packets were on the wire and propagated, all together. `octets`: as the kernel counts them.

        >>> link = NetemQueue("fabric", "p0", {}, rate_bit_per_s=100_000_000, delay_ns=1_000_000)
        >>> link.on_the_way_ns(2, 2 * 1514)
        2246080
        """
        on_wire_bits = 8 * (octets + BESIDE_OCTETS * packets)
        return packets * self.delay_ns + on_wire_bits * NS // self.rate_bit_per_s


def apart(rate_bit_per_s: int, delay_ns: int, limit_packets: int) -> bool:
    """Whether so many frames can propagate at once that they need a stage of their own.

    >>> apart(10**9, 10_000_000, 100), apart(10**8, 5_000, 100), apart(10**9, 0, 1)
    (True, False, False)
    """
    propagating_octets_ns = delay_ns * rate_bit_per_s // 8
    return propagating_octets_ns * PROPAGATING_PER_LIMIT > limit_packets * SHORTEST_OCTETS * NS


def limit(queue: Queue) -> int:
    """How many packets may wait."""
    return CLASS_PACKETS if queue.limit_packets is None else queue.limit_packets


def at_port(
    namespace: str, link: str, rate_bit_per_s: int, delay_ns: int, limit_packets: int
) -> Iterator[Operation]:
    """The operations at the sending end of a direction, in order."""
    held = limit_packets + 1
    if not apart(rate_bit_per_s, delay_ns, limit_packets):
        yield QdiscAdd(namespace, link, Netem(rate_bit_per_s, delay_ns, held), handle=TOP)
        return
    most = delay_ns * rate_bit_per_s // (8 * LEAST_OCTETS * NS)
    room = min(LIMIT_MAX, 2 * most + ROOM_PACKETS)
    rate, delay = Netem(rate_bit_per_s, 0, held), Netem(0, delay_ns, room, 0)
    yield QdiscAdd(namespace, link, Prio(bands=2, band=0), handle=TOP)
    yield QdiscAdd(namespace, link, rate, parent=f"{TOP}1", handle=RATE_STAGE)
    yield QdiscAdd(namespace, link, delay, parent=f"{RATE_STAGE}1", handle=DELAY_STAGE)


def queue_at(
    namespace: str, link: str, rate_bit_per_s: int, delay_ns: int, limit_packets: int, *, single_frames: bool
) -> NetemQueue:
    """The same direction, for counters and read-back."""
    stages = apart(rate_bit_per_s, delay_ns, limit_packets)
    return NetemQueue(namespace, link, {}, TOP, rate_bit_per_s, delay_ns, stages, single_frames)
