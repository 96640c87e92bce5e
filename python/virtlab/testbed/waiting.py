"""How long frames waited in the kernel's queues: by Little's law from their sampled backlog.

A kernel tells how many packets wait, not for how long. The time that all packets together waited is the integral of the
backlog over time; divided by the packets that passed it is the mean wait (Little 1961), whatever the discipline's order.
The backlog is what the series `qdisc` sampled, taken to hold from one sample to the next.

Of a link by netem the backlog also has what no longer waits. While any frame is there one is on the wire, so where nothing
propagates all but one wait. Else the wait is what the law leaves of the integral when each frame that was sent has taken
its time on the wire and its propagation out of it; how many waited at one moment is then not known, and with packets of many
segments, which are sent as many and wait as one, neither is the wait: what is not known is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from virtlab.testbed.netem_links import NetemQueue

if TYPE_CHECKING:
    from virtlab.plan import Columns
    from virtlab.testbed.kernel_queues import PortQueue
    from virtlab.testbed.records import CounterRow

Samples = list[tuple[int, int]]  # instants in ns, values
BACKLOG, PACKETS, OCTETS = "backlog_packets", "qdisc_sent_packets", "qdisc_sent_bytes"


@dataclass(slots=True)
class Waiting:
    """Samples by kernel name (NAMESPACE/INTERFACE): backlogs, and what was sent so far."""

    samples: dict[tuple[str, str], Samples] = field(default_factory=dict)

    def take(self, columns: Columns) -> None:
        """The rows of a block of `series/1` that are about queues."""
        named: Mapping[str, Any] = columns
        for t_ns, entity, metric, value in zip(
            named["t_ns"], named["entity"], named["metric"], named["value"], strict=True
        ):
            if metric in (BACKLOG, PACKETS, OCTETS):
                self.samples.setdefault((entity, metric), []).append((int(t_ns), int(value)))

    def rows(
        self, queues: Mapping[tuple[str, str], PortQueue], begin_ns: int, end_ns: int
    ) -> list[CounterRow]:
        """Counters of each queue that was sampled: what waited in the run, and the most that was seen to wait."""
        rows: list[CounterRow] = []
        for (link, direction), queue in queues.items():
            entity = f"{queue.namespace}/{queue.link}"
            seen = sorted(self.samples.get((entity, BACKLOG), []))
            if not seen:
                continue
            line = f"links.{link}.{direction}"
            if isinstance(queue, NetemQueue) and queue.delay_ns:
                waited_ns = self._beside_propagation(entity, queue, seen)
                if waited_ns is None:
                    continue
            else:
                if isinstance(queue, NetemQueue):
                    seen = [(t_ns, max(0, packets - 1)) for t_ns, packets in seen]
                waited_ns = integral([*seen, (max(end_ns, seen[-1][0]), 0)])
                rows.append((end_ns, "end", line, "backlog_max_packets", max(packets for _, packets in seen)))
            rows += [
                (begin_ns, "begin", line, "residence_ns", 0),
                (end_ns, "end", line, "residence_ns", waited_ns),
            ]
        return rows

    def _beside_propagation(self, entity: str, link: NetemQueue, seen: Samples) -> int | None:
        """Of the backlog of a link in which frames propagate, what waited; None where that cannot be told."""
        sent = [sorted(self.samples.get((entity, metric), [])) for metric in (PACKETS, OCTETS)]
        if not link.single_frames or not all(sent):
            return None
        packets, octets = (values[-1][1] - values[0][1] for values in sent)
        return max(0, integral(seen) - link.on_the_way_ns(packets, octets))


def integral(seen: Sequence[tuple[int, int]]) -> int:
    """Of values that hold from one instant to the next.

    >>> integral([(0, 4), (10, 1), (30, 0)])
    60
    """
    return sum(value * (then - now) for (now, value), (then, _) in pairwise(seen))
