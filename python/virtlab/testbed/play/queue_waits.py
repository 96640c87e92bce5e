"""How long frames waited in the kernel's queues: by Little's law from their sampled backlog.

A kernel reports how many packets wait, not for how long. The time that all packets together waited is the integral of
the backlog over time; divided by the packets that passed it is the mean wait (Little 1961), whatever the discipline's
order. The backlog is what the series `qdisc` sampled, taken to hold from one sample to the next.

Of a link by netem the backlog also has what no longer waits. While any frame is there one is on the wire, so where
nothing propagates all but one wait. Else the wait is what the law leaves of the integral when each frame that was sent
has taken its time on the wire and its propagation out of it; how many waited at one moment is then not known, and with
packets of many segments, which are sent as many and wait as one, neither is the wait: what is not known is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from virtlab.plan import Columns
from virtlab.testbed.kinds.platform import CounterRow
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.queues.netem_links import NetemQueue

CARRIED = ("packets", "bytes", "drops")


@dataclass(slots=True)
class Waiting:
    """Sampled backlogs by kernel name (NAMESPACE/INTERFACE): instants in ns, packets."""

    samples: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def take(self, columns: Columns) -> None:
        """The rows of a block of `series/1` that are backlogs in packets."""
        named: Mapping[str, Any] = columns
        for t_ns, entity, metric, value in zip(
            named["t_ns"], named["entity"], named["metric"], named["value"], strict=True
        ):
            if metric == "backlog_packets":
                self.samples.setdefault(entity, []).append((int(t_ns), int(value)))

    def rows(
        self,
        queues: Mapping[tuple[str, str], PortQueue],
        begin_ns: int,
        end_ns: int,
        counted: Sequence[CounterRow] = (),
    ) -> list[CounterRow]:
        """Counters of each queue that was sampled: what waited in the run, and the most that was seen to wait.

        `counted`: the run's other counters, of which those of its two ends show how much a link carried.
        """
        ends = {(entity, name, mark): value for _, mark, entity, name, value in counted}
        rows: list[CounterRow] = []
        for (link, direction), queue in queues.items():
            seen = sorted(self.samples.get(f"{queue.namespace}/{queue.link}", []))
            if not seen:
                continue
            line = f"links.{link}.{direction}"
            cable = queue if isinstance(queue, NetemQueue) and queue.delay_ns else None
            if isinstance(queue, NetemQueue) and cable is None:
                seen = [(t_ns, max(0, packets - 1)) for t_ns, packets in seen]
            waited_ns = integral([*seen, (max(end_ns, seen[-1][0]), 0)])
            if cable is None:
                rows.append((end_ns, "end", line, "backlog_max_packets", max(packets for _, packets in seen)))
            else:
                carried = [
                    ends[line, name, "end"] - ends[line, name, "begin"]
                    for name in CARRIED
                    if {(line, name, "begin"), (line, name, "end")} <= ends.keys()
                ]
                if len(carried) < len(CARRIED) or not cable.single_frames:
                    continue
                waited_ns = max(0, waited_ns - cable.on_the_way_ns(*carried))
            rows += [
                (begin_ns, "begin", line, "residence_ns", 0),
                (end_ns, "end", line, "residence_ns", waited_ns),
            ]
        return rows


def integral(steps: Sequence[tuple[int, int]]) -> int:
    """The integral of values that hold from one instant to the next.

    >>> integral([(0, 4), (10, 1), (30, 0)])
    60
    """
    return sum(value * (then - now) for (now, value), (then, _) in pairwise(steps))
