"""Who is wired to whom: which way every MAC address lies from every switch, and what dangles or closes a loop.

A box is a virtual switch, a physical switch or a guest's vNIC. Routers join nothing here: their vNICs are boxes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from virtlab.plan import Plan, Refusal

Box = tuple[
    str, str
]  # kind and name: ("vswitch", "h1.br"), ("switch", "s1"), ("vnic", "guests.a.vnics.eth0")


def vnic_path(guest: str, vnic: str) -> str:
    """A vNIC's path in the Plan, which is its name in counters too."""
    return f"guests.{guest}.vnics.{vnic}"


@dataclass(slots=True)
class Wiring:
    """The wired world of a Plan; what is wrong with it is in `mistakes`."""

    plan: Plan
    edges: dict[Box, list[tuple[str, Box]]] = field(default_factory=dict)  # through which port to which box
    mistakes: list[Refusal] = field(default_factory=list)
    _root: dict[Box, Box] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world = self.plan.world
        owner: dict[str, Box] = {}
        boxes: list[Box] = [("switch", name) for name in world.switches]
        for name, vswitch in world.vswitches.items():
            boxes.append(("vswitch", name))
            owner |= dict.fromkeys(vswitch.uplinks, ("vswitch", name))
        for guest, entry in world.guests.items():
            for name, vnic in entry.vnics.items():
                boxes.append(("vnic", vnic_path(guest, name)))
                if vnic.uplink is not None:
                    owner[vnic.uplink] = boxes[-1]
        self.edges = {box: [] for box in boxes}
        self._root = {box: box for box in boxes}
        for guest, entry in world.guests.items():
            for name, vnic in entry.vnics.items():
                path = vnic_path(guest, name)
                if vnic.vswitch is not None:
                    self._join(path, ("vnic", path), "", ("vswitch", vnic.vswitch), "")
        used: dict[str, str] = {}
        for name, link in world.links.items():
            ends: list[Box] = []
            for end in link.ends:
                box = owner.get(end, ("switch", end.rpartition(".")[0]))
                ends.append(box)
                if end in used:
                    reason = f"'{end}' is an end of links.{used[end]} already"
                    self.mistakes.append(Refusal(f"links.{name}", reason, "a port holds one cable"))
                used[end] = name
            self._join(f"links.{name}", ends[0], link.ends[0], ends[1], link.ends[1])
        for port, box in owner.items():
            if port not in used:
                cure = "give it a link, or remove it"
                self.mistakes.append(Refusal(f"{box[0]}s.{box[1]}", f"uplink '{port}' is in no link", cure))

    def _join(self, path: str, first: Box, first_port: str, second: Box, second_port: str) -> None:
        for box, port in ((first, first_port), (second, second_port)):
            if box not in self.edges:
                reason = f"'{port or box[1]}' is no port of a host, a switch or a virtual switch"
                self.mistakes.append(Refusal(path, reason, "name an uplink, SWITCH.PORT or a virtual switch"))
                return
        roots = self.segment(first), self.segment(second)
        if roots[0] == roots[1]:
            reason = "closes a loop: broadcasts would circle for ever"
            self.mistakes.append(Refusal(path, reason, "remove one link of the loop"))
        self._root[roots[0]] = roots[1]
        self.edges[first].append((first_port, second))
        self.edges[second].append((second_port, first))

    def segment(self, box: Box) -> Box:
        """The same for boxes between which frames can go."""
        while self._root[box] != box:
            box = self._root[box]
        return box

    def ways_to(self, vnic: Box) -> dict[Box, str]:
        """For every switch in reach of a vNIC, the port through which it lies."""
        found: dict[Box, str] = {}
        seen = {vnic}
        waiting = deque([vnic])
        while waiting:
            here = waiting.popleft()
            for _, there in self.edges[here]:
                if there not in seen and there[0] != "vnic":
                    seen.add(there)
                    found[there] = next(port for port, box in self.edges[there] if box == here)
                    waiting.append(there)
        return found
