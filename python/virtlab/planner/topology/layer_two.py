"""Who is wired to whom: ports, the boxes that own them, and which way a MAC address lies from each box.

An edge joins two boxes through a port of each. Ports have the names that the Plan gives them: an uplink, SWITCH.PORT,
or GUEST/VNIC at a virtual switch. Routers join nothing here: a router's vNICs are separate boxes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from virtlab.experiment.world.storms import Port, storm
from virtlab.plan import Guest, Plan, Refusal, Vnic


class Box(NamedTuple):
    """What a frame comes to: a virtual switch, a physical switch, a guest that forwards frames, or one vNIC of another
    guest.

    >>> Box("vswitch", "h1.br").path, Box("vnic", "h1.g1", "eth0").path
    ('vswitches.h1.br', 'guests.h1.g1.vnics.eth0')
    """

    kind: Literal["vswitch", "switch", "bridge", "vnic"]
    name: str  # of the switch, or of the guest
    vnic: str = ""  # of the guest, where the box is one vNIC

    @property
    def switching(self) -> bool:
        """Whether it passes frames on."""
        return self.kind != "vnic"

    @property
    def path(self) -> str:
        """Where the Plan has it."""
        if self.kind == "vnic":
            return f"guests.{self.name}.vnics.{self.vnic}"
        section = {"vswitch": "vswitches", "switch": "switches", "bridge": "guests"}[self.kind]
        return f"{section}.{self.name}"


@dataclass(frozen=True, slots=True)
class Edge:
    """From a box through its `port` to the `box` at the other side, whose port is `far`."""

    port: str
    box: Box
    far: str
    because: str


OWN = "host"  # what the vNIC of a host is called beside those of its guests


def host_port(host: str) -> str:
    """The port of a host's own vNIC at its virtual switch; no guest's has a colon."""
    return f"{OWN}:{host}"


def guest_box(guest: str, entry: Guest, vnic: str) -> Box:
    """The box that a vNIC belongs to: itself, or the whole guest where it forwards frames."""
    return Box("bridge", guest) if entry.bridges else Box("vnic", guest, vnic)


class LayerTwo:
    """The wired world of a Plan. Dangling ends are in `dangling`, cycles in `loops`, as paths of the Plan."""

    def __init__(self, plan: Plan) -> None:
        world = plan.world
        self.owner: dict[str, Box] = {}
        self.edges: dict[Box, list[Edge]] = {}
        self._trunks: dict[Box, list[Edge]] = {}  # edges towards boxes that pass frames on
        self.dangling: list[tuple[str, str]] = []
        self.loops: list[str] = []
        self._guests = world.guests
        self._isolated = {
            f"{guest}/{name}"
            for guest, entry in world.guests.items()
            for name, vnic in entry.vnics.items()
            if vnic.isolated
        }
        self._bridging = any(entry.bridges for entry in world.guests.values())
        for name, vswitch in world.vswitches.items():
            self.edges.setdefault(Box("vswitch", name), [])
            for uplink in vswitch.uplinks:
                self.owner[uplink] = Box("vswitch", name)
        for name in world.switches:
            self.edges.setdefault(Box("switch", name), [])
        for guest, entry in world.guests.items():
            for name, vnic in entry.vnics.items():
                box = guest_box(guest, entry, name)
                self.edges.setdefault(box, [])
                if vnic.uplink is not None:
                    self.owner[vnic.uplink] = box
        self._root = {box: box for box in self.edges}
        for guest, entry in world.guests.items():
            for name, vnic in entry.vnics.items():
                if vnic.vswitch is not None:
                    path = f"guests.{guest}.vnics.{name}"
                    port = f"{guest}/{name}"
                    self._join(guest_box(guest, entry, name), port, Box("vswitch", vnic.vswitch), port, path)
        for name, link in world.links.items():
            boxes = [self.box_of(end) for end in link.ends]
            for end, owner in zip(link.ends, boxes, strict=True):
                if owner is None:
                    self.dangling.append((f"links.{name}", end))
            first, second = boxes
            if first is not None and second is not None:
                self._join(first, link.ends[0], second, link.ends[1], f"links.{name}")
        if self._bridging:
            self.loops = self._storm()

    def _storm(self) -> list[str]:
        """Paths of the wires of a way on which a frame would circle."""
        switching = [box for box in self.edges if box.switching]
        boxes = {
            box: {
                edge.port: box.kind == "vswitch" and edge.port in self._isolated for edge in self.edges[box]
            }
            for box in switching
        }
        cables: list[tuple[Port[Box], Port[Box]]] = [
            ((box, edge.port), (edge.box, edge.far))
            for box in switching
            for edge in self.edges[box]
            if edge.box in boxes and box <= edge.box
        ]
        circle = storm(boxes, cables)
        found = [edge.because for box in circle for edge in self.edges[box] if edge.box in circle]
        return list(dict.fromkeys(found))

    def box_of(self, port: str) -> Box | None:
        """The box that owns the end of a link; None when nothing does."""
        if port in self.owner:
            return self.owner[port]
        switch = Box("switch", port.rpartition(".")[0])
        return switch if switch in self.edges else None

    def _join(self, first: Box, first_port: str, second: Box, second_port: str, because: str) -> None:
        if second not in self.edges:
            self.dangling.append((because, f"{second.kind}:{second.name}"))
            return
        roots = self._find(first), self._find(second)
        if roots[0] == roots[1]:
            self.loops.append(because)
        self._root[roots[0]] = roots[1]
        self.edges[first].append(Edge(first_port, second, second_port, because))
        self.edges[second].append(Edge(second_port, first, first_port, because))
        if second.switching:
            self._trunks.setdefault(first, []).append(self.edges[first][-1])
        if first.switching:
            self._trunks.setdefault(second, []).append(self.edges[second][-1])

    def _find(self, box: Box) -> Box:
        while self._root[box] != box:
            self._root[box] = self._root[self._root[box]]
            box = self._root[box]
        return box

    def same_segment(self, first: Box, second: Box) -> bool:
        """Whether frames can go from one box to the other."""
        return self._find(first) == self._find(second)

    def ports_towards_vnic(self, guest: str, vnic: str) -> dict[Box, str]:
        """For every switching box that may see a frame to this vNIC, the port through which it leaves.

        Where the guest forwards frames, a frame to its vNIC leaves it through its other one, and the virtual switch
        there by its only port that is not isolated, if there is just one.
        """
        entry = self._guests[guest]
        box = guest_box(guest, entry, vnic)
        if not entry.bridges:
            return self.ports_towards(box)
        port = f"{guest}/{vnic}"
        found = self.ports_towards(box, port)
        for edge in self.edges[box]:
            if edge.port == port:
                continue
            found[box] = edge.port
            exits = [
                out.port
                for out in self.edges[edge.box]
                if out.port not in self._isolated and out.port != edge.far
            ]
            if len(exits) == 1:
                found[edge.box] = exits[0]
        return found

    def stations(self, plan: Plan) -> Iterator[tuple[str, Vnic, dict[Box, str]]]:
        """Every vNIC, guests' and hosts' own: its path, and for each switching box the port through which it lies."""
        for guest, entry in plan.world.guests.items():
            for name, vnic in entry.vnics.items():
                yield f"guests.{guest}.vnics.{name}", vnic, self.ports_towards_vnic(guest, name)
        for host, each in plan.world.hosts.items():
            if each.vnic is not None:
                box = Box("vswitch", str(each.vnic.vswitch))
                yield f"hosts.{host}.vnic", each.vnic, {box: host_port(host), **self.ports_towards(box)}

    def ports_towards(self, box: Box, first_port: str | None = None) -> dict[Box, str]:
        """For every switching box in reach of `box` (through `first_port` alone), the port through which `box` lies."""
        found: dict[Box, str] = {}
        seen = {box}
        waiting = deque([box])
        while waiting:
            here = waiting.popleft()
            for edge in self._trunks.get(here, ()):
                if here == box and first_port not in {None, edge.port}:
                    continue
                if here.kind == "vswitch" and {edge.port, found.get(here)} <= self._isolated:
                    continue  # no frame comes from there
                if edge.box not in seen:
                    seen.add(edge.box)
                    found[edge.box] = edge.far
                    waiting.append(edge.box)
        return found

    def ports(self, box: Box) -> int:
        """The number of a box's ports that are wired."""
        return len(self.edges[box])

    def mistakes(self, plan: Plan) -> Iterator[Refusal]:
        """Ends that dangle, ways that close a circle, ports with two cables or none."""
        for path, end in self.dangling:
            yield Refusal(
                path,
                f"'{end}' is not a port of a host, a switch or a virtual switch",
                "name an uplink or SWITCH.PORT",
            )
        for path in self.loops:
            cure = "remove one link of the loop; beside guests that forward frames, isolate their ports"
            yield Refusal(path, "closes a loop: broadcasts would circle for ever", cure)
        ends: dict[str, str] = {}
        for name, link in plan.world.links.items():
            for end in link.ends:
                if end in ends:
                    yield Refusal(
                        f"links.{name}",
                        f"'{end}' is an end of links.{ends[end]} already",
                        "a port holds one cable",
                    )
                ends[end] = name
        for port, box in self.owner.items():
            if port not in ends:
                yield Refusal(box.path, f"uplink '{port}' is in no link", "give it a link, or remove it")
