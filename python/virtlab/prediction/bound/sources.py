"""What each role may send: its flows, there and back.

| role | at once | per second |
|---|---|---|
| `rtt` at a constant interval | one message | one per interval |
| `burst_load` | all streams' bursts (each has a phase of its own that does not move) | that, per period |
| `udp_stream`, `raw_stream` at a constant rate | two messages | its rate |
| `tcp_stream`, `tcp_rr` | its window, or one request | that, per least round trip |
| anything else that speaks IP | not bounded: only full queues bound what meets it | |

A sender cuts its packets by the MTU of its own vNIC; TCP's segments fit both ends'. What the timeline sets while a
role runs counts from the beginning where it is more than the role's own value. A stream begins again with each, at
once.

A TCP source is bounded by its window: no more than the smaller of the two buffers is between its ends, a probe for
a lost tail besides, and in the least round trip each byte passes a port once. What comes back are acknowledgements,
two at the most for each segment (the second tells of a window that opened). That holds while no segment is given up
that still waits in a queue: as long as a round trip takes less than the least time-out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from virtlab.catalogue import WORKLOADS, Workload
from virtlab.catalogue.actions import tunes_role
from virtlab.plan import Plan, Role
from virtlab.planner.topology.ends import RoleEnd, role_ends, via_vnics
from virtlab.prediction.bound.curves import (
    IP_BYTES,
    NS,
    UDP_BYTES,
    WIRE_LEAST_BYTES,
    Flow,
    Hop,
    NoBoundError,
    frames_bits,
    wire_bits,
)
from virtlab.prediction.bound.paths import Paths
from virtlab.simulator.paths import by_tcp
from virtlab.units.ethernet import HEADER_AND_FCS_BYTES

LONGEST_PACKET_BYTES = 65_535
LONGEST_DATAGRAM_BYTES = 65_507
TCP_BYTES = 32  # header with time stamps
ACK_BYTES = 20 + 20 + 40  # IPv4 and TCP with all options
GROWS_TO_BYTES = 3 << 20  # receive window where the role fixes none
TIMEOUT_LEAST_NS = 200e6


def flows_of(plan: Plan, paths: Paths, name: str, role: Role) -> Iterator[Flow]:
    """Flows of a role, requests before their replies. NoBoundError where its frames' sizes are not known."""
    ends = role_ends(plan, role)
    values: Mapping[str, Any] = role.parameters
    dscp = int(values.get("dscp") or 0)  # both ways
    declared = WORKLOADS[role.workload]
    if ends is not None and declared.envelope == "frames":
        changes = _changes(plan, name, role)
        yield from _frames(plan, paths, name, _with_largest(values, changes), len(changes), *ends, dscp)
        return
    if ends is None or any(end.address is None or end.address.version != 4 for end in ends):
        raise NoBoundError(f"{name} has no two ends with IPv4")
    here, there = ends
    changes = _changes(plan, name, role)
    values = _with_largest(values, changes)
    mtus = (here.mtu_bytes, there.mtu_bytes)
    if by_tcp(role):
        mtus = (min(mtus), min(mtus))
    largest = _packet_bytes(declared, values)
    used = _directions(declared, values)
    ahead = paths.packets(here, there, dscp, min(mtus[0], largest)) if "from" in used else []
    back = paths.packets(there, here, dscp, min(mtus[1], largest)) if "to" in used else []
    constant = values.get("arrivals", "constant") == "constant"
    if declared.envelope == "echoes":
        yield from _echoes(name, values, mtus, ahead, back, constant=constant)
    elif declared.envelope == "bursts":
        sizes = {int(each["burst_bytes"]) for each in (role.parameters, *changes)}
        yield from _bursts(name, values, sizes, mtus, ahead, back)
    elif declared.envelope == "datagrams":
        yield _stream(name, values, mtus[0], ahead, len(changes), constant=constant)
    elif declared.envelope == "window":
        yield from _tcp(name, values, mtus[0], ahead, back)
    elif declared.envelope == "unbounded":
        for hops, mtu in ((ahead, mtus[0]), (back, mtus[1])):
            yield _unbounded(name, hops, wire_bits(mtu))
    else:
        raise NoBoundError(f"what {name} ({role.workload}) sends at once is not bounded")


def _changes(plan: Plan, name: str, role: Role) -> list[Mapping[str, Any]]:
    """What the timeline sets of a role while it runs. NoBoundError where that is no size and no rate."""
    changes = [action.args for action in plan.timeline if tunes_role(action.do) and action.role == name]
    for parameter in {parameter for args in changes for parameter in args}:
        if parameter not in WORKLOADS[role.workload].tunable:
            raise NoBoundError(f"{name} has another {parameter} while it runs")
    return [args for args in changes if args]


def _with_largest(values: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A role's parameters with the largest value of each that changes; what has no value goes as fast as it can."""
    changed = {parameter for args in changes for parameter in args if values.get(parameter) is not None}
    most = {one: max(values[one], *(args[one] for args in changes if one in args)) for one in changed}
    return {**values, **most}


def _directions(declared: Workload, values: Mapping[str, Any]) -> set[str]:
    """The ends from which something is sent."""
    origin = str(values.get("origin", "from"))
    return {origin} if declared.one_way(values) and origin != "both" else {"from", "to"}


def _packet_bytes(declared: Workload, values: Mapping[str, Any]) -> int:
    """An uncut IP packet, of what has one size."""
    body = _body_bytes(values) if declared.envelope in {"echoes", "datagrams"} else None
    return LONGEST_PACKET_BYTES if body is None else body + IP_BYTES


def _unbounded(name: str, hops: list[Hop], largest: float) -> Flow:
    return Flow(name, hops, math.inf, 0.0, largest, 8 * WIRE_LEAST_BYTES, calls=math.inf)


def _held(
    name: str, hops: list[Hop], frames: Sequence[int], per_s: float, messages: int = 1, request: Flow | None = None
) -> Flow:  # fmt: skip
    """Messages of these frames each, so many at once, and each so often."""
    sigma = float(sum(frames)) * messages
    return Flow(
        name, hops, sigma, sigma * per_s, max(frames), min(frames), request,
        calls=float(len(frames) * messages), calls_per_s=len(frames) * messages * per_s,
    )  # fmt: skip


def _echoes(
    name: str, values: Mapping[str, Any], mtus: tuple[int, int], ahead: list[Hop], back: list[Hop], *, constant: bool
) -> Iterator[Flow]:  # fmt: skip
    payload = _body_bytes(values)
    if payload is None or not values.get("interval_ns"):
        raise NoBoundError(f"{name} has no interval, or no size that this knows")
    frames, answers = (frames_bits(payload, mtu) for mtu in mtus)
    if not constant:
        yield _unbounded(name, ahead, max(frames))
        yield _unbounded(name, back, max(answers))
        return
    request = _held(name, ahead, frames, NS / values["interval_ns"])
    yield request
    yield _held(name, back, answers, NS / values["interval_ns"], request=request)


def _body_bytes(values: Mapping[str, Any]) -> int | None:
    """What stands behind the IP header, by the one size that a role says."""
    if values.get("ip_packet_bytes"):
        return int(values["ip_packet_bytes"]) - IP_BYTES
    if values.get("payload_bytes") is not None:
        return int(values["payload_bytes"]) + UDP_BYTES
    if values.get("frame_bytes"):
        return int(values["frame_bytes"]) - HEADER_AND_FCS_BYTES - IP_BYTES
    return None


def _bursts(
    name: str, values: Mapping[str, Any], sizes: Iterable[int], mtus: tuple[int, int], ahead: list[Hop], back: list[Hop]
) -> Iterator[Flow]:  # fmt: skip
    """The largest of the sizes that a burst may have; the shortest frame may belong to a burst of any size."""
    streams, per_s = int(values.get("streams") or 1), NS / values["period_ns"]
    shares = {share for size in sizes for share in (size // streams, -(-size // streams))}
    most = max(shares)
    frames, answers = (
        (_burst_bits(most, mtu), min(min(_burst_bits(share, mtu)) for share in shares)) for mtu in mtus
    )
    origin = values.get("origin", "from")
    ways = [(ahead, frames, back, answers)] * (origin in {"from", "both"})
    ways += [(back, answers, ahead, frames)] * (origin in {"to", "both"})
    for one, (bits, shortest), other, (reply_bits, reply_shortest) in ways:
        request = _held(name, one, bits, per_s, streams)
        request.smallest = shortest
        yield request
        if values.get("direction") == "request_reply":
            reply = _held(name, other, reply_bits, per_s, streams, request)
            reply.smallest = reply_shortest
            yield reply


def _burst_bits(share_bytes: int, mtu: int) -> list[int]:
    """The bits of the frames of one stream's burst, in as few datagrams as possible of equal size (to one byte)."""
    count = max(-(-share_bytes // LONGEST_DATAGRAM_BYTES), 1)
    sizes = [share_bytes // count + (index < share_bytes % count) for index in range(count)]
    return [bits for size in sizes for bits in frames_bits(size + UDP_BYTES, mtu)]


def _stream(
    name: str, values: Mapping[str, Any], mtu: int, ahead: list[Hop], changes: int, *, constant: bool
) -> Flow:
    body = _body_bytes(values)
    if body is None:
        raise NoBoundError(f"{name} has a size that this does not know")
    frames = frames_bits(body, mtu)
    if not constant or not values.get("rate_bit_per_s"):
        return _unbounded(name, ahead, max(frames))
    packet_bits = 8 * (body + IP_BYTES)  # as the rate counts it, before it is cut
    at_once = 2 + changes
    return _held(name, ahead, frames, values["rate_bit_per_s"] / packet_bits / at_once, at_once)


def _frames(
    plan: Plan, paths: Paths, name: str, values: Mapping[str, Any], changes: int, here: RoleEnd, there: RoleEnd, dscp: int
) -> Iterator[Flow]:  # fmt: skip
    """The flows of `raw_stream`: all that go one way as one, since they take turns at instants of one stream."""
    shares = [float(each) for each in values.get("shares") or ()]
    near = via_vnics(plan, here, values["via"]) if values.get("via") else []
    count = len(shares) or int(values.get("flows") or len(near) or 1)
    shares = shares or [1 / count] * count
    packet_bytes = int(values["frame_bytes"]) - HEADER_AND_FCS_BYTES
    bits = float(wire_bits(packet_bytes))
    paced = values.get("arrivals", "constant") == "constant" and values.get("rate_pps")
    for place in range(max(len(near), 1)):
        if not near:
            hops = paths.frames(here, there)
        elif (by := near[place]) is not None:
            hops = paths.by_way_of(here, by, there, dscp, packet_bytes)
        else:
            raise NoBoundError(
                f"{name} has a guest on its path that does not share its sender's virtual switch"
            )
        mine = shares[place :: len(near)] if near else shares
        if not mine:
            continue
        if not paced:
            yield _unbounded(name, hops, bits)
            continue
        # Flows of equal shares take turns at even instants, and so do those of one way where all ways have as many;
        # else each flow is even by itself. One more at once, since instants are whole nanoseconds; and with each
        # new rate.
        evenly = len(set(shares)) == 1 and (not near or count % len(near) == 0)
        at_once = (1 if evenly else len(mine)) * (1 + changes) + 1
        per_s = values["rate_pps"] * sum(mine) / sum(shares)
        yield _held(name, hops, [wire_bits(packet_bytes)], per_s / at_once, at_once)


def _tcp(name: str, values: Mapping[str, Any], mtu: int, ahead: list[Hop], back: list[Hop]) -> Iterator[Flow]:
    room = mtu - IP_BYTES - TCP_BYTES
    buffers = (values.get("send_buffer_bytes"), values.get("receive_buffer_bytes"))
    buffer = min((int(each) for each in buffers if each), default=GROWS_TO_BYTES)
    streams = int(values.get("streams") or 1)
    data = [
        ("to", ahead, min(buffer, int(values["request_bytes"])) if "request_bytes" in values else buffer),
    ]
    if "request_bytes" in values:
        data.append(("from", back, min(buffer, int(values["response_bytes"]))))
    least_s = _one_way_s(ahead) + _one_way_s(back)
    whole, ack = float(wire_bits(mtu)), float(wire_bits(ACK_BYTES))
    # Short segments fill a window with more headers: a request's last one, and one more where it was probed for again.
    for way, hops, most_bytes in data:
        segments = -(-most_bytes // room) + 2
        other = back if way == "to" else ahead
        for line, bits, largest in ((hops, segments * whole, whole), (other, 2 * segments * ack, ack)):
            window = streams * bits
            yield Flow(
                name, line, window, window / least_s if least_s else math.inf, largest, 8 * WIRE_LEAST_BYTES,
                window=window, calls=2.0 * segments * streams,
                calls_per_s=2.0 * segments * streams / least_s if least_s else math.inf,
            )  # fmt: skip


def _one_way_s(hops: list[Hop]) -> float:
    """How long the shortest frame takes through an empty network: nothing of TCP's comes back sooner than there and
    back.
    """
    return sum(8 * WIRE_LEAST_BYTES / hop.rate + hop.after_ns / NS for hop in hops if hop.port[0] == "link")
