"""How much of the wire a role asks for: the fact without which its latency or jitter means little.

A stream at a rate is set against the slowest link on its way, in octets of the wire: a frame with preamble, checksum
and gap. Where a request waits for its answer before the next goes, each is one packet, and no other role can be active
meanwhile, the wire is idle, and no queue discipline has anything to decide; where the Plan does not say that much,
neither does the report. Nothing is measured here: it follows from the Plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import isclose

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.actions import begins, ends_role
from virtlab.plan import Action, Plan, Role
from virtlab.planner.topology.ends import role_ends
from virtlab.planner.topology.layer_two import Box, LayerTwo, guest_box
from virtlab.units.ethernet import AROUND_PACKET_BYTES, BETWEEN_BYTES, HEADER_AND_FCS_BYTES, WIRE_LEAST_BYTES

TCP_HEADER_BYTES = 32  # with time stamps
_IDLE = (
    "One request waits for its answer before the next goes, so the wire stands idle and no queue forms: "
    "queue disciplines differ here by what enqueuing costs."
)


def facts(plans: Iterable[Plan]) -> dict[str, str]:
    """Role -> what it asks of the wire, in one sentence; roles without a rate or a wire have none."""
    shares: dict[str, list[float]] = {}
    idle: dict[str, list[bool]] = {}
    for plan in plans:
        for name, role in plan.roles.items():
            if (slowest := slowest_bit_per_s(plan, role)) is None:
                continue
            if _one_at_a_time(role):
                idle.setdefault(name, []).append(_in_one_packet(plan, role) and alone(plan, name))
            elif (asked := wire_bit_per_s(plan, role)) is not None:
                shares.setdefault(name, []).append(asked / slowest)
    said = {name: _IDLE for name, everywhere in idle.items() if all(everywhere)}
    return said | {name: _sentence(found) for name, found in shares.items()}


def wire_bit_per_s(plan: Plan, role: Role) -> float | None:
    """Bits of wire that a stream at a rate takes per second; None where it has no rate, or its packets are cut.

    Source: IEEE 802.3: 8 B preamble, 14 B header, 4 B checksum, 12 B gap, at least 84 B in all.
    """
    values, ends = role.parameters, role_ends(plan, role)
    if ends is None:
        return None
    if values.get("rate_pps") is not None and "frame_bytes" in values:
        return (
            8.0 * int(values["rate_pps"]) * max(WIRE_LEAST_BYTES, int(values["frame_bytes"]) + BETWEEN_BYTES)
        )
    if values.get("rate_bit_per_s") is None:
        return None
    header_bytes = 28 if ends[0].address is None or ends[0].address.version == 4 else 48
    if "payload_bytes" in values:
        packet_bytes = int(values["payload_bytes"]) + header_bytes
    elif "frame_bytes" in values:
        packet_bytes = int(values["frame_bytes"]) - HEADER_AND_FCS_BYTES
    else:
        packet_bytes = int(values["ip_packet_bytes"])
    if packet_bytes > ends[0].mtu_bytes:
        return None
    octets = max(WIRE_LEAST_BYTES, packet_bytes + AROUND_PACKET_BYTES)
    return float(values["rate_bit_per_s"]) * octets / packet_bytes


def slowest_bit_per_s(plan: Plan, role: Role) -> int | None:
    """Rate of the slowest link between the ends of a role; None where no link lies between them."""
    ends = role_ends(plan, role)
    if ends is None:
        return None
    begin, end = (guest_box(each.guest, plan.world.guests[each.guest], each.vnic) for each in ends)
    edges = LayerTwo(plan).edges
    before: dict[Box, tuple[Box, str]] = {begin: (begin, "")}
    waiting = deque([begin])
    while waiting and end not in before:
        here = waiting.popleft()
        for edge in edges.get(here, ()):
            if edge.box not in before:
                before[edge.box] = here, edge.because
                waiting.append(edge.box)
    rates, box = [], end
    while box in before and box != begin:
        box, because = before[box]
        name = because.removeprefix("links.")
        if because.startswith("links.") and name in plan.world.links:
            rates.append(plan.world.links[name].rate_bit_per_s)
    return min(rates, default=None)


def _one_at_a_time(role: Role) -> bool:
    """Whether at most one request of it is under way: a store is several servers, which are asked together."""
    declared = WORKLOADS[role.workload]
    values = declared.complete(role.parameters)
    whole = declared.at_service is not None and declared.at_service.whole
    return declared.turns(values) and int(values.get("connections") or 1) == 1 and not whole


def _in_one_packet(plan: Plan, role: Role) -> bool:
    """Whether request and response are a packet each: of TCP with the time stamps that Linux puts into every
    segment.
    """
    ends = role_ends(plan, role)
    if ends is None:
        return False
    ip_bytes = 20 if ends[0].address is None or ends[0].address.version == 4 else 40
    most = min(end.mtu_bytes for end in ends) - ip_bytes - TCP_HEADER_BYTES
    return all(int(role.parameters.get(key, 1)) <= most for key in ("request_bytes", "response_bytes"))


def alone(plan: Plan, name: str) -> bool:
    """Whether the timeline keeps every other role from being active while this one is.

    An event is certain if the action waits for it by `event` or `all`, and so are the events that its own action
    waited for. With `any` of several, none is certain.
    """
    actions = {action.id: action for action in plan.timeline}
    known: dict[str, frozenset[str]] = {}

    def before(action: Action) -> frozenset[str]:
        """Events that have certainly been when the action begins."""
        if action.id not in known:
            trigger = action.after
            events = () if trigger is None else trigger.all or tuple(filter(None, [trigger.event]))
            causes = (actions.get(event.rpartition(".")[0]) for event in events)
            known[action.id] = frozenset(events).union(
                *(before(cause) for cause in causes if cause is not None)
            )
        return known[action.id]

    def begun(role: str) -> list[Action]:
        return [action for action in plan.timeline if begins(action.do) and action.role == role]

    def over(role: str, events: frozenset[str]) -> bool:
        """Whether all that the role ever does is over after these events."""
        stops = [each for each in plan.timeline if ends_role(each.do) and each.role == role]
        stopped = [before(stop) for stop in stops if f"{stop.id}.done" in events]
        return all(
            f"{each.id}.finished" in events or any(f"{each.id}.started" in earlier for earlier in stopped)
            for each in begun(role)
        )

    def after(later: str, earlier: str) -> bool:
        return all(over(earlier, before(action)) for action in begun(later))

    others = [other for other in plan.roles if other != name]
    return all(after(name, other) or after(other, name) for other in others)


def _sentence(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    share = f"{low:.1%}" if isclose(low, high, rel_tol=1e-3) else f"{low:.1%} to {high:.1%}"
    return (
        f"It asks for {share.replace('%', ' %')} of the slowest wire on its way, counted in octets of the wire "
        "(preamble, checksum and gap included)."
    )
