"""Who is wired to whom: ports, the boxes that own them, and which way a MAC address lies from each box.

A box is a virtual switch (`vswitch:h1.br`), a physical switch (`switch:s1`) or a guest's vNIC (`vnic:a/eth0`). An edge
joins two boxes through a port of each. Routers join nothing here: a router's vNICs are separate boxes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from virtlab.plan import Plan


@dataclass(frozen=True, slots=True)
class Edge:
    """From a box through its `port` to the `box` at the other side, whose port is `far`."""

    port: str
    box: str
    far: str
    because: str


def vnic_box(guest: str, vnic: str) -> str:
    """The box of a vNIC."""
    return f"vnic:{guest}/{vnic}"


def is_switching(box: str) -> bool:
    """Whether a box passes frames on."""
    return not box.startswith("vnic:")


class Wiring:
    """The wired world of a Plan. Dangling ends are in `dangling`, cycles in `loops`, as paths of the Plan."""

    def __init__(self, plan: Plan) -> None:
        world = plan.world
        self.owner: dict[str, str] = {}
        self.edges: dict[str, list[Edge]] = {}
        self._trunks: dict[str, list[Edge]] = {}  # edges towards boxes that pass frames on
        self.dangling: list[tuple[str, str]] = []
        self.loops: list[str] = []
        for name, vswitch in world.vswitches.items():
            self.edges.setdefault(f"vswitch:{name}", [])
            for uplink in vswitch.uplinks:
                self.owner[uplink] = f"vswitch:{name}"
        for name in world.switches:
            self.edges.setdefault(f"switch:{name}", [])
        for guest, entry in world.guests.items():
            for name, vnic in entry.vnics.items():
                box = vnic_box(guest, name)
                self.edges.setdefault(box, [])
                if vnic.uplink is not None:
                    self.owner[vnic.uplink] = box
        self._root = {box: box for box in self.edges}
        for guest, entry in world.guests.items():
            for name, vnic in entry.vnics.items():
                if vnic.vswitch is not None:
                    path = f"guests.{guest}.vnics.{name}"
                    port = f"{guest}/{name}"
                    self._join(vnic_box(guest, name), port, f"vswitch:{vnic.vswitch}", port, path)
        for name, link in world.links.items():
            boxes = [self.box_of(end) for end in link.ends]
            for end, owner in zip(link.ends, boxes, strict=True):
                if owner is None:
                    self.dangling.append((f"links.{name}", end))
            first, second = boxes
            if first is not None and second is not None:
                self._join(first, link.ends[0], second, link.ends[1], f"links.{name}")

    def box_of(self, port: str) -> str | None:
        """The box that owns the end of a link; None when nothing does."""
        if port in self.owner:
            return self.owner[port]
        switch = f"switch:{port.rpartition('.')[0]}"
        return switch if switch in self.edges else None

    def _join(self, first: str, first_port: str, second: str, second_port: str, because: str) -> None:
        if second not in self.edges:
            self.dangling.append((because, second))
            return
        roots = self._find(first), self._find(second)
        if roots[0] == roots[1]:
            self.loops.append(because)
        self._root[roots[0]] = roots[1]
        self.edges[first].append(Edge(first_port, second, second_port, because))
        self.edges[second].append(Edge(second_port, first, first_port, because))
        if is_switching(second):
            self._trunks.setdefault(first, []).append(self.edges[first][-1])
        if is_switching(first):
            self._trunks.setdefault(second, []).append(self.edges[second][-1])

    def _find(self, box: str) -> str:
        while self._root[box] != box:
            self._root[box] = self._root[self._root[box]]
            box = self._root[box]
        return box

    def same_segment(self, first: str, second: str) -> bool:
        """Whether frames can go from one box to the other."""
        return self._find(first) == self._find(second)

    def ports_towards(self, box: str) -> dict[str, str]:
        """For every switching box in reach of `box`, the port through which `box` lies."""
        found: dict[str, str] = {}
        seen = {box}
        waiting = deque([box])
        while waiting:
            here = waiting.popleft()
            for edge in self._trunks.get(here, ()):
                if edge.box not in seen:
                    seen.add(edge.box)
                    found[edge.box] = edge.far
                    waiting.append(edge.box)
        return found

    def ports(self, box: str) -> int:
        """How many ports of a box are wired."""
        return len(self.edges[box])
