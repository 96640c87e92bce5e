"""How long a guest that forwards delays a frame, where that costs it something.

Guests forward one frame at a time each, on processors that they share; those that wait for one take turns, a frame
each. So a guest that has frames waits for at most one frame of every other guest before each of its own, however
many processors there are: it serves a frame in c + sum of the others' longest, after the time in which it is
roused. If no guest is roused, all guests together are never idle while a frame waits, so none waits longer than one
processor can be busy at a stretch.

Frames follow each other, so both hold for all. A frame that finds the guest's backlog full is dropped, and delays
no other; so no frame waits for more than a full backlog of turns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtlab.prediction.bound.curves import COUNTED_LESS_BYTES, NS, Flow, Hop, Port, times


@dataclass(frozen=True, slots=True)
class Server:
    """The costs of forwarding in a guest, in ns."""

    packet_ns: float
    byte_ns: float
    rouse_ns: float
    backlog_packets: int

    def frame_ns(self, bits: float) -> float:
        """The cost of a frame that takes so many bits on the wire."""
        return self.packet_ns + max(bits / 8 - COUNTED_LESS_BYTES, 0.0) * self.byte_ns


def forwarding_s(hop: Hop, flows: Sequence[Flow], servers: Mapping[str, Server]) -> float:
    """The longest wait for a guest that forwards; infinite where its port may be given more than it forwards."""
    own = servers.get(hop.port[1])
    if own is None:
        return 0.0
    through = _through(flows, servers)
    mine, turn_ns = through[hop.port[1]], _turn_ns(through, servers)
    frames = sum(_frames(flow, hop.port) for flow in mine)
    per_s = sum(flow.calls_per_s for flow in mine)
    by_turns = own.rouse_ns / NS + times(frames, turn_ns) / NS if per_s * turn_ns <= NS else math.inf
    return min(by_turns, _together_s(through, servers))


def full_s(hop: Hop, flows: Sequence[Flow], servers: Mapping[str, Server]) -> float:
    """How long the last frame of a full backlog takes."""
    own = servers.get(hop.port[1])
    if own is None:
        return 0.0
    turn_ns = _turn_ns(_through(flows, servers), servers)
    return (own.rouse_ns + (own.backlog_packets + 2) * turn_ns) / NS


def _through(flows: Sequence[Flow], servers: Mapping[str, Server]) -> dict[str, list[Flow]]:
    through: dict[str, list[Flow]] = {}
    for flow in flows:
        for each in flow.hops:
            if each.serves == "guest" and each.port[1] in servers:
                through.setdefault(each.port[1], []).append(flow)
    return through


def _turn_ns(through: Mapping[str, Sequence[Flow]], servers: Mapping[str, Server]) -> float:
    """A frame of every other guest, and one's own."""
    return sum(_longest_ns(servers[name], theirs) for name, theirs in through.items())


def _frames(flow: Flow, port: Port) -> float:
    """So many frames at once in front of a port: as many more as its bits are, come at their pace."""
    later = flow.arrives[port] - flow.sigma
    return flow.calls + (times(flow.calls_per_s, later / flow.rho) if later > 0 else 0.0)


def _longest_ns(server: Server, flows: Sequence[Flow]) -> float:
    return max(server.frame_ns(flow.largest) for flow in flows)


def _together_s(through: Mapping[str, Sequence[Flow]], servers: Mapping[str, Server]) -> float:
    if any(servers[name].rouse_ns for name in through):
        return math.inf
    work_s, share = 0.0, 0.0
    for name, mine in through.items():
        for flow in mine:
            own, port = servers[name], ("guest", name)
            work_s += times(_frames(flow, port), own.packet_ns / NS) + times(
                flow.arrives[port] / 8, own.byte_ns / NS
            )
            share += times(flow.calls_per_s, own.packet_ns / NS) + times(flow.rho / 8, own.byte_ns / NS)
    return work_s / (1 - share) if share < 1 else math.inf
