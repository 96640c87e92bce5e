"""A picture of the world: hosts with their virtual switches and guests, physical switches, links with rates.

Links of a world form trees, so a layered drawing is exact: the longest path lies along the top from left to
right, and branches hang below where they leave it. What is drawn comes from the Plan; all of it is escaped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from virtlab.units import Bitrate, Duration

HOST_WIDTH, SWITCH_WIDTH, GAP, ROW_GAP = 210, 96, 96, 34
GUEST_HEIGHT, HEAD, BRIDGE = 50, 34, 34


@dataclass
class _Box:
    name: str
    is_host: bool
    width: float
    height: float
    column: int = 0
    row: int = 0
    x: float = 0.0
    y: float = 0.0
    guests: list[str] = field(default_factory=list)
    bridges: list[str] = field(default_factory=list)


def picture(plan: Mapping[str, Any]) -> str:
    """The world of a Plan (its JSON) as inline SVG, colours as CSS variables, with the same in words inside."""
    world = plan.get("world", {})
    boxes = _boxes(world)
    edges = _edges(world, boxes)
    _lay_out(boxes, edges)
    width = max((box.x + box.width for box in boxes.values()), default=0) + 12
    height = max((box.y + box.height for box in boxes.values()), default=0) + 12
    words = _words(world, boxes)
    body = "".join(_link(world["links"][name], boxes, ends) for name, ends in edges)
    body += "".join(_box(box, world, plan.get("roles", {})) for box in boxes.values())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" role="img" aria-label="{escape(words)}">{body}</svg>'
    )


def _boxes(world: Mapping[str, Any]) -> dict[str, _Box]:
    boxes: dict[str, _Box] = {}
    for name in world.get("hosts", {}):
        guests = [guest for guest, about in world.get("guests", {}).items() if about["host"] == name]
        bridges = [bridge for bridge, about in world.get("vswitches", {}).items() if about["host"] == name]
        height = HEAD + max(1, len(guests)) * (GUEST_HEIGHT + 8) + (BRIDGE + 12 if bridges else 4)
        boxes[name] = _Box(
            name, is_host=True, width=HOST_WIDTH, height=height, guests=guests, bridges=bridges
        )
    for name in world.get("switches", {}):
        boxes[name] = _Box(name, is_host=False, width=SWITCH_WIDTH, height=56)
    return boxes


def _edges(world: Mapping[str, Any], boxes: Mapping[str, _Box]) -> list[tuple[str, tuple[str, str]]]:
    edges = []
    for name, link in world.get("links", {}).items():
        first, second = (_owner(end, world, boxes) for end in link["ends"])
        if first and second:
            edges.append((name, (first, second)))
    return edges


def _owner(end: str, world: Mapping[str, Any], boxes: Mapping[str, _Box]) -> str:
    """The host or switch whose port `end` is."""
    owner = end.rpartition(".")[0]
    while owner:
        if owner in boxes:
            return owner
        owner = owner.rpartition(".")[0]
    for bridge in world.get("vswitches", {}).values():
        if end in bridge.get("uplinks", ()):
            return str(bridge["host"])
    return ""


def _lay_out(boxes: dict[str, _Box], edges: list[tuple[str, tuple[str, str]]]) -> None:
    neighbours: dict[str, list[str]] = {name: [] for name in boxes}
    for _, (first, second) in edges:
        neighbours[first].append(second)
        neighbours[second].append(first)
    placed: set[str] = set()
    next_row = 0
    for name in boxes:
        if name in placed:
            continue
        start = _path_to_farthest(_path_to_farthest(name, neighbours)[-1], neighbours)
        start = start if list(boxes).index(start[0]) <= list(boxes).index(start[-1]) else start[::-1]
        next_row = _place(start[0], start, neighbours, boxes, placed=placed, row=next_row)
    columns = sorted({box.column for box in boxes.values()})
    x = 12.0
    for column in columns:
        wide = max(box.width for box in boxes.values() if box.column == column)
        for box in boxes.values():
            if box.column == column:
                box.x = x + (wide - box.width) / 2
        x += wide + GAP
    y = 12.0
    for row in sorted({box.row for box in boxes.values()}):
        tall = max(box.height for box in boxes.values() if box.row == row)
        for box in boxes.values():
            if box.row == row:
                box.y = y + (tall - box.height) / 2
        y += tall + ROW_GAP


def _path_to_farthest(start: str, neighbours: Mapping[str, list[str]]) -> list[str]:
    paths = {start: [start]}
    queue = deque([start])
    last = start
    while queue:
        last = queue.popleft()
        for other in neighbours[last]:
            if other not in paths:
                paths[other] = [*paths[last], other]
                queue.append(other)
    return paths[last]


def _place(
    root: str,
    spine: list[str],
    neighbours: Mapping[str, list[str]],
    boxes: Mapping[str, _Box],
    *,
    placed: set[str],
    row: int,
) -> int:
    """Columns by distance from the root; the spine keeps its row, any other branch takes a row of its own."""
    top, free = row, row + 1
    stack = [(root, 0, row)]
    while stack:
        name, column, at = stack.pop(0)
        placed.add(name)
        boxes[name].column, boxes[name].row = column, at
        children = [other for other in neighbours[name] if other not in placed]
        on_spine = [other for other in children if other in spine and at == top]
        rest = [other for other in children if other not in on_spine]
        stack += [(other, column + 1, top) for other in on_spine]
        for index, other in enumerate(rest):
            if index == 0 and not on_spine:
                stack.append((other, column + 1, at))
            else:
                stack.append((other, column + 1, free))
                free += 1
            placed.add(other)
    return free


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="t-{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _link(link: Mapping[str, Any], boxes: Mapping[str, _Box], ends: tuple[str, str]) -> str:
    first, second = sorted((boxes[end] for end in ends), key=lambda box: (box.x, box.y))
    x1, y1 = first.x + first.width, first.y + first.height / 2
    x2, y2 = second.x, second.y + second.height / 2
    middle = (x1 + x2) / 2
    path = f"M{x1:.0f} {y1:.0f} C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    rate = str(Bitrate(int(link["rate_bit_per_s"])))
    delay = int(link.get("propagation_ns", 0))
    below = f"+{Duration(delay)}" if delay else ""
    label_x, label_y = (x1 + x2) / 2, (y1 + y2) / 2
    return (
        f'<path d="{path}" class="t-link"/>'
        + _text(label_x, label_y - 8, rate, "rate", "middle")
        + (_text(label_x, label_y + 16, below, "rate", "middle") if below else "")
    )


def _box(box: _Box, world: Mapping[str, Any], roles: Mapping[str, Any]) -> str:
    kind = "host" if box.is_host else "switch"
    out = _rectangle(kind, box.x, box.y, box.width, box.height)
    if not box.is_host:
        out += _text(box.x + box.width / 2, box.y + 24, box.name, "name", "middle")
        processing = int(world["switches"][box.name].get("processing_ns", 0))
        says = f"switch, {Duration(processing)}" if processing else "switch"
        return out + _text(box.x + box.width / 2, box.y + 42, says, "small", "middle")
    out += _text(box.x + 14, box.y + 22, box.name, "name")
    y = box.y + HEAD
    for guest in box.guests:
        out += _guest(guest, world["guests"][guest], roles, x=box.x + 10, y=y, width=box.width - 20)
        y += GUEST_HEIGHT + 8
    if box.bridges:
        kinds = ", ".join(f"{world['vswitches'][name]['kind'].replace('_', ' ')}" for name in box.bridges)
        at = box.y + box.height - BRIDGE - 10
        out += _rectangle("bridge", box.x + 10, at, box.width - 20, BRIDGE)
        out += _text(box.x + 20, at + 21, _short(", ".join(box.bridges), 12), "guest")
        out += _text(box.x + box.width - 20, at + 21, _short(kinds, 16), "small", "end")
    return out


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'rx="{10 if kind in {"host", "switch"} else 6}" class="t-{kind}"/>'
    )


def _guest(
    name: str, guest: Mapping[str, Any], roles: Mapping[str, Any], *, x: float, y: float, width: float
) -> str:
    addresses = [
        ip.partition("/")[0] for vnic in guest.get("vnics", {}).values() for ip in vnic.get("ip", ())
    ]
    plays = [
        f"{role}{' ▸' if about.get('from') == name else ' ◂'}"
        for role, about in roles.items()
        if name in (about.get("from"), about.get("to"))
    ]
    out = _rectangle("guest", x, y, width, GUEST_HEIGHT)
    out += _text(
        x + 10,
        y + 20,
        _short(
            name + (" (router)" if guest.get("forwards") else " (bridge)" if guest.get("bridges") else ""), 20
        ),
        "guest",
    )
    out += _text(
        x + width - 10, y + 20, _short(addresses[0] if addresses else guest["platform"], 18), "small", "end"
    )
    return out + _text(x + 10, y + 39, _short(", ".join(plays) or str(guest["platform"]), 30), "role")


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _words(world: Mapping[str, Any], boxes: Mapping[str, _Box]) -> str:
    hosts = [
        f"{box.name} with {', '.join(box.guests) or 'no guest'}" for box in boxes.values() if box.is_host
    ]
    links = [
        f"{link['ends'][0]} to {link['ends'][1]} at {Bitrate(int(link['rate_bit_per_s']))}"
        for link in world.get("links", {}).values()
    ]
    switches = [box.name for box in boxes.values() if not box.is_host]
    return (
        f"{len(hosts)} host{'' if len(hosts) == 1 else 's'} ({'; '.join(hosts)}), "
        f"{len(switches)} physical switch{'' if len(switches) == 1 else 'es'}"
        + (f" ({', '.join(switches)})" if switches else "")
        + (f". Links: {'; '.join(links)}." if links else ", no links.")
    )
