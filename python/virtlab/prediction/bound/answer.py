"""A worst case that no echo exceeds: deterministic network calculus of the ports on its way.

`sources` finds the flows, which ports they pass by `paths`, how long a port delays by `delays`,
what a platform adds by `costs`. An echo's bound is the sum over its ports, there and back. A reply begins where its
request ended. Roles that run one after another meet only while something of the first is still under way, see
`meeting`: whether that can be is found with the delays of all.

TCP is bounded by its windows as long as it never gives up a segment that still waits in a queue: where its bounded
round trip (an acknowledgement may be held back for 40 ms) comes to its least time-out, nothing is known of what it
sends, and only full queues bound what meets it.

On the ideal platform a bound holds for every echo. With a profile it holds while no wake-up and no lateness exceeds the
stated quantile, which is no worst case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtlab.catalogue import WORKLOADS
from virtlab.plan import Plan
from virtlab.planner.mobility.moves import moves
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.prediction.bound.costs import pay, servers_of
from virtlab.prediction.bound.curves import NS, Flow, NoBoundError, Port
from virtlab.prediction.bound.delays import delays, through_s
from virtlab.prediction.bound.meeting import meeting
from virtlab.prediction.bound.paths import Paths
from virtlab.prediction.bound.sources import TIMEOUT_LEAST_NS, flows_of
from virtlab.simulator.profile import IDEAL_PROFILE, Profile

HELD_BACK_NS = 40e6  # an acknowledgement, at the most
QUANTILE = 0.999


@dataclass(frozen=True, slots=True)
class Bound:
    """In ns. `quantile` of wake-ups and lateness up to which it holds; None: it holds for every echo."""

    ns: float
    quantile: float | None = None

    @property
    def words(self) -> str:
        """In words, under which condition the bound holds."""
        if self.quantile is None:
            return "bound"
        return f"while wake-ups and lateness keep to their {self.quantile * 100:g} % quantile: no worst case"


def echo_bound(plan: Plan, role: str, profile: Profile = IDEAL_PROFILE, quantile: float = QUANTILE) -> Bound:
    """No reply of an echo role takes longer. NoBoundError says why there is no bound."""
    if not WORKLOADS[plan.roles[role].workload].echoes:
        raise NoBoundError(f"{role} makes no echoes")
    if plan.world.arp == "live":
        raise NoBoundError("frames may wait until addresses are known")
    if plan.world.ipv6_noise:
        raise NoBoundError("what guests announce of IPv6 is sent beside the roles")
    paths, meets = Paths(plan, LayerTwo(plan)), meeting(plan, role)
    flows, found, wake_ns = _worked_out(plan, paths, [*meets.together, *meets.earlier], profile, quantile)
    left = [
        name for name, quiet_ns in meets.earlier.items() if _under_way_s(name, flows, found) * NS > quiet_ns
    ]
    if len(left) < len(meets.earlier):
        flows, found, wake_ns = _worked_out(plan, paths, [*meets.together, *left], profile, quantile)
    request, reply = (flow for flow in flows if flow.role == role)
    for flow in (request, reply):
        for hop in flow.hops:
            if math.isinf(found[hop.port]):
                raise NoBoundError(_why(role, hop.port, flows))
    whole = (through_s(request, found) + through_s(reply, found)) * NS + wake_ns
    return Bound(whole, None if profile.is_ideal else quantile)


def bounds_of(
    plan: Plan, profile: Profile = IDEAL_PROFILE, quantile: float = QUANTILE
) -> dict[str, Bound | str]:
    """Echo role -> its bound, or the reason why none exists."""
    found: dict[str, Bound | str] = {}
    moving = ", ".join(moves(plan))
    slowed = ", ".join(dict.fromkeys(action.link for action in plan.timeline if action.link is not None))
    for name, role in plan.roles.items():
        if WORKLOADS[role.workload].echoes and moving:
            found[name] = f"{moving} moves meanwhile, and how long it is paused has no bound"
        elif WORKLOADS[role.workload].echoes and slowed:
            found[name] = (
                f"{slowed} is slowed or cut meanwhile, and what waits before such a link has no bound"
            )
        elif WORKLOADS[role.workload].echoes:
            try:
                found[name] = echo_bound(plan, name, profile, quantile)
            except NoBoundError as error:
                found[name] = str(error)
    return found


def _worked_out(
    plan: Plan, paths: Paths, names: Sequence[str], profile: Profile, quantile: float
) -> tuple[list[Flow], dict[Port, float], float]:
    """Flows of roles that may all meet, the delay of every port, and the wake-up of an echo's own process, in ns."""
    flows = [flow for name in names for flow in flows_of(plan, paths, name, plan.roles[name])]
    servers = servers_of(plan, profile)
    wake_ns = 0.0 if profile.is_ideal else pay(plan, flows, profile, quantile)
    found = delays(flows, servers)
    if _gives_up(flows, found):
        for flow in flows:
            if flow.window is not None:
                flow.window, flow.sigma, flow.rho = None, math.inf, 0.0
                flow.calls, flow.calls_per_s = math.inf, 0.0
        wake_ns = 0.0 if profile.is_ideal else pay(plan, flows, profile, quantile)
        found = delays(flows, servers)
    return flows, found, wake_ns


def _under_way_s(role: str, flows: Sequence[Flow], delays: Mapping[Port, float]) -> float:
    """How long a role's last message can be, and the reply to it."""
    paths = [
        through_s(flow, delays) + (through_s(flow.request, delays) if flow.request is not None else 0.0)
        for flow in flows
        if flow.role == role
    ]
    return max(paths, default=0.0)


def _gives_up(flows: Sequence[Flow], delays: Mapping[Port, float]) -> bool:
    """Whether some TCP may send a segment again that still waits: a round trip is its longest way there and back."""
    paths: dict[str, float] = {}
    for flow in flows:
        if flow.window is not None:
            paths[flow.role] = max(paths.get(flow.role, 0.0), through_s(flow, delays))
    return any(2 * way * NS + HELD_BACK_NS >= TIMEOUT_LEAST_NS for way in paths.values())


def _why(role: str, port: Port, flows: Sequence[Flow]) -> str:
    here = [flow for flow in flows if any(hop.port == port for hop in flow.hops)]
    endless = sorted({flow.role for flow in here if math.isinf(flow.sigma)})
    if endless:
        return (
            f"what {', '.join(endless)} sends at once is not bounded, and neither is the queue of {port[1]}"
        )
    if port[0] == "guest":
        return f"{port[1]} may be given more than it forwards"
    if port[0] == "licence":
        return f"a router of {role} is given more than its licence lets go"
    if port[0] == "uplink":
        return f"the queue in front of {port[1]} may be given more than the wire takes"
    if port[0] == "vnic":
        return f"a guest of {role} is given more than its vNIC lets go"
    return f"the port {port[1]} may be given more than it has left for the class of {role}"
