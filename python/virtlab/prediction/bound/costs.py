"""What a platform's profile adds to a bound.

| of the profile | in the bound |
|---|---|
| a frame's way through vNIC, virtual switch, pushback, and out of the links | a latency, of a full frame |
| calls of processes and their messages | a wait for one processor behind the work of all, and the work |
| wake-ups, lateness, the notice of frames | their quantile, as a latency |
| what forwarding costs a guest | a wait for its turn, see `forwarding` |

Frames follow each other and none overtakes, so a latency of a full frame holds for all. What a vNIC's bucket or a
link has spaced comes closer together behind a frame that needed more than others (a longer one, one that a virtual
switch had no entry for, one that left late): what the rate lets go in the difference comes at once.

Work of processes is served first come, first served; one processor keeps it waiting at least as long as several do.
It comes no faster than its sources and the links in front of its guests let it: B of it at once and u per second
wait B / (1 - u) at the most.

A quantile is exceeded: a bound with a profile holds while no wake-up and no lateness exceeds the stated quantile of its
table. That is not a worst case. At quantile 1 it is the longest that calibration saw, which is not a worst case either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from virtlab.lazy import np
from virtlab.plan import Plan
from virtlab.prediction.bound.curves import NS, Flow, NoBoundError
from virtlab.prediction.bound.forwarding import Server
from virtlab.simulator.paths import by_tcp
from virtlab.simulator.profile import BUSY_CROSSING, BUSY_WAKEUP, Profile, Quantiles, missing, wakeups
from virtlab.simulator.profile import costs as paid
from virtlab.simulator.shares import together


def pay(plan: Plan, flows: Sequence[Flow], profile: Profile, quantile: float) -> float:
    """Puts the latencies of the profile into the flows, and returns the wake-up of an echo's own process, in ns.

    NoBoundError where the profile does not know the world, or work has no bound.
    """
    for where, what in missing(profile, plan):
        raise NoBoundError(f"{where}: the profile does not know {what}")
    if any(by_tcp(plan.roles[flow.role]) for flow in flows):
        for name, guest in plan.world.guests.items():
            if any(together(vnic) for vnic in guest.vnics.values()):
                raise NoBoundError(f"segments of TCP cross the vNIC of {name} together")
    whole = max(flow.largest for flow in flows) / 8 - 24
    kinds = {f"platform.{guest.platform}" for guest in plan.world.guests.values()}
    switches = {f"vswitch.{one.kind}" for one in plan.world.vswitches.values()}

    def most(names: set[str], packet: str, byte: str = "") -> float:
        return max(
            (profile.value(f"{n}.{packet}") + whole * (profile.value(f"{n}.{byte}") if byte else 0.0) for n in names),
            default=0.0,
        )  # fmt: skip

    crossing = most(kinds, "crossing_ns", "crossing_byte_ns")
    bridge = most(switches, "packet_ns", "byte_ns") + most(switches, "upcall_ns")
    held = profile.value("qdisc.htb.packet_ns")
    out = 0.0
    if plan.world.links:
        late = max(at(profile.tables.get(name), quantile) for name in ("links.lateness", "links.notice"))
        out = profile.value("links.departure_ns") + late + bridge
        _player_keeps_up(flows, profile)
    crossing += profile.value(BUSY_CROSSING)
    names = {name for guest in plan.world.guests.values() for name in wakeups(plan, guest.idle)[:1]}
    names.add(BUSY_WAKEUP)
    wake = max((at(_table(profile, name), quantile) for name in names), default=0.0)
    floods = [value.value for name, value in profile.parameters.items() if name.startswith("flood.")]
    call = max(most(kinds, "send_ns") + held + profile.value("flow.first_packet_ns"), *floods, 0.0)
    message = most(kinds, "message_ns")
    wait = _work_s(flows, call, message, out + crossing) * NS
    # Of what lies between a vNIC's bucket and its link, all that not every frame needs.
    uneven = most(kinds, "crossing_byte_ns") * whole + most(switches, "byte_ns") * whole
    uneven += most(switches, "upcall_ns") + profile.value(BUSY_CROSSING)
    for flow in flows:
        flow.uneven_ns, flow.late_ns = uneven, out
        flow.lead_ns = wait + call + held + crossing + bridge
        flow.tail_ns = out + crossing
        # Out of the links, into a guest that forwards and out again: in front, where it spreads what comes behind
        # the most.
        between = sum(hop.serves == "guest" for hop in flow.hops)
        flow.lead_ns += between * (out + 2 * crossing + held + 2 * bridge)
        # So is a way over a virtual switch from link to link.
        flow.lead_ns += out * sum(
            hop.leaves and after.serves != "guest" for hop, after in pairwise(flow.hops)
        )
        if flow.request is not None:  # the far process wakes and takes the message before it answers
            flow.lead_ns += wake + wait + message
    return wake + wait + message


def servers_of(plan: Plan, profile: Profile) -> dict[str, Server]:
    """What forwarding costs guests; those for which it costs nothing are not there.

    NoBoundError where a guest's processor is not its own to take turns on.
    """
    costs = paid(profile, plan, 0)
    if costs is None:
        return {}
    found = {}
    for (name, guest), own in zip(plan.world.guests.items(), costs["guests"], strict=True):
        if guest.cpu_quota_ratio is not None:
            raise NoBoundError(f"{name} has a share of a processor, and may have used it up")
        cost = own["forwarding"]
        if cost is None:
            continue
        if guest.pin != "none":
            raise NoBoundError(f"{name} forwards on a processor that others are pinned to")
        found[name] = Server(
            cost["cost"]["packet_ns"],
            cost["cost"]["byte_ps"] / 1000,
            cost["rouse_ns"],
            cost["backlog_packets"],
        )
    return found


def at(table: Quantiles | None, quantile: float) -> float:
    """A table's quantile in ns; 0 where there is no table."""
    return 0.0 if table is None else float(np.interp(quantile, table.probability, table.ns))


def _table(profile: Profile, name: str) -> Quantiles | None:
    """As the simulator takes it: of worlds with links, else the common one."""
    return profile.tables.get(name) or profile.tables.get(name.removesuffix(".links"))


def _work_s(flows: Sequence[Flow], call: float, message: float, late_ns: float) -> float:
    """How long work of a process can wait for a processor, its own included, in seconds."""
    burst, share = 0.0, 0.0
    inputs: dict[
        str, tuple[float, float]
    ] = {}  # last link in front of a guest: its rate, and the shortest frame
    for flow in flows:
        sent = call * flow.calls
        if message == call == 0:
            continue
        if math.isinf(sent):
            raise NoBoundError(f"what {flow.role} has processes do at once is not bounded")
        burst += sent
        share += call * flow.calls_per_s / NS
        last = next((hop for hop in reversed(flow.hops) if hop.port[0] == "link"), None)
        if last is None:
            burst += message * flow.calls
            share += message * flow.calls_per_s / NS
        else:
            rate, shortest = inputs.get(last.line, (last.rate, flow.smallest))
            inputs[last.line] = (rate, min(shortest, flow.smallest))
    for rate, shortest in inputs.values():
        per_s = rate / shortest
        burst += message * (1 + per_s * late_ns / NS)
        share += message * per_s / NS
    if share >= 1:
        raise NoBoundError("processes may have more to do than one processor does")
    return burst / NS / (1 - share)


def _player_keeps_up(flows: Sequence[Flow], profile: Profile) -> None:
    """The links' player needs less for a frame than the wire: frames do not wait for it."""
    extra = max(
        (
            value.value
            for name, value in profile.parameters.items()
            if name.startswith("qdisc.") and name.endswith(".frame_ns")
        ),
        default=0.0,
    )
    for flow in flows:
        for bits in {flow.smallest, flow.largest}:
            own = (
                profile.value("links.frame_ns")
                + extra
                + profile.value("links.frame_byte_ns") * (bits / 8 - 24)
            )
            for hop in flow.hops:
                if hop.port[0] == "link" and own > bits / hop.rate * NS:
                    raise NoBoundError(
                        f"{flow.role} has frames that are shorter than what plays the links needs for one"
                    )
