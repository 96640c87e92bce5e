"""How much of the wire a role asks for: the fact without which its latency or jitter means little.

A stream at a rate is set against the slowest link on its way, in octets of the wire: a frame with preamble, checksum and
gap. Where a request waits for its answer before the next goes, the wire is idle, and no queue discipline has anything to
decide. Nothing is measured here: it follows from the Plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import isclose

from virtlab.plan import Plan, Role
from virtlab.planner.ends import role_ends
from virtlab.planner.licence import ETHERNET_OCTETS
from virtlab.planner.wiring import Wiring, guest_box

FRAME_OCTETS = 20  # preamble and gap, around header, payload and checksum
WIRE_MIN_OCTETS = 84
_IDLE = (
    "One request waits for its answer before the next goes, so the wire stands idle and no queue forms: "
    "queue disciplines differ here by what enqueuing costs."
)


def facts(plans: Iterable[Plan]) -> dict[str, str]:
    """Role -> what it asks of the wire, in one sentence; roles without a rate or a wire have none."""
    shares: dict[str, list[float]] = {}
    said: dict[str, str] = {}
    for plan in plans:
        for name, role in plan.roles.items():
            if (slowest := slowest_bit_per_s(plan, role)) is None:
                continue
            if _one_at_a_time(role):
                said[name] = _IDLE
            elif (asked := wire_bit_per_s(plan, role)) is not None:
                shares.setdefault(name, []).append(asked / slowest)
    return said | {name: _sentence(found) for name, found in shares.items()}


def wire_bit_per_s(plan: Plan, role: Role) -> float | None:
    """Bits of wire that a stream at a rate takes per second; None where it has no rate, or its packets are cut.

    Source: IEEE 802.3: 8 B preamble, 14 B header, 4 B checksum, 12 B gap, at least 84 B in all.
    """
    values, ends = role.parameters, role_ends(plan, role)
    if ends is None:
        return None
    if role.workload == "raw_stream" and values.get("rate_pps") is not None and "frame_bytes" in values:
        return 8.0 * int(values["rate_pps"]) * max(WIRE_MIN_OCTETS, int(values["frame_bytes"]) + FRAME_OCTETS)
    if role.workload != "udp_stream" or values.get("rate_bit_per_s") is None:
        return None
    header_bytes = 28 if ends[0].address is None or ends[0].address.version == 4 else 48
    if "payload_bytes" in values:
        packet_bytes = int(values["payload_bytes"]) + header_bytes
    elif "frame_bytes" in values:
        packet_bytes = int(values["frame_bytes"]) - (ETHERNET_OCTETS - FRAME_OCTETS)
    else:
        packet_bytes = int(values["ip_packet_bytes"])
    if packet_bytes > ends[0].mtu_bytes:
        return None
    octets = max(WIRE_MIN_OCTETS, packet_bytes + ETHERNET_OCTETS)
    return float(values["rate_bit_per_s"]) * octets / packet_bytes


def slowest_bit_per_s(plan: Plan, role: Role) -> int | None:
    """Rate of the slowest link between the ends of a role; None where no link lies between them."""
    ends = role_ends(plan, role)
    if ends is None:
        return None
    begin, end = (guest_box(each.guest, plan.world.guests[each.guest], each.vnic) for each in ends)
    edges = Wiring(plan).edges
    before: dict[str, tuple[str, str]] = {begin: ("", "")}
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
    values: Mapping[str, object] = role.parameters
    return role.workload == "tcp_rr" or (role.workload == "psping" and values.get("test") == "latency")


def _sentence(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    share = f"{low:.1%}" if isclose(low, high, rel_tol=1e-3) else f"{low:.1%} to {high:.1%}"
    return (
        f"It asks for {share.replace('%', ' %')} of the slowest wire on its way, counted in octets of the wire "
        "(preamble, checksum and gap included)."
    )
