"""How long a frame stays in links and switches: on the links of its way, one after the other.

Whatever plays them for real notices a frame only after a while. A frame that would be out before that leaves late by
the rest; one that stays longer does not: the notice hides inside its serialisation.
"""

from __future__ import annotations

from collections import deque

from virtlab.plan import Plan
from virtlab.planner.topology.ends import RoleEnd, role_ends
from virtlab.planner.topology.layer_two import Box, LayerTwo, guest_box
from virtlab.units.factors import BITS_PER_BYTE, NS_PER_S


def stay_byte_ns(plan: Plan) -> float:
    """Nanoseconds per byte on the wire, of that role whose way is the shortest; 0 where no role's way has links."""
    if not plan.world.links:
        return 0.0
    layer_two, found = LayerTwo(plan), []
    for role in plan.roles.values():
        ends = role_ends(plan, role)
        links = () if ends is None else _links(layer_two, plan, *ends)
        if links:
            found.append(
                sum(BITS_PER_BYTE * NS_PER_S / plan.world.links[name].rate_bit_per_s for name in links)
            )
    return min(found, default=0.0)


def _links(layer_two: LayerTwo, plan: Plan, here: RoleEnd, there: RoleEnd) -> tuple[str, ...]:
    """Names of the links between two ends on one wired network; none where there is no such way."""
    start, end = (guest_box(one.guest, plan.world.guests[one.guest], one.vnic) for one in (here, there))
    ways: dict[Box, tuple[str, ...]] = {start: ()}
    waiting = deque([start])
    while waiting:
        box = waiting.popleft()
        if box == end:
            return ways[box]
        for edge in layer_two.edges[box]:
            if edge.box not in ways:
                kind, _, name = edge.because.partition(".")
                ways[edge.box] = (*ways[box], name) if kind == "links" else ways[box]
                waiting.append(edge.box)
    return ()
