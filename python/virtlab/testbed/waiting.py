"""How long frames waited in the kernel's queues: by Little's law from their sampled backlog.

A kernel tells how many packets wait, not for how long. The time that all packets together waited is the integral of the
backlog over time; divided by the packets that passed it is the mean wait (Little 1961), whatever the discipline's order.
The backlog is what the series `qdisc` sampled, taken to hold from one sample to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from virtlab.plan import Columns
    from virtlab.testbed.kernel_queues import PortQueue
    from virtlab.testbed.records import CounterRow


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
        self, queues: Mapping[tuple[str, str], PortQueue], begin_ns: int, end_ns: int
    ) -> list[CounterRow]:
        """Counters of each queue that was sampled: what waited in the run, and the most that was seen to wait."""
        rows: list[CounterRow] = []
        for (link, direction), queue in queues.items():
            seen = sorted(self.samples.get(f"{queue.namespace}/{queue.link}", []))
            if not seen:
                continue
            line = f"links.{link}.{direction}"
            ends = [t_ns for t_ns, _ in seen[1:]] + [max(end_ns, seen[-1][0])]
            waited_ns = sum(
                packets * (to_ns - t_ns) for (t_ns, packets), to_ns in zip(seen, ends, strict=True)
            )
            rows += [
                (begin_ns, "begin", line, "residence_ns", 0),
                (end_ns, "end", line, "residence_ns", waited_ns),
                (end_ns, "end", line, "backlog_max_packets", max(packets for _, packets in seen)),
            ]
        return rows
