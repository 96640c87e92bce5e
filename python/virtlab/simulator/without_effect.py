"""What a Plan says that changes nothing in a simulated world: said beside the results, never left unsaid.

An ideal platform costs nothing, so platforms, devices, virtual switches, processors and shares of one are all the same in
it: two levels of such a factor are one and the same world, and a claim that compares them is not judged. Memory, programs
and foreign meters are in no world of the simulator, whatever its profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.plan import Guest, Plan
from virtlab.simulator.profile import Profile
from virtlab.simulator.ways import by_tcp

IDEAL_ALIKE = "an ideal platform costs nothing, whatever it is"
IDEAL_PROCESSOR = "on an ideal platform nothing takes processor time"
NO_MEMORY = "a simulated guest never runs short of memory"
NO_PROGRAMS = "a simulated guest runs no programs"
COSTLESS_PARAMETERS = frozenset(
    {"flow_entries"}
)  # of virtual switches: they decide what a frame costs, not where it goes
CUT_TO_MTU = "segments of TCP are cut to the MTU at the sender, where a cable would have them cut"


@dataclass(frozen=True, slots=True)
class WithoutEffect:
    """Something that the Plan says of an object (`path`) and that changes nothing: `what` it is, and why."""

    path: str
    what: str
    why: str


def without_effect(plan: Plan, profile: Profile) -> list[WithoutEffect]:
    """All of it, in the Plan's order."""
    return [*_guests(plan, profile), *_vswitches(plan, profile), *_roles(plan), *_timeline(plan)]


def sentences(found: list[WithoutEffect]) -> list[str]:
    """One sentence for each thing, with the objects that say it.

    >>> sentences([WithoutEffect("guests.a", "memory 1 B", NO_MEMORY), WithoutEffect("guests.b", "memory 1 B", NO_MEMORY)])
    ['memory 1 B of guests.a, guests.b changes nothing: a simulated guest never runs short of memory']
    """
    said: dict[tuple[str, str], list[str]] = {}
    for one in found:
        said.setdefault((one.what, one.why), []).append(one.path)
    return [f"{what} of {', '.join(paths)} changes nothing: {why}" for (what, why), paths in said.items()]


def by_path(found: list[WithoutEffect]) -> Mapping[str, dict[str, str]]:
    """Object -> what of it changes nothing -> why."""
    each: dict[str, dict[str, str]] = {}
    for one in found:
        each.setdefault(one.path, {})[one.what] = one.why
    return each


def _guests(plan: Plan, profile: Profile) -> Iterator[WithoutEffect]:
    tcp = {guest for role in plan.roles.values() if by_tcp(role) for guest in (role.from_, role.to)}
    for name, guest in plan.world.guests.items():
        path = f"guests.{name}"
        if profile.is_ideal:
            yield from _alike(path, guest)
        if guest.memory_bytes is not None:
            yield WithoutEffect(path, f"memory {guest.memory_bytes} B", NO_MEMORY)
        if guest.vcpus is not None:
            yield WithoutEffect(path, f"vcpus {guest.vcpus}", "a simulated guest is one virtual processor")
        if guest.image is not None:
            yield WithoutEffect(path, f"image {guest.image}", NO_PROGRAMS)
        if name in tcp and any(vnic.offloads != "off" for vnic in guest.vnics.values()):
            yield WithoutEffect(path, "offloads default", CUT_TO_MTU)


def _alike(path: str, guest: Guest) -> Iterator[WithoutEffect]:
    """What is all the same where nothing costs anything."""
    if guest.platform not in {"namespace", "native"}:
        yield WithoutEffect(path, f"platform {guest.platform}", IDEAL_ALIKE)
    for model in dict.fromkeys(vnic.model for vnic in guest.vnics.values() if vnic.model is not None):
        yield WithoutEffect(path, f"vNIC model {model}", IDEAL_ALIKE)
    if guest.cpu_quota_ratio is not None:
        yield WithoutEffect(path, f"CPU quota {guest.cpu_quota_ratio:g}", IDEAL_PROCESSOR)
    if guest.pin != "none":
        yield WithoutEffect(path, f"pin {guest.pin}", IDEAL_PROCESSOR)
    if guest.idle != "sleep":
        yield WithoutEffect(path, f"idle {guest.idle}", IDEAL_PROCESSOR)


def _vswitches(plan: Plan, profile: Profile) -> Iterator[WithoutEffect]:
    for name, vswitch in plan.world.vswitches.items() if profile.is_ideal else ():
        if vswitch.kind != "linux_bridge":
            yield WithoutEffect(f"vswitches.{name}", f"kind {vswitch.kind}", IDEAL_ALIKE)
        for key, value in vswitch.parameters.items():
            yield WithoutEffect(f"vswitches.{name}", f"{key} {value}", IDEAL_ALIKE)


def _roles(plan: Plan) -> Iterator[WithoutEffect]:
    for name, role in plan.roles.items():
        meter = role.parameters.get("meter", "virtlab")
        if meter not in {None, "virtlab"}:
            why = f"{NO_PROGRAMS}; virtlab's own meter sends the same packets and computes the same figures"
            yield WithoutEffect(f"roles.{name}", f"meter {meter}", why)


def _timeline(plan: Plan) -> Iterator[WithoutEffect]:
    for action in plan.timeline:
        if action.do == "exec":
            yield WithoutEffect(f"timeline.{action.id}", " ".join(action.argv), f"{NO_PROGRAMS}; it fails")


def without_passages(lowered: Mapping[str, Any]) -> dict[str, Any]:
    """The core's input with every vNIC that has a virtual switch of two ports to itself at that switch's other port.

    Where crossing a switch costs nothing, both are one and the same world.
    """
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
