"""How long a class of HFSC can delay a frame that its real-time curve promises.

A leaf with a real-time curve S is served so that what has come in a backlogged period that began s ago has left to S(s)
bits, as the discipline counts them: every packet has a deadline, the time at which the curve reaches its last bit,
counted from the beginning of some backlogged period. Where the curves of all classes in use together never ask for more
than the line sends, sum S_i(t) <= C t for all t, no deadline is missed by more than one largest frame takes, which may
have been on the line as another became urgent. So a frame is delayed no longer than

    largest horizontal distance from the arrivals to S, and one largest frame,

own transmission included. What link sharing sends besides counts against no curve, and only helps. A queue that is full
has been backlogged for long; since then its class may have been served ahead of its curve as far as its eligible times
let it: not at all where the curve is concave, else by what the second slope is ahead of the first, and one frame.

A class without such a curve is promised nothing: it is bounded by how long the port is busy at a stretch, where nothing
(an upper limit, a class without link share) may have it idle.

Source: Stoica, Zhang and Ng, A hierarchical fair service curve algorithm for link-sharing, real-time and priority
services, 1997, equations (5) to (11) and theorems 1 and 2; Sariowan, Cruz and Polyzos, Scheduling for quality of
service guarantees via service curves, 1995, for the condition on the sum. Frames whose bits on the wire are more than
those that the discipline counts, and the full queue, are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from virtlab.prediction.bound.curves import Curve, Flow, Hop, Port, is_finite, per_counted_bit

ROUNDED_S = 10e-9  # instants are whole nanoseconds, and a curve that is lowered loses one step


def keeps_promises(hop: Hop, flows: Sequence[Flow]) -> bool:
    """Whether the curves of the classes in use never ask for more than the line sends."""
    asked: dict[Port, Curve] = {}
    smallest: dict[Port, float] = {}
    for flow in flows:
        for other in flow.hops:
            if other.line == hop.line and other.curve is not None:
                smallest[other.port] = min(flow.smallest, smallest.get(other.port, math.inf))
                asked[other.port] = other.curve
    curves = [curve.scaled(per_counted_bit(smallest[port])) for port, curve in asked.items()]
    knees = [curve.first_s for curve in curves]
    return sum(curve.m2 for curve in curves) <= hop.rate and all(
        sum(curve.bits(knee) for curve in curves) <= hop.rate * knee for knee in knees
    )


def delay_s(
    hop: Hop, flows: Sequence[Flow], arrivals: Callable[[float], float], knees: Sequence[float], slope: float
) -> float:
    """The longest wait at a port with arrivals, bits of wire by a time: concave, with these knees, and of this slope
    beyond the last.
    """
    curve = _own(hop, flows)
    if curve is None or slope > curve.m2:
        return math.inf
    times, target = sorted(knees), curve.bits(curve.first_s)
    met = []  # where the arrivals reach the curve's own knee, the distance has one, too
    for left, right in zip(times, [*times[1:], math.inf], strict=True):
        bits = arrivals(left)
        rises = slope if math.isinf(right) else (arrivals(right) - bits) / (right - left)
        if rises > 0 and bits < target and (math.isinf(right) or arrivals(right) >= target):
            met.append(left + (target - bits) / rises)
    longest = max(curve.time_s(arrivals(time)) - time for time in times + met)
    return longest + _frame_s(hop, flows) if is_finite(longest) else math.inf


def full_s(hop: Hop, flows: Sequence[Flow]) -> float:
    """How long the last frame of a full queue takes."""
    curve = _own(hop, flows)
    if curve is None or hop.limit_packets is None or curve.m2 <= 0:
        return math.inf
    mine = max(flow.largest for flow in flows if any(each.port == hop.port for each in flow.hops))
    ahead = max(curve.m2 - curve.m1, 0.0) * curve.first_s
    return ((hop.limit_packets + 3) * mine + ahead) / curve.m2 + _frame_s(hop, flows)


def _own(hop: Hop, flows: Sequence[Flow]) -> Curve | None:
    """The curve in bits of wire, of which a counted bit takes the least in the largest frames; None: nothing is
    promised.
    """
    if hop.curve is None or not keeps_promises(hop, flows):
        return None
    mine = max(flow.largest for flow in flows if any(each.port == hop.port for each in flow.hops))
    return hop.curve.scaled(per_counted_bit(mine))


def _frame_s(hop: Hop, flows: Sequence[Flow]) -> float:
    there = [flow.largest for flow in flows for each in flow.hops if each.line == hop.line]
    return max(there) / hop.rate + ROUNDED_S
