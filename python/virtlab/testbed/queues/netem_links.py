"""A link direction by netem: frames wait, hold the wire for their time at its rate, and propagate.

A queue's limit bounds what waits, here as in the soft switch. netem's limit counts all that it holds: what waits,
the one frame on the wire, and what propagates. The frame on the wire is therefore let in beside the limit. What
propagates is no fixed number of frames (18 of the shortest take the place of a full one), so no limit of one netem
is right for all sizes: enough room for the shortest is a queue of full frames many times as long as the file says,
room for full frames loses short ones of which none had to wait. So where more than a tenth of the limit could
propagate at once, were frames the shortest, two netems do it in turn:

```text
1:   netem with the delay, never full          10: inside 1:, netem at the link's rate, limit + 1 packets
```
The delay comes first because a netem's limit counts what is in the one inside, too. Time in front of a FIFO moves all
that happens in it by as much, so frames come to the far end, or are dropped, as if it came behind. Shorter propagation
(7 us at 100 Mbit/s for each 10 packets of limit) stays in one netem, `1:`, with limit + 1 packets: there full frames
wait as many as the file says to one in 180, the shortest to one in ten.

Before Linux 6.13, and the updates of older ones that took its change over (end of 2024), a netem took what the one
inside dropped for its own, and its backlog ran below zero: on such a kernel a run ends as soon as that is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.catalogue.qdiscs.netem import NETEM, line
from virtlab.catalogue.queueing import CLASS_PACKETS
from virtlab.errors import MachineError
from virtlab.plan import Queue
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.steps.operations import Discipline, Operation, QdiscAdd
from virtlab.units.ethernet import UNCOUNTED_BYTES, WIRE_LEAST_BYTES
from virtlab.units.factors import NS_PER_S

TOP = "1:"
RATE_STAGE = "10:"
PROPAGATING_PER_LIMIT = 10  # at most one in so many of the limit may propagate unseen
LIMIT_MAX = 2**30  # of packets; memory ends before
BACKLOG_MAX = 2**31  # more is a negative number
CURE_KERNEL = (
    "update it, write 'realise: soft_switch', or take the lab VM's kernel: 'virtlab run FILE --in lab-vm'"
)


@dataclass(frozen=True, slots=True)
class NetemQueue(PortQueue):
    """Where a link direction by netem queues. `single_frames`: no sender sends packets of many segments."""

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
        entry = entries.get(RATE_STAGE if self.apart else TOP, {})
        return max(0, int(entry.get("backlog_packets", 0)) - 1)

    def check(self, where: str, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """MachineError where the kernel has lost count of what it holds."""
        if int(entries.get(TOP, {}).get("backlog_packets", 0)) > BACKLOG_MAX:
            what = f"netem's backlog at {self.link} ran below zero, a defect of this kernel: it drops what it should carry"
            raise MachineError(where, what, CURE_KERNEL)

    def on_the_way_ns(self, packets: int, octets: int, drops: int) -> int:
        """Time that packets were on the wire and propagated, all together. `octets`: as the kernel counts them.

        What is dropped in front of a stage at the rate has been through the other.

        >>> link = NetemQueue("fabric", "p0", {}, rate_bit_per_s=100_000_000, delay_ns=1_000_000)
        >>> link.on_the_way_ns(2, 2 * 1514, drops=7)
        2246080
        """
        on_wire_bits = 8 * (octets + UNCOUNTED_BYTES * packets)
        delayed = packets + drops if self.apart else packets
        return delayed * self.delay_ns + on_wire_bits * NS_PER_S // self.rate_bit_per_s


def apart(rate_bit_per_s: int, delay_ns: int, limit_packets: int) -> bool:
    """Whether so many frames can propagate at once that they need a stage of their own.

    >>> apart(10**9, 10_000_000, 100), apart(10**8, 5_000, 100), apart(10**9, 0, 1)
    (True, False, False)
    """
    propagating_octets_ns = delay_ns * rate_bit_per_s // 8
    return propagating_octets_ns * PROPAGATING_PER_LIMIT > limit_packets * WIRE_LEAST_BYTES * NS_PER_S


def limit(queue: Queue) -> int:
    """The number of packets that may wait."""
    return CLASS_PACKETS if queue.limit_packets is None else queue.limit_packets


def at_port(
    namespace: str, link: str, rate_bit_per_s: int, delay_ns: int, limit_packets: int, *, single_frames: bool
) -> tuple[NetemQueue, list[Operation]]:
    """The sending end of a direction as counters and read-back know it, and what makes it, in order."""
    stages = apart(rate_bit_per_s, delay_ns, limit_packets)
    queue = NetemQueue(namespace, link, {}, TOP, rate_bit_per_s, delay_ns, stages, single_frames)
    held = limit_packets + 1
    if not stages:
        return queue, [QdiscAdd(namespace, link, _netem(rate_bit_per_s, delay_ns, held), handle=TOP)]
    # What is in the stage at the rate counts in the first, too, and more may come than the wire takes.
    delay, rate = _netem(0, delay_ns, LIMIT_MAX, 0), _netem(rate_bit_per_s, 0, held)
    return queue, [
        QdiscAdd(namespace, link, delay, handle=TOP),
        QdiscAdd(namespace, link, rate, parent=f"{TOP}1", handle=RATE_STAGE),
    ]


def _netem(
    rate_bit_per_s: int, delay_ns: int, limit_packets: int, overhead_bytes: int = UNCOUNTED_BYTES
) -> Discipline:
    return Discipline(NETEM.name, line(rate_bit_per_s, delay_ns, limit_packets, overhead_bytes))
