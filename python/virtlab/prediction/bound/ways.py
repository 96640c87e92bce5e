"""Ports on the way from one vNIC to another, and what each promises a class of its queue.

| queue | its port is |
|---|---|
| `fifo`, `pfifo`, `bfifo`, `codel` | first in, first out; what CoDel drops only shortens it |
| `prio` | strict priority |
| `drr` | rounds of quanta |
| `htb` with classes | each leaf sure of its rate |
| `tbf`, `htb` without classes | a shaper in front of a FIFO |
| `sfq`, `fq_codel`, `pfifo_fast` | in whatever order, never idle: bounded by how long the port is busy at a stretch |

`hfsc` (curves of its own) and `netem` (drawn delays) have none here. Classes are told by code points.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.planner.wiring import Wiring
from virtlab.prediction.bound.curves import WIRE_EXTRA_BYTES, Hop, NoBoundError, per_counted_bit, wire_bits

if TYPE_CHECKING:
    from virtlab.plan import Link, Plan, Queue

PUSHBACK_FRAMES = 10  # that a vNIC's pushback lets go at once
FIFO_KINDS = ("fifo", "pfifo", "bfifo", "codel")
ANY_ORDER = ("sfq", "fq_codel", "pfifo_fast")
HTB_BURST_BYTES = 1600  # of a class that names none
QUANTUM_BYTES = 1514


@dataclass(frozen=True)
class Ways:
    """The Plan's wiring; `mtu_bytes` is the largest packet anywhere."""

    plan: Plan
    wiring: Wiring

    @property
    def _whole_bits(self) -> int:
        vnics = [each for guest in self.plan.world.guests.values() for each in guest.vnics.values()]
        return wire_bits(max(each.mtu_bytes for each in vnics))

    def hops(self, source: str, target: str, dscp: int) -> list[Hop]:
        """Ports in order. NoBoundError where one is of no kind that this knows."""
        world = self.plan.world
        guest, vnic = source.removeprefix("vnic:").split("/")
        for box in (source, target):
            owner, _, name = box.removeprefix("vnic:").partition("/")
            port = world.guests[owner].vnics[name]
            if port.queue is not None or port.port_rate_bit_per_s is not None:
                raise NoBoundError(f"frames queue at the virtual switch's port of {owner}")
        found: list[Hop] = []
        held = world.guests[guest].vnics[vnic].pushback_bit_per_s
        if held:
            frame = 8.0 * (world.guests[guest].vnics[vnic].mtu_bytes + WIRE_EXTRA_BYTES)
            found.append(Hop(("vnic", f"{guest}/{vnic}"), float(held), free=PUSHBACK_FRAMES * frame))
        for edge in self._edges(source, target):
            if not edge.because.startswith("links."):
                continue
            name = edge.because.removeprefix("links.")
            link = world.links[name]
            way = "ab" if edge.port == link.ends[0] else "ba"
            box = edge.box.removeprefix("switch:")
            processing = world.switches[box].processing_ns if edge.box.startswith("switch:") else 0
            found += self._ports(name, link, way, dscp, link.propagation_ns + processing)
        return found

    def _edges(self, source: str, target: str) -> list[Any]:
        came: dict[str, tuple[str, Any]] = {source: ("", None)}
        waiting = deque([source])
        while waiting and target not in came:
            box = waiting.popleft()
            for edge in self.wiring.edges[box]:
                if edge.box not in came and (edge.box == target or not edge.box.startswith("vnic:")):
                    came[edge.box] = (box, edge)
                    waiting.append(edge.box)
        if target not in came:
            raise NoBoundError("two ends are not wired to each other")
        edges = []
        while target != source:
            box, edge = came[target]
            edges.append(edge)
            target = box
        return edges[::-1]

    def _ports(self, name: str, link: Link, way: str, dscp: int, after_ns: int) -> list[Hop]:
        queue = link.queue.ab if way == "ab" else link.queue.ba
        line, rate = f"{name} {way}", float(link.rate_bit_per_s)
        if queue.classes:
            return [_of_class(name, queue, dscp, line, rate, after_ns)]
        if queue.kind in FIFO_KINDS:
            return [
                Hop(
                    ("link", line), rate, after_ns, line=line, limit_packets=queue.limit_packets,
                    limit_bytes=queue.limit_bytes,
                )
            ]  # fmt: skip
        if queue.kind in ANY_ORDER:
            return [Hop(("link", line), rate, after_ns, line=line, serves="any")]
        if queue.kind in {"tbf", "htb"}:
            return [self._shaper(line, queue), Hop(("link", line), rate, after_ns, line=line)]
        raise NoBoundError(f"links.{name} has a queue, {queue.kind}, that this has no curve of")

    def _shaper(self, line: str, queue: Queue) -> Hop:
        """Bits of wire: the discipline counts fewer, the least fewer of full frames. A packet waits whole."""
        values, whole = queue.parameters, self._whole_bits
        share = per_counted_bit(whole)
        depth_bits = 8.0 * int(values.get("burst_bytes") or HTB_BURST_BYTES)
        if queue.kind == "tbf" and depth_bits < whole - 8 * 24:
            raise NoBoundError(f"links.{line} has a bucket that a full frame never fits")
        return Hop(
            ("shaper", line), share * float(values["rate_bit_per_s"]), free=share * depth_bits - whole,
            limit_packets=queue.limit_packets, limit_bytes=queue.limit_bytes,
        )  # fmt: skip


def _of_class(link: str, queue: Queue, dscp: int, line: str, rate: float, after_ns: int) -> Hop:
    by_code_point = all(
        rule == type(rule).model_validate({"class": rule.class_, "dscp": rule.dscp}) and rule.dscp
        for rule in queue.match
    )
    if queue.kind not in {"prio", "drr", "htb"} or not by_code_point:
        raise NoBoundError(f"links.{link} has classes that are neither prio, drr nor htb by code points")
    name = next((rule.class_ for rule in queue.match if dscp in rule.dscp), queue.default)
    if name is None:
        raise NoBoundError(f"links.{link} has no class for code point {dscp}")
    own = queue.classes[name]
    port = ("link", f"{line} {name}")
    if queue.kind == "prio":
        order = sorted(queue.classes, key=lambda each: (queue.classes[each].parameters.get("prio", 0), each))
        return Hop(
            port, rate, after_ns, line=line, serves="prio", rank=order.index(name), limit_packets=own.limit_packets
        )  # fmt: skip
    if queue.kind == "drr":
        quantum = 8.0 * int(own.parameters.get("quantum_bytes") or QUANTUM_BYTES)
        return Hop(
            port, rate, after_ns, line=line, serves="drr", quantum_bits=quantum, limit_packets=own.limit_packets
        )  # fmt: skip
    if any(each.parent == name for each in queue.classes.values()):
        raise NoBoundError(f"links.{link}: class {name} is no leaf")
    values = own.parameters
    burst = int(values.get("burst_bytes") or HTB_BURST_BYTES)
    cburst = int(values.get("cburst_bytes") or burst)
    return Hop(
        port, rate, after_ns, line=line, serves="htb", sure=float(values["rate_bit_per_s"]),
        burst_bits=8.0 * min(burst, cburst), limit_packets=own.limit_packets,
    )  # fmt: skip
