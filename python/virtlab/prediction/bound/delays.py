"""The longest that each port delays a frame, worked out for all ports together.

A port that is first in, first out with rate R delays no frame longer than

    h = max over t of (sum of the curves at t) / R - t,   own transmission included,

and no frame of a full queue of n packets longer than n + 2 largest frames take: whichever is less. What comes
through one link comes no faster than that link sends, which counts. A flow that was delayed by up to h leaves with
sigma + rho h. A class of a port has what the others leave it, as rate R' after a latency:

| port | what is left to a class |
|---|---|
| `by_rank` | the rate less that of the classes before it, after what these may send at once and a frame of a class behind |
| `by_rounds` | C Q_i / F after (F - Q_i)(1 + l_i / Q_i) + sum of the others' l_j, and one frame; over C |
| `by_rate` | the rate that it is sure of, after X and one frame of its own at that rate |

F is the sum of the quanta of classes in use, l a largest frame. X = (sum of the others' bursts and largest frames,
and one frame) / (C - sum of their rates): so long at most the others can keep a class waiting that may send, since
lenders that stand lowest go first. It holds where the rates come to C at most, and where no token is lost
meanwhile: burst >= rate X.

What is left to a class served `by_curve` is in `real_time`, how long a guest that forwards delays in `forwarding`.

A port that is never idle while a frame waits, in whatever order it serves, delays no frame longer than it can be
busy at a stretch: until the sum of all curves meets C t. A flow with a window W adds no more than W to what waits
at a port that is first in, first out, however fast it comes; with the others' curves sum sigma + sum rho t, what
waits when a frame comes came within the longest delay D, so D <= (sum W + sum sigma) / (C - sum rho).

Delays begin at those of full queues (infinite where a queue has no end), so each round is a bound, whatever circles the
flows make; and rounds only lower it.

Source: Le Boudec and Thiran, Network Calculus, 2001: theorems 1.4.2 (delay) and 1.4.3 (output), sections 1.3
(priority) and 1.5 (greedy shapers), aggregates of chapter 6. DRR: Boyer, Stea and Sofack, Deficit Round Robin with
network calculus, 2012, theorem 1; here with a turn that is under way as the frame comes, and frames whose bits on
the wire are more than those that the discipline counts. HTB, the window's bound and the start at full queues in
place of feed-forward order are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from virtlab.prediction.bound import real_time
from virtlab.prediction.bound.curves import (
    COUNTED_LESS_BYTES,
    MOST_PER_COUNTED_BIT,
    NS,
    Flow,
    Hop,
    Port,
    is_finite,
    per_counted_bit,
    times,
)
from virtlab.prediction.bound.forwarding import Server, forwarding_s, full_s

ROUNDS = 100


def delays(flows: Sequence[Flow], servers: Mapping[str, Server] | None = None) -> dict[Port, float]:
    """A bound in seconds of every port, lowered round by round; infinite without a bound.

    `servers`: what forwarding costs guests; those that are not there forward at once.
    """
    servers = servers or {}
    largest = max(flow.largest for flow in flows)
    hops = {hop.port: hop for flow in flows for hop in flow.hops}
    full = {port: _full_s(hop, largest, flows) for port, hop in hops.items()}
    full |= {port: full_s(hop, flows, servers) for port, hop in hops.items() if hop.serves == "guest"}
    found = dict(full)
    for _ in range(ROUNDS):
        _spread(flows, found)
        lower = {
            port: min(
                found[port], full[port], _served_s(hop, flows, hops, servers), _window_s(hop, flows),
                _busy_s(hop, flows, hops),
            )
            for port, hop in hops.items()
        }  # fmt: skip
        settled = all(
            lower[port] == found[port] or math.isclose(lower[port], found[port], rel_tol=1e-9)
            for port in hops
        )
        found = lower
        if settled:
            break
    return found


def through_s(flow: Flow, delays: Mapping[Port, float]) -> float:
    """From end to end, in seconds."""
    ports = sum(delays[hop.port] + hop.after_ns / NS for hop in flow.hops)
    return ports + (flow.lead_ns + flow.tail_ns) / NS


def _spread(flows: Sequence[Flow], delays: Mapping[Port, float]) -> None:
    """What each flow may send at once in front of each port. What waits for answers never sends more than its
    window.
    """
    for flow in flows:
        late_s = flow.lead_ns / NS
        if flow.request is not None:
            late_s += through_s(flow.request, delays) - sum(hop.after_ns for hop in flow.request.hops) / NS
        sigma = flow.sigma
        if flow.window is None:
            sigma += times(flow.rho, late_s)
        for hop in flow.hops:
            flow.arrives[hop.port] = sigma
            if flow.window is None:
                sigma += times(flow.rho, delays[hop.port])


def _full_s(hop: Hop, largest: float, flows: Sequence[Flow]) -> float:
    """How long the last frame of a full queue takes: of what is first in, first out, or of the class served first."""
    first, rate = 0.0, hop.rate
    if hop.serves == "by_curve":
        return real_time.full_s(hop, flows)
    if hop.serves in {"by_rounds", "by_rate"}:
        first, rate = _left(hop, flows)
    elif hop.serves in {"any_order", "guest"} or any(
        each.line == hop.line and each.rank < hop.rank for flow in flows for each in flow.hops
    ):
        return math.inf
    waiting = math.inf
    if hop.limit_packets is not None:
        waiting = (hop.limit_packets + 2) * largest
    if hop.limit_bytes is not None:
        waiting = min(waiting, 8 * hop.limit_bytes * MOST_PER_COUNTED_BIT + 2 * largest)
    more = max(-hop.free, 0.0)  # a shaper that may owe
    return (first + waiting + more) / rate if rate > 0 and is_finite(first) else math.inf


def _through(port: Port, flows: Sequence[Flow]) -> list[Flow]:
    return [flow for flow in flows if port in flow.arrives]


def _pieces(
    port: Port, flows: Sequence[Flow], hops: Mapping[Port, Hop]
) -> list[tuple[float, float, float, float]]:
    """Curves by the port that flows come from, each the lesser of two lines: (sigma, rho, cap, slope)."""
    groups: dict[Port | None, list[Flow]] = {}
    for flow in flows:
        ports = [each.port for each in flow.hops]
        if port in ports:
            at = ports.index(port)
            groups.setdefault(ports[at - 1] if at else None, []).append(flow)
    pieces = []
    for before, mine in groups.items():
        sigma, rho = sum(flow.arrives[port] for flow in mine), sum(flow.rho for flow in mine)
        if before is None or hops[before].serves == "guest":
            pieces.append((sigma, rho, math.inf, math.inf))
        else:
            # A bucket that counts less than the wire lets more of it go in short frames.
            more = MOST_PER_COUNTED_BIT if before[0] in {"shaper", "licence"} else 1.0
            slope = more * hops[before].rate
            cap = max(flow.largest for flow in mine) + more * max(hops[before].free, 0.0)
            if before[0] in {"vnic", "licence"}:  # frames catch up with one that takes longer to the link
                cap += slope * max(flow.uneven_ns for flow in mine) / NS
            elif hops[before].leaves:
                cap += slope * max(flow.late_ns for flow in mine) / NS
            pieces.append((sigma, rho, cap, slope))
    return pieces


def _served_s(
    hop: Hop, flows: Sequence[Flow], hops: Mapping[Port, Hop], servers: Mapping[str, Server]
) -> float:
    """Largest horizontal distance of the port's curves to what is left to it."""
    if hop.serves == "any_order":
        return math.inf
    if hop.serves == "guest":
        return forwarding_s(hop, flows, servers)
    if hop.serves == "by_curve":
        pieces = _pieces(hop.port, flows, hops)
        if _endless(pieces):
            return math.inf
        return real_time.delay_s(
            hop, flows, lambda t: sum(_least(piece, t) for piece in pieces), list(_knees(pieces)), _steepest(pieces)
        )  # fmt: skip
    first, rate = _left(hop, flows)
    if rate <= 0 or not is_finite(first):
        return math.inf
    pieces = _pieces(hop.port, flows, hops)
    if _steepest(pieces) > rate or _endless(pieces):
        return math.inf
    distances = (
        (first + sum(_least(piece, t) for piece in pieces) - hop.free) / rate - t for t in _knees(pieces)
    )
    return max(0.0, *distances)


def _busy_s(hop: Hop, flows: Sequence[Flow], hops: Mapping[Port, Hop]) -> float:
    """How long the port, with all its classes, can be busy at a stretch; infinite where it may idle with frames
    waiting.
    """
    if hop.port[0] != "link" or hop.serves == "by_rate" or hop.idles:
        return math.inf
    lines = [port for port, each in hops.items() if each.line == hop.line and port[0] == "link"]
    pieces = [piece for port in lines for piece in _pieces(port, flows, hops)]
    slope = _steepest(pieces)
    if slope >= hop.rate or _endless(pieces):
        return math.inf
    # The sum is concave: beyond its last knee it is a line, which meets C t once.
    last = max(_knees(pieces))
    return max(last, (sum(_least(piece, last) for piece in pieces) - slope * last) / (hop.rate - slope))


def _window_s(hop: Hop, flows: Sequence[Flow]) -> float:
    """The longest wait at a port that is first in, first out, with flows that wait for answers; infinite at others."""
    mine = _through(hop.port, flows)
    windows = [flow for flow in mine if flow.window is not None]
    if hop.serves != "in_order" or not windows:
        return math.inf
    others = [flow for flow in mine if flow.window is None]
    rate = hop.rate - sum(flow.rho for flow in others)
    if rate <= 0:
        return math.inf
    bits = sum(flow.window or 0.0 for flow in windows) + sum(flow.arrives[hop.port] for flow in others)
    if hop.port[0] != "link":
        bits += max(flow.largest for flow in mine)  # its bucket may be empty
    return bits / rate


def _left(hop: Hop, flows: Sequence[Flow]) -> tuple[float, float]:
    """Bits that go before a class at once, and the rate that is left to it."""
    if hop.serves == "by_rounds":
        return _by_rounds(hop, flows)
    if hop.serves == "by_rate":
        return _by_rates(hop, flows)
    bits, rate, behind = 0.0, hop.rate, 0.0
    for flow in flows:
        for other in flow.hops:
            if hop.line and other.line == hop.line and other.rank < hop.rank:
                bits += flow.arrives[other.port]
                rate -= flow.rho
            elif hop.line and other.line == hop.line and other.rank > hop.rank:
                behind = max(behind, flow.largest)
    return bits + behind, rate


def _rivals(hop: Hop, flows: Sequence[Flow]) -> dict[Port, tuple[Hop, list[Flow]]]:
    """The other classes of the line that something is sent in."""
    found: dict[Port, tuple[Hop, list[Flow]]] = {}
    for flow in flows:
        for other in flow.hops:
            if other.line == hop.line and other.port != hop.port and other.port[0] == "link":
                found.setdefault(other.port, (other, []))[1].append(flow)
    return found


def _own(hop: Hop, flows: Sequence[Flow]) -> list[Flow]:
    return [flow for flow in flows if any(each.port == hop.port for each in flow.hops)]


def _by_rounds(hop: Hop, flows: Sequence[Flow]) -> tuple[float, float]:
    rivals, mine = _rivals(hop, flows), _own(hop, flows)
    largest = max(flow.largest for flow in mine)
    own_counted = largest - 8 * COUNTED_LESS_BYTES
    own_wire = per_counted_bit(largest)  # the least that a bit counted takes of the wire
    before, per_turn, frame = 0.0, 0.0, largest
    for other, theirs in rivals.values():
        share = max(per_counted_bit(flow.smallest) for flow in theirs)
        most = max(flow.largest for flow in theirs)
        per_turn += share * other.quantum_bits
        before += share * (other.quantum_bits + most - 8 * COUNTED_LESS_BYTES)
        frame = max(frame, most)
    # In p turns of its own a class sends p Q - l counted bits at least, while the others have p + 1 turns at most.
    weight = 1.0 + per_turn / (hop.quantum_bits * own_wire)
    latency = before + per_turn * own_counted / hop.quantum_bits + (frame if rivals else 0.0)
    return latency / weight, hop.rate / weight


def _by_rates(hop: Hop, flows: Sequence[Flow]) -> tuple[float, float]:
    rivals, mine = _rivals(hop, flows), _own(hop, flows)
    largest = max(flow.largest for flow in mine)
    sure = hop.sure * per_counted_bit(largest)
    bits, rate, frame = 0.0, hop.rate, largest
    for other, theirs in rivals.values():
        share = max(per_counted_bit(flow.smallest) for flow in theirs)
        most = max(flow.largest for flow in theirs)
        bits += share * other.burst_bits + most
        rate -= share * other.sure
        frame = max(frame, most)
    if rate < sure or rate <= 0:
        return math.inf, 0.0
    waits_s = (bits + frame) / rate if rivals else 0.0
    if hop.burst_bits < hop.sure * waits_s:
        return math.inf, 0.0
    return sure * waits_s + 2 * largest, sure


def _least(piece: tuple[float, float, float, float], t: float) -> float:
    """The lesser of a group's two lines at t; no line where it is infinite."""
    sigma, rho, cap, slope = piece
    own = sigma + times(rho, t)
    return own if math.isinf(cap) else min(own, cap + slope * t)


def _steepest(pieces: Sequence[tuple[float, float, float, float]]) -> float:
    """Slope of the sum in the end."""
    return sum(slope if math.isinf(sigma) else min(rho, slope) for sigma, rho, _, slope in pieces)


def _endless(pieces: Sequence[tuple[float, float, float, float]]) -> bool:
    return any(math.isinf(sigma) and math.isinf(cap) for sigma, _, cap, _ in pieces)


def _knees(pieces: Sequence[tuple[float, float, float, float]]) -> set[float]:
    return {0.0} | {
        (sigma - cap) / (slope - rho)
        for sigma, rho, cap, slope in pieces
        if cap < sigma < math.inf and slope > rho
    }
