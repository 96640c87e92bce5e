"""A worst case that no run exceeds: deterministic network calculus of FIFO and strict-priority ports, for echoes on an
ideal platform.

Every flow is held by an arrival curve sigma + rho t of bits on the wire: a role that sends so many bytes every period sends
at most one period's worth at once (streams of a burst load each have a phase of their own that does not move), and no more
than its rate over time. A FIFO port of rate R delays no frame longer than

    h = max over t of (sum of the curves at t) / R - t,   own transmission included,

and no frame of a full queue of n packets longer than n + 2 largest frames take: whichever is less. What comes through one
link comes no faster than that link sends, which counts. A flow that was delayed by up to h leaves with sigma + rho h. A
reply begins where its request ended. Delays of all ports are worked out together, beginning at those of full queues, so
each round is a bound, whatever circles the flows make; and the rounds only lower it.

In a port with strict priority, a class has what the classes before it leave: the rate less theirs, after what they may send
at once and one frame of a class behind it that has begun. Classes are told by code points.

Source: Le Boudec and Thiran, Network Calculus, 2001: theorems 1.4.2 (delay) and 1.4.3 (output), the priority node of section
1.3, aggregates of chapter 6; the start at full queues in place of feed-forward order is ours. Frames: an IP packet of b
bytes takes b + 38 bytes of the wire, 84 at least.

Flows: `rtt`, `burst_load`, `udp_stream` at a constant rate. Roles that run one after another do not meet. Anything else is
refused with its reason. The platform is ideal: what guests and bridges cost comes on top.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from virtlab.planner.ends import role_ends
from virtlab.planner.wiring import Wiring, vnic_box

if TYPE_CHECKING:
    from virtlab.plan import Plan, Queue, Role

NS = 1e9
WIRE_EXTRA_BYTES = 38
WIRE_LEAST_BYTES = 84
IP_BYTES, UDP_BYTES = 20, 8
BURST_FRAMES = 10  # of a vNIC's pushback
ROUNDS = 100

Port = tuple[str, str]  # ("vnic", guest/vnic) or ("link", "NAME ab")


class NoBoundError(Exception):
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class _Hop:
    port: Port
    rate: float  # bit/s
    after_ns: int  # propagation, and the switch behind it
    free: float = 0.0  # bits that go at once after a pause
    line: str = ""  # the direction of a link that its classes share
    rank: int = 0  # of its class: 0 is served first
    limit_packets: int | None = None  # of its queue; None: as long as it must be


@dataclass
class _Flow:
    """Bits of wire: `sigma` at once, `rho` per second; `largest` of its frames. A reply follows `request`."""

    role: str
    hops: list[_Hop]
    sigma: float
    rho: float
    largest: float
    request: _Flow | None = None
    arrives: dict[Port, float] = field(default_factory=dict)  # sigma in front of each port


def frames_bits(payload_bytes: int, mtu_bytes: int) -> list[int]:
    """Bits of wire of each frame of an IP payload, fragmented as IPv4 does.

    >>> frames_bits(1480, 1500), sum(frames_bits(1500, 1500))
    ([12304], 12976)
    """
    room = mtu_bytes - IP_BYTES
    sizes = []
    while payload_bytes > room:
        sizes.append(room // 8 * 8)
        payload_bytes -= sizes[-1]
    sizes.append(payload_bytes)
    return [8 * max(size + IP_BYTES + WIRE_EXTRA_BYTES, WIRE_LEAST_BYTES) for size in sizes]


def echo_bound_ns(plan: Plan, role: str) -> float:
    """No reply of an echo role takes longer, in ns. NoBoundError says why there is no bound."""
    if plan.roles[role].workload != "rtt":
        raise NoBoundError(f"{role} makes no echoes")
    world = plan.world
    if any(guest.forwards or guest.bridges or guest.licence_bit_per_s for guest in world.guests.values()):
        raise NoBoundError("a guest forwards frames")
    flows: list[_Flow] = []
    wiring = Wiring(plan)
    for name in _beside(plan, role):
        flows += _flows(plan, wiring, name, plan.roles[name])
    delays = _delays(flows)
    request, reply = (flow for flow in flows if flow.role == role)
    if any(math.isinf(delays[hop.port]) for flow in (request, reply) for hop in flow.hops):
        raise NoBoundError(f"a guest of {role} is given more than its vNIC lets go")
    return sum(_through(flow, delays) for flow in (request, reply))


def bounds_of(plan: Plan) -> dict[str, float | str]:
    """Echo role -> its bound in ns, or why there is none."""
    found: dict[str, float | str] = {}
    for name, role in plan.roles.items():
        if role.workload == "rtt":
            try:
                found[name] = echo_bound_ns(plan, name)
            except NoBoundError as error:
                found[name] = str(error)
    return found


def _beside(plan: Plan, role: str) -> list[str]:
    """The role and those that can be active while it is."""
    before: dict[str, set[str]] = {}
    for action in plan.timeline:
        events = () if action.after is None else (action.after.event, *action.after.all)
        names = {
            event.rpartition(".")[0]
            for event in events
            if event and event.rpartition(".")[2] in {"finished", "done"}
        }
        begun = {event.rpartition(".")[0] for event in events if event}
        before[action.id] = names | {one for each in begun for one in before.get(each, ())}
    runs = {action.role: action.id for action in plan.timeline if action.do == "run" and action.role}
    ends = {action.role: action.id for action in plan.timeline if action.do == "stop" and action.role}
    mine = runs.get(role)
    found = [role]
    for name in plan.roles:
        if name == role:
            continue
        other = runs.get(name)
        if mine and other and (mine in before[other] or other in before[mine]):
            continue  # one after the other
        if mine and name in ends and ends[name] in before[mine]:
            continue  # stopped before
        found.append(name)
    return found


def _flows(plan: Plan, wiring: Wiring, name: str, role: Role) -> Iterator[_Flow]:
    ends = role_ends(plan, role)
    if ends is None or any(end.address is None or end.address.version != 4 for end in ends):
        raise NoBoundError(f"{name} has no two ends with IPv4")
    here, there = ends
    boxes = vnic_box(here.guest, here.vnic), vnic_box(there.guest, there.vnic)
    values: Mapping[str, Any] = role.parameters
    dscp = int(values.get("dscp") or 0)  # both ways
    ahead, back = _hops(plan, wiring, *boxes, dscp), _hops(plan, wiring, boxes[1], boxes[0], dscp)
    mtu = min(here.mtu_bytes, there.mtu_bytes)
    if role.workload == "rtt":
        header = UDP_BYTES
        payload = values["ip_packet_bytes"] - IP_BYTES if values.get("ip_packet_bytes") else None
        if payload is None and values.get("payload_bytes") is not None:
            payload = values["payload_bytes"] + header
        if payload is None and values.get("frame_bytes"):
            payload = values["frame_bytes"] - 18 - IP_BYTES
        if payload is None or not values.get("interval_ns"):
            raise NoBoundError(f"{name} has no interval, or no size that this knows")
        frames = frames_bits(payload, mtu)
        rho = sum(frames) * NS / values["interval_ns"]
        request = _Flow(name, ahead, sum(frames), rho, max(frames))
        yield request
        yield _Flow(name, back, sum(frames), rho, max(frames), request)
    elif role.workload == "burst_load":
        streams = int(values.get("streams") or 1)
        header = UDP_BYTES
        each = -(-int(values["burst_bytes"]) // streams)
        frames = frames_bits(each + header, mtu)
        sigma, rho = float(sum(frames) * streams), sum(frames) * streams * NS / values["period_ns"]
        origin = values.get("origin", "from")
        ways = [(ahead, back)] * (origin in {"from", "both"}) + [(back, ahead)] * (origin in {"to", "both"})
        for one, other in ways:
            request = _Flow(name, one, sigma, rho, max(frames))
            yield request
            if values.get("direction") == "request_reply":
                yield _Flow(name, other, sigma, rho, max(frames), request)
    elif (
        role.workload == "udp_stream"
        and values.get("rate_bit_per_s")
        and values.get("arrivals", "constant") == "constant"
    ):
        payload = values.get("payload_bytes")
        if payload is None:
            raise NoBoundError(f"{name} has a size that this does not know")
        frames = frames_bits(payload + UDP_BYTES, mtu)
        packet_bits = 8 * (payload + UDP_BYTES + IP_BYTES * len(frames))
        yield _Flow(
            name, ahead, 2.0 * sum(frames), sum(frames) * values["rate_bit_per_s"] / packet_bits, max(frames)
        )
    else:
        raise NoBoundError(f"what {name} ({role.workload}) sends at once is not bounded")


def _hops(plan: Plan, wiring: Wiring, source: str, target: str, dscp: int) -> list[_Hop]:
    """Ports on the way from one vNIC to another."""
    came: dict[str, tuple[str, Any]] = {source: ("", None)}
    waiting = deque([source])
    while waiting and target not in came:
        box = waiting.popleft()
        for edge in wiring.edges[box]:
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
    hops: list[_Hop] = []
    guest, vnic = source.removeprefix("vnic:").split("/")
    held = plan.world.guests[guest].vnics[vnic].pushback_bit_per_s
    if held:
        frame = 8.0 * (plan.world.guests[guest].vnics[vnic].mtu_bytes + WIRE_EXTRA_BYTES)
        hops.append(_Hop(("vnic", f"{guest}/{vnic}"), float(held), 0, BURST_FRAMES * frame))
    for edge in reversed(edges):
        name = edge.because.removeprefix("links.")
        if not edge.because.startswith("links."):
            continue
        link = plan.world.links[name]
        way = "ab" if edge.port == link.ends[0] else "ba"
        queue = link.queue.ab if way == "ab" else link.queue.ba
        box = edge.box.removeprefix("switch:")
        processing = plan.world.switches[box].processing_ns if edge.box.startswith("switch:") else 0
        line = f"{name} {way}"
        own, rank, limit = _class(name, queue, dscp)
        hops.append(
            _Hop(
                ("link", f"{line} {own}".strip()), float(link.rate_bit_per_s), link.propagation_ns + processing,
                line=line, rank=rank, limit_packets=limit,
            )
        )  # fmt: skip
    return hops


def _class(link: str, queue: Queue, dscp: int) -> tuple[str, int, int | None]:
    """Name, rank and limit of the class that a code point belongs to; a FIFO has one. NoBoundError for other kinds."""
    if queue.kind == "fifo" and queue.limit_packets is not None and not queue.classes:
        return "", 0, queue.limit_packets
    by_code_point = all(
        rule == type(rule).model_validate({"class": rule.class_, "dscp": rule.dscp}) and rule.dscp
        for rule in queue.match
    )
    if queue.kind != "prio" or not queue.classes or not by_code_point:
        raise NoBoundError(
            f"links.{link} has a queue that is neither fifo in packets nor prio by code points"
        )
    chosen = next((rule.class_ for rule in queue.match if dscp in rule.dscp), queue.default)
    order = sorted(queue.classes, key=lambda name: (queue.classes[name].parameters.get("prio", 0), name))
    if chosen is None:
        raise NoBoundError(f"links.{link} has no class for code point {dscp}")
    rank = order.index(chosen)
    return chosen, rank, queue.classes[chosen].limit_packets if rank == 0 else None


def _delays(flows: Sequence[_Flow]) -> dict[Port, float]:
    """A bound in seconds of every port, lowered round by round."""
    largest = max(flow.largest for flow in flows)
    hops = {hop.port: hop for flow in flows for hop in flow.hops}
    full = {port: _full_s(hop, largest) for port, hop in hops.items()}
    delays = dict(full)
    for _ in range(ROUNDS):
        _spread(flows, delays)
        lower = {
            port: min(delays[port], full[port], _horizontal_s(hop, flows, hops)) for port, hop in hops.items()
        }
        settled = all(math.isclose(lower[port], delays[port], rel_tol=1e-9) for port in hops)
        delays = lower
        if settled:
            break
    return delays


def _full_s(hop: _Hop, largest: float) -> float:
    """How long the last frame of a full queue takes: of a FIFO, or of the class that is served first."""
    return math.inf if hop.limit_packets is None else (hop.limit_packets + 2) * largest / hop.rate


def _spread(flows: Sequence[_Flow], delays: Mapping[Port, float]) -> None:
    """What each flow may send at once in front of each port."""
    for flow in flows:
        sigma = flow.sigma
        if flow.request is not None:
            sigma += flow.rho * sum(delays[hop.port] for hop in flow.request.hops)
        for hop in flow.hops:
            flow.arrives[hop.port] = sigma
            sigma += flow.rho * delays[hop.port]


def _horizontal_s(hop: _Hop, flows: Sequence[_Flow], hops: Mapping[Port, _Hop]) -> float:
    """Largest horizontal distance of the port's curves to its line."""
    port = hop.port
    first, rate = _before(hop, flows)
    if rate <= 0 or math.isinf(first):
        return math.inf
    groups: dict[Port | None, list[_Flow]] = {}
    for flow in flows:
        ports = [each.port for each in flow.hops]
        if port in ports:
            at = ports.index(port)
            groups.setdefault(ports[at - 1] if at else None, []).append(flow)
    pieces = []  # each the lesser of two lines: (sigma, rho, cap, slope)
    for before, mine in groups.items():
        sigma, rho = sum(flow.arrives[port] for flow in mine), sum(flow.rho for flow in mine)
        if before is None:
            pieces.append((sigma, rho, math.inf, math.inf))
        else:
            largest = max(flow.largest for flow in mine)
            pieces.append((sigma, rho, largest + hops[before].free, hops[before].rate))
    steepest = sum(slope if math.isinf(sigma) else min(rho, slope) for sigma, rho, _, slope in pieces)
    if steepest > rate or any(math.isinf(sigma) and math.isinf(cap) for sigma, _, cap, _ in pieces):
        return math.inf
    knees = {0.0} | {
        (sigma - cap) / (slope - rho)
        for sigma, rho, cap, slope in pieces
        if cap < sigma < math.inf and slope > rho
    }
    distances = ((first + sum(_least(piece, t) for piece in pieces) - hop.free) / rate - t for t in knees)
    return max(0.0, *distances)


def _before(hop: _Hop, flows: Sequence[_Flow]) -> tuple[float, float]:
    """Bits that go before a class at once, and the rate that is left to it."""
    bits, rate, behind = 0.0, hop.rate, 0.0
    for flow in flows:
        for other in flow.hops:
            if hop.line and other.line == hop.line and other.rank < hop.rank:
                bits += flow.arrives[other.port]
                rate -= flow.rho
            elif hop.line and other.line == hop.line and other.rank > hop.rank:
                behind = max(behind, flow.largest)
    return bits + behind, rate


def _least(piece: tuple[float, float, float, float], t: float) -> float:
    """The lesser of a group's two lines at t; no line where it is infinite."""
    sigma, rho, cap, slope = piece
    return sigma + rho * t if math.isinf(cap) else min(sigma + rho * t, cap + slope * t)


def _through(flow: _Flow, delays: Mapping[Port, float]) -> float:
    return sum(delays[hop.port] * NS + hop.after_ns for hop in flow.hops)
