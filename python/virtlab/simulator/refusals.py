"""Every reason not to simulate a Plan, each with its path and its cure: what is not modelled is refused, never left out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from virtlab.catalogue import PLATFORMS, QDISCS, VSWITCHES, WORKLOADS, played
from virtlab.catalogue.declaration import NOT_PLAYED
from virtlab.catalogue.workloads import settable
from virtlab.plan import Capabilities, Plan, Refusal, Role
from virtlab.plan.blocks import BLOCKS
from virtlab.planner.ends import bridging_mistakes, refused_workload, role_ends, via_mistakes
from virtlab.planner.wiring import Wiring
from virtlab.simulator.lower import addresses, lower, vnic_path
from virtlab.simulator.nominal import held_by_nominal_rate, with_nominal_rates
from virtlab.simulator.profile import IDEAL_PROFILE, Profile, costs
from virtlab.simulator.programs import slept_ns
from virtlab.simulator.shares import QUOTA_MIN_NS, QUOTA_PERIOD_NS
from virtlab.simulator.ways import wayless

ARM = "simulator"
ACTIONS = ("start", "stop", "run", "set", "wait", "reset", "exec")
LATER_ACTIONS = {
    "migrate": "a simulated guest has no memory to move",
    "call": "services are not modelled",
}
WORDS: Mapping[str, frozenset[str]] = {
    "start": frozenset({"started", "finished", "done", "failed"}),
    "run": frozenset({"started", "finished", "done", "failed", "timeout", "cancelled"}),
    "stop": frozenset({"started", "done"}),
    "set": frozenset({"started", "done"}),
    "wait": frozenset({"started", "done", "timeout", "cancelled"}),
    "reset": frozenset({"started", "done"}),
    "exec": frozenset({"started", "done", "finished", "failed", "timeout", "cancelled"}),
}
MTU_MIN_BYTES = 68
IPV6_MTU_MIN_BYTES = 1280
MTU_MAX_BYTES = 65_535


def refusals(plan: Plan, profile: Profile = IDEAL_PROFILE) -> list[Refusal]:
    """All of them; empty when the Plan can be played on a platform of that profile."""
    found: list[Refusal] = []
    for check in (_roles, _timeline, _collect, _networks, _world, _guests):
        found += check(plan)
    if not found:
        found += _samples(plan)
    found += Wiring(plan).mistakes(plan)
    if found:
        return found
    lowered = lower(plan, plan.seed)
    return list(_core(plan, profile, lowered)) or list(wayless(plan, lowered))


def memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _samples(plan: Plan) -> Iterator[Refusal]:
    """A simulated run holds its samples in memory until it ends, once as they come and once as columns."""
    for name, role in plan.roles.items():
        declaration = WORKLOADS[role.workload]
        usual = [one.plan_values(one.default) for one in declaration.parameters if one.default is not None]
        values = {key: value for one in usual for key, value in one.items()} | role.parameters
        length_ns = min(declaration.duration_ns(values) or plan.limits.run_ns, plan.limits.run_ns)
        rows = declaration.rows(values, length_ns)
        held = sum(2 * 8 * len(BLOCKS[schema].columns) * count for schema, count in rows.items())
        if held > memory_bytes():
            reason = (
                f"{max(rows.values()):,} samples take about {held >> 30} GiB of memory in a simulated run"
            )
            cure = "take fewer or shorter, and more runs of them (repeat)"
            yield Refusal(f"roles.{name}", f"{reason}, more than this machine has", cure)


def _core(plan: Plan, profile: Profile, lowered: Mapping[str, Any]) -> Iterator[Refusal]:
    """What the core itself finds: sizes, parameters, disciplines."""
    from virtlab._native import Simulation

    try:
        held = with_nominal_rates(lowered, held_by_nominal_rate(plan, profile))
        Simulation(json.dumps({**held, "costs": costs(profile, plan, plan.seed)}))
    except ValueError as error:
        for path, reason, cure in error.args[0]:
            yield Refusal(path, reason, cure)


def _world(plan: Plan) -> Iterator[Refusal]:
    world = plan.world
    for kind, named in (("services", world.services), ("pools", world.pools)):
        for name in named:
            yield Refusal(f"{kind}.{name}", f"{kind} are not modelled", f"remove the {kind} from the file")
    kinds = played(VSWITCHES, ARM)
    for name, vswitch in world.vswitches.items():
        if vswitch.kind not in kinds:
            reason = f"'{vswitch.kind}' is not modelled"
            yield Refusal(f"vswitches.{name}.kind", reason, f"write {' or '.join(kinds)}")
        elif unknown := VSWITCHES[vswitch.kind].unknown(vswitch.parameters):
            reason = f"{vswitch.kind} has no {', '.join(unknown)}"
            yield Refusal(f"vswitches.{name}.parameters", reason, "remove them, or take an Open vSwitch")


def _guests(plan: Plan) -> Iterator[Refusal]:
    macs: dict[str, str] = {}
    platforms = played(PLATFORMS, ARM)  # what each costs, a profile says
    for name, guest in plan.world.guests.items():
        path = f"guests.{name}"
        platform = PLATFORMS.get(guest.platform)
        if platform is None or guest.platform not in platforms:
            why = "there is no such platform" if platform is None else platform.arms.get(ARM, NOT_PLAYED)
            reason = f"'{guest.platform}' guests are not modelled: {why}"
            yield Refusal(f"{path}.platform", reason, f"write 'platform: {' | '.join(platforms)}'")
        if guest.cpu_quota_ratio is not None and guest.cpu_quota_ratio * QUOTA_PERIOD_NS < QUOTA_MIN_NS:
            share = f"{guest.cpu_quota_ratio:g} of a processor is less than 1 ms of each 100 ms"
            cure = f"write {100 * QUOTA_MIN_NS / QUOTA_PERIOD_NS:g} % at least"
            yield Refusal(f"{path}.cpu_quota_ratio", f"{share}, which Linux does not take", cure)
        yield from bridging_mistakes(path, guest)
        for vnic_name, vnic in guest.vnics.items():
            vnic_at = vnic_path(name, vnic_name)
            if vnic.vswitch is not None and platform is not None and platform.is_host:
                reason = f"a {guest.platform} guest stands on no virtual switch"
                yield Refusal(vnic_at, reason, "give it an uplink")
            if not MTU_MIN_BYTES <= vnic.mtu_bytes <= MTU_MAX_BYTES:
                cure = f"write {MTU_MIN_BYTES} B to {MTU_MAX_BYTES} B"
                yield Refusal(f"{vnic_at}.mtu_bytes", f"{vnic.mtu_bytes} B is no MTU of IPv4", cure)
            if vnic.mtu_bytes < IPV6_MTU_MIN_BYTES and any(":" in address for address in vnic.ip):
                reason = f"{vnic.mtu_bytes} B is no MTU of IPv6"
                yield Refusal(f"{vnic_at}.mtu_bytes", reason, f"write {IPV6_MTU_MIN_BYTES} B at least")
            mac = vnic.mac.lower()
            if mac in macs:
                yield Refusal(f"{vnic_at}.mac", f"{vnic.mac} is {macs[mac]}'s too", "give each its own MAC")
            macs[mac] = vnic_at


def _networks(plan: Plan) -> Iterator[Refusal]:
    owners: dict[str, str] = {}
    for name, guest in plan.world.guests.items():
        for vnic, address in addresses(guest):
            path = vnic_path(name, vnic)
            if str(address.ip) in owners:
                reason = f"{address.ip} is {owners[str(address.ip)]}'s too"
                yield Refusal(f"{path}.ip", reason, "give each vNIC its own address")
            owners[str(address.ip)] = path
    for name, routes in plan.world.routes.items():
        for route in routes:
            path = f"routes.{name}"
            if name not in plan.world.guests or route.vnic not in plan.world.guests[name].vnics:
                yield Refusal(path, f"there is no vNIC '{route.vnic}' of '{name}'", "name one of the file")
            elif str(ip_address(route.via)) not in owners:
                yield Refusal(path, f"next hop {route.via} is nobody's address", "name a router's address")


def _roles(plan: Plan) -> Iterator[Refusal]:
    for name, role in plan.roles.items():
        path = f"roles.{name}"
        refused = refused_workload(path, role, ARM)
        if refused is not None:
            yield refused
            continue
        alone = WORKLOADS[role.workload].alone
        for key, guest in (("from", role.from_), *(() if alone else (("to", role.to),))):
            if guest not in plan.world.guests:
                yield Refusal(f"{path}.{key}", f"there is no guest '{guest}'", "name a guest of the file")
        if alone:
            continue
        if role.from_ == role.to:
            yield Refusal(f"{path}.to", "both ends are the same guest", "name another guest")
        elif {role.from_, role.to} <= plan.world.guests.keys() and role_ends(plan, role) is None:
            yield Refusal(path, "its ends share no IP version that it may use", "give both IPv4 or both IPv6")
        if {role.from_, role.to} <= plan.world.guests.keys():
            yield from _isolated(path, plan, role)
            yield from via_mistakes(path, plan, role)


def _isolated(path: str, plan: Plan, role: Role) -> Iterator[Refusal]:
    """Two isolated ports of one virtual switch exchange no frames; every other pair is as without isolation."""
    ends = role_ends(plan, role)
    if ends is None:
        return
    vnics = {
        vnic_path(name, own): vnic
        for name, guest in plan.world.guests.items()
        for own, vnic in guest.vnics.items()
    }
    here, there = (vnics[vnic_path(end.guest, end.vnic)] for end in ends)
    if not role.parameters.get("via") and here.isolated and there.isolated and here.vswitch == there.vswitch:
        reason = f"its two ends are isolated from each other on {here.vswitch}"
        yield Refusal(path, reason, "write 'isolate: false' at one of them")


def _timeline(plan: Plan) -> Iterator[Refusal]:
    actions = {action.id: action for action in plan.timeline}
    started: dict[str, str] = {}
    for action in plan.timeline:
        path = f"timeline.{action.id}"
        if action.do not in ACTIONS:
            reason = f"cannot {action.do}: {LATER_ACTIONS[action.do]}"
            yield Refusal(path, reason, f"use {', '.join(ACTIONS)}")
        elif action.do in {"reset", "exec"} and action.guest not in plan.world.guests:
            yield Refusal(f"{path}.guest", f"there is no guest '{action.guest}'", "name a guest of the Plan")
        elif action.do == "exec" and not action.argv:
            yield Refusal(path, "names no command", "give it 'argv'")
        elif action.do == "exec" and action.timeout_ns is None and slept_ns(action) > plan.limits.run_ns:
            reason = f"it sleeps longer than a run may take, {plan.limits.run_ns / 1e9:g} s"
            yield Refusal(f"{path}.argv", reason, "let it sleep shorter, or raise the limit of a run")
        elif action.do not in {"wait", "reset", "exec"} and action.role not in plan.roles:
            yield Refusal(f"{path}.role", f"there is no role '{action.role}'", "name a role of the file")
        elif action.do in {"start", "run"}:
            if str(action.role) in started:
                reason = f"role '{action.role}' was started by '{started[str(action.role)]}' before"
                yield Refusal(path, reason, "give the second part a role of its own")
            started[str(action.role)] = action.id
        elif action.do == "set":
            able = settable(plan.roles[str(action.role)].workload)
            for parameter, value in action.args.items():
                whole = isinstance(value, int) and value >= (parameter != "burst_bytes")
                if parameter != able or not whole:
                    reason = f"cannot set {parameter} to {value!r} while the role runs"
                    yield Refusal(f"{path}.args", reason, f"set {able} to a whole number" if able else "stop")
        elif action.until is not None:
            reason = "the simulator waits for a time, not for a call or a series"
            yield Refusal(f"{path}.until", reason, "write 'for', or wait for an event with 'after'")
        trigger = action.after
        if trigger is not None:
            events = (trigger.event,) if trigger.event is not None else trigger.any or trigger.all
            for event in events:
                yield from _event(f"{path}.after", str(event), {name: a.do for name, a in actions.items()})
    for name, window in plan.windows.items():
        for event in (window.from_, window.to):
            yield from _event(f"windows.{name}", event, {name: a.do for name, a in actions.items()})


def _event(path: str, event: str, actions: Mapping[str, str]) -> Iterator[Refusal]:
    name, _, word = event.rpartition(".")
    if name not in actions:
        yield Refusal(
            path, f"'{event}' is of no action of this timeline", "name an action's id and its event"
        )
    elif actions[name] in WORDS and word not in WORDS[actions[name]]:
        has = ", ".join(sorted(WORDS[actions[name]]))
        yield Refusal(path, f"'{actions[name]}' has no event '{word}'", f"it has {has}")


def _collect(plan: Plan) -> Iterator[Refusal]:
    for name in plan.collect.packets:
        if name not in plan.roles:
            yield Refusal(f"collect.packets.{name}", "is no role", "name a role of the file")


def capabilities(fingerprint: Mapping[str, str]) -> Capabilities:
    """What is modelled, with the reason for what is not."""
    return Capabilities(
        backend="simulator",
        platforms=dict.fromkeys(played(PLATFORMS, ARM)),
        vswitches=dict.fromkeys(played(VSWITCHES, ARM)),
        qdiscs={f"{kind}/virtlab": None for kind in QDISCS},
        workloads=dict.fromkeys(played(WORKLOADS, ARM)),
        actions={**dict.fromkeys(ACTIONS), **LATER_ACTIONS},
        links={"simulated": None},
        parallel_sessions=1024,
        fingerprint=fingerprint,
    )
