"""What a Plan says that changes nothing in a simulated world: said beside the results, never left unsaid.

An ideal platform costs nothing, so platforms, devices, virtual switches, processors and shares of one are all the
same in it: two levels of such a factor are one and the same world, and a claim that compares them is not judged.
Where kernels speak of themselves (`ipv6_noise`) a Linux bridge does, too, so that kinds of virtual switches and
those of two ports differ. Memory, programs and foreign meters are in no world of the simulator, whatever its
profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.catalogue import PLATFORMS, VSWITCHES
from virtlab.catalogue.actions import commands_guest
from virtlab.catalogue.workloads.dirty import DIRTY
from virtlab.plan import Guest, Plan
from virtlab.planner.guests.clusters import entered, ways_of_requests
from virtlab.planner.guests.weights import weights
from virtlab.planner.mobility.moves import moves
from virtlab.planner.topology.port_names import passage, port_of
from virtlab.simulator.paths import by_tcp
from virtlab.simulator.pools import in_pool, sharing_processors
from virtlab.simulator.profile import Profile
from virtlab.simulator.programs import NO_PROGRAMS, why_without_effect
from virtlab.simulator.services import server_of
from virtlab.simulator.shares import working

IDEAL_ALIKE = "an ideal platform costs nothing, whatever it is"
IDEAL_PROCESSOR = "on an ideal platform nothing takes processor time"
NO_WORK = "no server in it works for requests"
ANY_MEANS = "a simulated pool has so many processors at all times, whatever holds its guests to them"
NO_MEMORY = "a simulated guest never runs short of memory"
NOTHING_KEPT = "a simulated disk takes the time of its model, and keeps nothing"
ONE_CONTAINER = "profiles tell platforms apart, and not what runs them"
NEVER_ASKED = "no role asks this service, so no server of it is simulated"
CUT_TO_MTU = "segments of TCP are cut to the MTU at the sender, where a cable would have them cut"


@dataclass(frozen=True, slots=True)
class WithoutEffect:
    """Something that the Plan says of an object (`path`) and that changes nothing: the setting, and why."""

    path: str
    setting: str
    why: str


def without_effect(plan: Plan, profile: Profile) -> list[WithoutEffect]:
    """Whatever has no effect, in the Plan's order."""
    return [
        *_network(plan),
        *_guests(plan, profile),
        *_processors(plan),
        *_vswitches(plan, profile),
        *_roles(plan),
        *_services(plan),
        *_timeline(plan),
    ]


def sentences(objects: list[WithoutEffect]) -> list[str]:
    """One sentence for each thing, with the objects that say it.

    >>> sentences([WithoutEffect("guests.a", "memory 1 B", NO_MEMORY), WithoutEffect("guests.b", "memory 1 B", NO_MEMORY)])
    ['memory 1 B of guests.a, guests.b changes nothing: a simulated guest never runs short of memory']
    """
    said: dict[tuple[str, str], list[str]] = {}
    for one in objects:
        said.setdefault((one.setting, one.why), []).append(one.path)
    return [f"{what} of {', '.join(paths)} changes nothing: {why}" for (what, why), paths in said.items()]


def by_path(objects: list[WithoutEffect]) -> Mapping[str, dict[str, str]]:
    """Object -> what of it changes nothing -> why."""
    each: dict[str, dict[str, str]] = {}
    for one in objects:
        each.setdefault(one.path, {})[one.setting] = one.why
    return each


def _network(plan: Plan) -> Iterator[WithoutEffect]:
    if plan.world.spin != "auto":
        why = "a simulated link lets frames go at their very instant, with or without spinning"
        yield WithoutEffect("network", f"spin {plan.world.spin}", why)


def _guests(plan: Plan, profile: Profile) -> Iterator[WithoutEffect]:
    tcp = {
        guest for role in plan.roles.values() if by_tcp(role) for guest in (role.from_, *entered(plan, role))
    }
    tcp |= {guest for way in ways_of_requests(plan) for guest in (way.passive, way.active)}
    worked = working(plan)
    for name, guest in plan.world.guests.items():
        path = f"guests.{name}"
        if profile.is_ideal:
            yield from _alike(
                path,
                guest,
                heard=plan.world.ipv6_noise and _behind_a_passage(name, guest),
                works=name in worked,
            )
        else:
            yield from _unpaid(path, guest, profile, works=name in worked)
        if guest.memory_bytes is not None and name not in moves(plan):
            yield WithoutEffect(path, f"memory {guest.memory_bytes} B", NO_MEMORY)
        if guest.swap_bytes is not None:
            yield WithoutEffect(path, f"swap {guest.swap_bytes} B", NO_MEMORY)
        if guest.balloon_bytes is not None:
            yield WithoutEffect(path, f"balloon {guest.balloon_bytes} B", NO_MEMORY)
        if guest.disk is not None and guest.disk.medium == "file":
            yield WithoutEffect(path, f"disk on a {guest.disk.medium}", NOTHING_KEPT)
        if guest.runtime is not None:
            yield WithoutEffect(path, f"runtime {guest.runtime}", ONE_CONTAINER)
        if guest.seccomp is not None:
            yield WithoutEffect(path, f"seccomp {guest.seccomp}", ONE_CONTAINER)
        if guest.user_namespace is not None:
            yield WithoutEffect(path, f"user_namespace {guest.user_namespace}", ONE_CONTAINER)
        if guest.firmware is not None:
            yield WithoutEffect(path, f"firmware {guest.firmware}", "a simulated guest boots nothing")
        idle = guest.pool is not None and profile.value(f"platform.{guest.platform}.idle_vcpu_ratio") > 0
        if guest.vcpus is not None and name not in worked and not idle:
            yield WithoutEffect(path, f"vcpus {guest.vcpus}", "a simulated guest is one virtual processor")
        if guest.image is not None:
            yield WithoutEffect(path, f"image {guest.image}", NO_PROGRAMS)
        if name in tcp and profile.is_ideal and any(vnic.offloads != "off" for vnic in guest.vnics.values()):
            yield WithoutEffect(path, "offloads default", CUT_TO_MTU)


def _processors(plan: Plan) -> Iterator[WithoutEffect]:
    worked = in_pool(plan)
    for each in sharing_processors(plan):
        if not any(name in worked for name in each.guests):
            yield WithoutEffect(each.path, f"cpus {each.cpus}", NO_WORK)
    for name in weights(plan):
        if name not in worked and (weight := plan.world.guests[name].weight) is not None:
            yield WithoutEffect(f"guests.{name}", f"weight {weight}", NO_WORK)
    for name, pool in plan.world.pools.items():
        if pool.by != "affinity":
            yield WithoutEffect(f"pools.{name}", f"by {pool.by}", ANY_MEANS)


def _behind_a_passage(name: str, guest: Guest) -> bool:
    """Whether its platform gives it a virtual switch of its own between its vNIC and a port that queues."""
    return any(vnic.vswitch == passage(port_of(name, own)) for own, vnic in guest.vnics.items())


def _alike(path: str, guest: Guest, *, heard: bool, works: bool) -> Iterator[WithoutEffect]:
    """What is all the same where nothing costs anything; not a platform that is `heard` in what kernels say, nor a
    share of a processor where a server `works`.
    """
    if not PLATFORMS[guest.platform].is_stack and not heard:
        yield WithoutEffect(path, f"platform {guest.platform}", IDEAL_ALIKE)
    for model in dict.fromkeys(vnic.model for vnic in guest.vnics.values() if vnic.model is not None):
        yield WithoutEffect(path, f"vNIC model {model}", IDEAL_ALIKE)
    if guest.cpu_quota_ratio is not None and not works:
        yield WithoutEffect(path, f"CPU quota {guest.cpu_quota_ratio:g}", IDEAL_PROCESSOR)
    if guest.pin != "none":
        yield WithoutEffect(path, f"pin {guest.pin}", IDEAL_PROCESSOR)
    if guest.idle != "sleep":
        yield WithoutEffect(path, f"idle {guest.idle}", IDEAL_PROCESSOR)


def _unpaid(path: str, guest: Guest, profile: Profile, *, works: bool) -> Iterator[WithoutEffect]:
    """What decides where and when costs are paid that this profile does not hold."""
    own = f"platform.{guest.platform}."
    what = "bridge" if guest.bridges else "forward"
    held = {name for name, each in profile.parameters.items() if name.startswith(own) and each.value > 0}
    if guest.pin != "none":
        if not (guest.forwards or guest.bridges):
            yield WithoutEffect(path, f"pin {guest.pin}", "it forwards nothing")
        elif not held.intersection(f"{own}{cost}_ns" for cost in (what, f"{what}_byte", "rouse", "steer")):
            why = f"profile '{profile.name}' holds no cost of forwarding ({own}{what}_ns, {own}steer_ns)"
            yield WithoutEffect(path, f"pin {guest.pin}", why)
    if (
        guest.cpu_quota_ratio is not None
        and not works
        and not any(name.endswith((".send_ns", ".message_ns")) or f".{what}_" in name for name in held)
    ):
        why = f"profile '{profile.name}' holds no work of its processes ({own}send_ns, {own}message_ns)"
        yield WithoutEffect(path, f"CPU quota {guest.cpu_quota_ratio:g}", why)


def _vswitches(plan: Plan, profile: Profile) -> Iterator[WithoutEffect]:
    for name, vswitch in plan.world.vswitches.items():
        upcall = f"vswitch.{vswitch.kind}.upcall_ns"
        if not profile.is_ideal:
            for key, value in vswitch.parameters.items() if not profile.value(upcall) else ():
                why = f"profile '{profile.name}' holds no {upcall}"
                yield WithoutEffect(f"vswitches.{name}", f"{key} {value}", why)
            continue
        if not VSWITCHES[vswitch.kind].interface and not plan.world.ipv6_noise:
            yield WithoutEffect(f"vswitches.{name}", f"kind {vswitch.kind}", IDEAL_ALIKE)
        for key, value in vswitch.parameters.items():
            yield WithoutEffect(f"vswitches.{name}", f"{key} {value}", IDEAL_ALIKE)


def _roles(plan: Plan) -> Iterator[WithoutEffect]:
    for name, role in plan.roles.items():
        if role.workload == DIRTY.name and role.from_ not in moves(plan):
            what = f"writing to the memory of {role.from_}"
            yield WithoutEffect(f"roles.{name}", what, "it does not move, and writing takes no processor")
        meter = role.parameters.get("meter", "virtlab")
        if meter not in {None, "virtlab"}:
            why = f"{NO_PROGRAMS}; virtlab's own meter sends the same packets and computes the same figures"
            yield WithoutEffect(f"roles.{name}", f"meter {meter}", why)


def _services(plan: Plan) -> Iterator[WithoutEffect]:
    asked = {role.parameters.get("service") for role in plan.roles.values()}
    for name, service in plan.world.services.items():
        if name not in asked and (server_of(service) or {}).get("idle_write_ns"):
            yield WithoutEffect(f"services.{name}", "idle_write", NEVER_ASKED)


def _timeline(plan: Plan) -> Iterator[WithoutEffect]:
    for action in plan.timeline:
        why = why_without_effect(plan, action) if commands_guest(action.do) else None
        if why is not None:
            yield WithoutEffect(f"timeline.{action.id}", " ".join(action.argv), why)


def without_passages(lowered: Mapping[str, Any]) -> dict[str, Any]:
    """The core's input with every vNIC that has a virtual switch of two ports to itself at that switch's other port.

    Where crossing a switch costs nothing, both are one and the same world, unless the switch itself speaks.
    """
    if "noise" in lowered:
        return dict(lowered)
    found: dict[int, tuple[int, str]] = {}
    for place, vswitch in enumerate(lowered["vswitches"]):
        ways = {kind: to for port in vswitch["ports"] for kind, to in port["way"].items()}
        if len(vswitch["ports"]) == 2 and ways.keys() == {"vnic", "port"}:
            found[place] = ways["vnic"], ways["port"]
    kept = [place for place in range(len(lowered["vswitches"])) if place not in found]
    vnics = [
        {**vnic, "on": {"vswitch": kept.index(vnic["on"]["vswitch"])}}
        if vnic["on"].get("vswitch") in kept
        else vnic
        for vnic in lowered["vnics"]
    ]
    for vnic, port in found.values():
        vnics[vnic] = {**vnics[vnic], "on": {"port": port}}
    fabric = {**lowered["fabric"], "ports": sorted(lowered["fabric"]["ports"])}
    vswitches = [lowered["vswitches"][place] for place in kept]
    return {**lowered, "fabric": fabric, "vnics": vnics, "vswitches": vswitches}
