"""Can a frame circle for ever? Exact for any graph of boxes that pass frames on, some of their ports isolated.

A frame that entered a box through one port may leave through any other, unless both are isolated. So the frames'
ways are the walks of a directed graph whose vertices are (box, port of entry); a flooded frame takes all of them,
and circles if and only if that graph has a cycle. Without isolation this is any loop of the wires; with it, guests
side by side between two virtual switches make no loop, as no frame goes back through a second one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Box = TypeVar("Box")
Port = tuple[Box, str]  # with the name of its port


def storm(
    boxes: Mapping[Box, Mapping[str, bool]], cables: Iterable[tuple[Port[Box], Port[Box]]]
) -> list[Box]:
    """Boxes that a frame passes again and again, in order; empty when none circles.

    `boxes`: ports by box, and whether each is isolated. `cables` join two ports; boxes that pass nothing on are
    left out.

    >>> side_by_side = {"br0": {"a": True, "b": True}, "br1": {"a": True, "b": True},
    ...                 "vm1": {"0": False, "1": False}, "vm2": {"0": False, "1": False}}
    >>> wires = [(("br0", "a"), ("vm1", "0")), (("br1", "a"), ("vm1", "1")),
    ...          (("br0", "b"), ("vm2", "0")), (("br1", "b"), ("vm2", "1"))]
    >>> storm(side_by_side, wires)
    []
    >>> storm(side_by_side | {"br1": {"a": False, "b": False}, "br0": {"a": False, "b": False}}, wires)
    ['vm1', 'br1', 'vm2', 'br0']
    """
    far: dict[Port[Box], Port[Box]] = {}
    for one, other in cables:
        far[one], far[other] = other, one
    done: set[Port[Box]] = set()
    for start in far.values():
        way: list[Port[Box]] = []
        under_way: set[Port[Box]] = set()
        stack: list[tuple[Port[Box], bool]] = [(start, False)]
        while stack:
            at, leaving = stack.pop()
            if leaving:
                under_way.discard(way.pop())
                done.add(at)
                continue
            if at in under_way:
                return [box for box, _ in way[way.index(at) :]]
            if at in done:
                continue
            way.append(at)
            under_way.add(at)
            stack.append((at, True))
            box, entered = at
            ports = boxes[box]
            for port, isolated in ports.items():
                if port != entered and (box, port) in far and not (isolated and ports[entered]):
                    stack.append((far[box, port], False))
    return []
