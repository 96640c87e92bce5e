"""Every reason not to play a Plan on this machine, each with its path and its cure, before anything is built.

A Plan that a machine cannot hold is refused whole: nothing is silently left out or replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from virtlab.catalogue import ACTIONS, PLATFORMS, SERVICES, VSWITCHES, WORKLOADS, Platform, played
from virtlab.catalogue.actions import commands_guest, restarts_guest
from virtlab.catalogue.collected import COUNTERS, SERIES
from virtlab.catalogue.declaration import NOT_PLAYED, Reset
from virtlab.catalogue.platforms import AT_EXISTING
from virtlab.catalogue.qdiscs.fifo import FIFO, PFIFO
from virtlab.catalogue.qdiscs.htb import HTB
from virtlab.catalogue.qdiscs.netem import NETEM
from virtlab.catalogue.workloads import is_budgeted, is_command
from virtlab.errors import MachineError
from virtlab.plan import Capabilities, Guest, Plan, Refusal, Role, Service
from virtlab.planner.check import LIMITS, discipline_mistakes, mistakes
from virtlab.planner.guests.clusters import entered
from virtlab.planner.guests.disks import is_folder
from virtlab.planner.guests.stores import guests_of, strays
from virtlab.planner.mobility.moves import mirrors
from virtlab.planner.mobility.moves import moves as planned_moves
from virtlab.planner.queues.full_frames import full_frame_refusals
from virtlab.planner.topology.layer_two import Box, LayerTwo
from virtlab.testbed.build import moves, pinning, pools, routing
from virtlab.testbed.build.disks import disk_refusals, folders
from virtlab.testbed.build.idle import pollers, processors
from virtlab.testbed.build.link_refusals import links, realised
from virtlab.testbed.build.ports import as_built, port_refusals
from virtlab.testbed.build.realtime import deadline_refused
from virtlab.testbed.build.swap import swap_refusals
from virtlab.testbed.image.rootfs import started_by
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.kinds.registry import ARM, platforms, vswitches
from virtlab.testbed.leader.memory_accounts import accounts_for_swap
from virtlab.testbed.leader.process import usable_cpus
from virtlab.testbed.machine import memory_bytes, swap_bytes
from virtlab.testbed.play.actions import actions
from virtlab.testbed.play.series import sampling_refusals
from virtlab.testbed.services.files import refused as files_refused
from virtlab.testbed.services.files import unknown_program
from virtlab.testbed.services.service import services

LEAST_PERIOD_NS = 1_000_000
BRIDGE_PORTS_MAX = 1023  # of the kernel's 1,024, one is the bridge's own


def refusals(plan: Plan, findings: Findings) -> list[Refusal]:
    """Every refusal of a Plan; empty when it can be opened."""
    out: list[Refusal] = []
    if findings.world is not None:
        out.append(Refusal("machine", findings.world[0], findings.world[1]))
    out += discipline_mistakes(plan, ARM)
    out += full_frame_refusals(plan)
    ports = list(port_refusals(plan, findings))
    out += ports
    if not ports:
        plan = as_built(plan, findings.machine.link)
    layer_two = LayerTwo(plan)
    out += mistakes(plan, ARM, layer_two)
    for check in (_hosts, _guests, _vswitches, _roles, _services, _timeline, _collect):
        out += check(plan, findings)
    out += _ports(plan, layer_two)
    out += _routing(plan)
    out += links(plan, findings)
    out += _pollers(plan, findings)
    out += _pinned(plan, findings)
    out += _shares(plan, findings)
    out += disk_refusals(plan, inside=findings.inside is not None)
    out += memory_refusals(plan, memory_bytes())
    out += pool_memory_refusals(plan, memory_bytes(), root=findings.root)
    out += swap_refusals(plan, swap_bytes(), accounts=accounts_for_swap(), inside=findings.inside)
    return out


def _pollers(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    cpus = usable_cpus(soft_switch=bool(plan.world.links) and realised(plan, findings) == "soft_switch")
    if processors(plan, cpus) is None:
        polling = pollers(plan)
        reason = f"{len(polling)} guests poll, and {len(cpus)} CPUs are left for guests: each needs its own, the rest one"
        yield Refusal(
            f"guests.{polling[0]}.idle", reason, "write 'idle: sleep', or use a machine with more CPUs"
        )


def _pinned(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    cpus = usable_cpus(soft_switch=bool(plan.world.links) and realised(plan, findings) == "soft_switch")
    free = cpus[: max(1, len(cpus) - len(pollers(plan)))]
    for path, reason, cure in pinning.why_not(plan, free, root=findings.root):
        yield Refusal(path, reason, cure)


def _shared_bytes(plan: Plan, name: str) -> int:
    """What both machines of a guest that moves have in memory once: a disk that they share."""
    disk = plan.world.guests[name].disk
    return disk.size_bytes if disk is not None and disk.medium == "memory" and not mirrors(plan, name) else 0


def memory_refusals(plan: Plan, has_bytes: int) -> Iterator[Refusal]:
    """Guests that have their memory from the start, with what starts them, and together more than a machine has."""
    wanted = {
        name: memory_of(guest)
        for name, guest in plan.world.guests.items()
        if guest.platform in platforms.played()
        and (memory_of := platforms.of(guest.platform).memory_of) is not None
    }
    wanted |= folders(plan)
    # Of a guest that moves there are two machines from the start.
    wanted |= {
        f"{name}, at its destination": wanted[name] - _shared_bytes(plan, name)
        for name in planned_moves(plan)
        if name in wanted
    }
    if (together := sum(wanted.values())) > has_bytes:
        largest = max(wanted, key=lambda name: wanted[name])
        reason = f"guests take {together / 2**30:.4g} GiB of memory together, and this machine has {has_bytes / 2**30:.4g}"
        cure = "use fewer guests, or give them less memory"
        in_memory = [
            guest for guest in plan.world.guests.values() if guest.disk and guest.disk.medium == "memory"
        ]
        if in_memory:
            cure += "; disks in memory are part of it: make them smaller"
            cure += "" if all(map(is_folder, in_memory)) else ", or write 'medium: file'"
        yield Refusal(f"guests.{largest.partition(',')[0]}.memory_bytes", reason, cure)


def pool_memory_refusals(plan: Plan, has_bytes: int, *, root: bool) -> Iterator[Refusal]:
    """Pools whose memory cannot be bounded, or is not there, or too little for machines that have theirs from the
    start. Limits of other guests may add up to more than their pool has: that is what over-allocation is.
    """
    pools_of = {name: pool.memory_bytes for name, pool in plan.world.pools.items() if pool.memory_bytes}
    if pools_of and not root:
        path = f"pools.{next(iter(pools_of))}.memory_bytes"
        yield Refusal(path, "control groups can only be made by root here", "run as root")
    if (together := sum(pools_of.values())) > has_bytes:
        largest = max(pools_of, key=lambda name: pools_of[name])
        reason = f"pools have {together / 2**30:.4g} GiB of memory together, and this machine has {has_bytes / 2**30:.4g}"
        yield Refusal(f"pools.{largest}.memory_bytes", reason, "make them smaller")
    for name, pool_bytes in pools_of.items():
        machines = [
            memory_of(guest) - (guest.balloon_bytes or 0)
            for guest in plan.world.guests.values()
            if guest.pool == name
            and guest.platform in platforms.played()
            and (memory_of := platforms.of(guest.platform).memory_of) is not None
        ]
        swap = plan.world.pools[name].swap_bytes or 0
        if sum(machines) > pool_bytes + swap:
            mib = 2**20
            reason = (
                f"{len(machines)} machines take {sum(machines) / mib:.4g} MiB from the start, including QEMU itself, and "
                f"their pool has {pool_bytes / mib:.4g} MiB {f'and {swap / mib:.4g} of' if swap else 'without'} swap: "
                "the kernel would end one"
            )
            cure = "give the pool more, or the machines less, or a larger 'balloon', or the pool 'swap'"
            yield Refusal(f"pools.{name}.memory_bytes", reason, cure)


def _shares(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """Why hosts and pools cannot have their processors, and why their guests cannot be on them."""
    switch = bool(plan.world.links) and realised(plan, findings) == "soft_switch"
    cpus = usable_cpus(soft_switch=switch)
    yield from pools.why_not(plan, cpus, soft_switch=switch, root=findings.root, inside=findings.inside)
    for name, guest in plan.world.guests.items():
        platform = PLATFORMS.get(guest.platform)
        own = plan.world.hosts[guest.host].cpus if guest.host in plan.world.hosts else None
        if platform is not None and "pool" not in platform.limits and (guest.pool or own) is not None:
            reason = f"a '{guest.platform}' guest cannot be confined to processors of its host"
            yield Refusal(f"guests.{name}.pool", reason, "take it out, or take another platform")


def _hosts(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    del findings
    for name, host in plan.world.hosts.items():
        exists = host.at == AT_EXISTING
        if host.at not in {"local", AT_EXISTING}:
            reason = f"a host at '{host.at}' cannot be reached by this testbed"
            yield Refusal(f"hosts.{name}.at", reason, "write 'at: local'")
        made = [
            guest
            for guest, entry in plan.world.guests.items()
            if entry.host == name
            and entry.platform in PLATFORMS
            and PLATFORMS[entry.platform].existing is not exists
        ]
        if made:
            reason = f"'{made[0]}' is {'made here' if exists else 'found, not made'}, its host is not"
            cure = f"write 'at: {AT_EXISTING}' for hosts that exist already, and for no other"
            yield Refusal(f"hosts.{name}.at", reason, cure)


def _routing(plan: Plan) -> Iterator[Refusal]:
    found = routing.routers(plan)
    if not found:
        return
    first = next(iter(found))
    why = routing.missing()
    if why is not None:
        yield Refusal(f"guests.{first}.routing", why, routing.CURE)
    for name, guest in plan.world.guests.items():
        if guest.forwards and guest.routing != "ospf":
            reason = f"'{name}' has static routes and '{first}' OSPF: they would not know of each other"
            yield Refusal(f"guests.{name}.routing", reason, "write the same 'routing' for all routers")
    for name, guest in found.items():
        if any(":" in text for vnic in guest.vnics.values() for text in vnic.ip):
            reason = "OSPF is run for IPv4 only"
            yield Refusal(f"guests.{name}.routing", reason, "write 'ipv6: none', or 'routing: static'")


def _guests(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    known = platforms.played()
    for name, guest in plan.world.guests.items():
        path = f"guests.{name}"
        platform = PLATFORMS.get(guest.platform)
        if platform is None or guest.platform not in known:
            cure = f"write 'platform: {' | '.join(known)}'"
            yield Refusal(f"{path}.platform", f"'{guest.platform}' guests cannot be started here", cure)
        else:
            yield from platforms.of(guest.platform).refusals(path, name, plan, findings)
        for own, vnic in guest.vnics.items():
            offloads = vnic.network != "own" and vnic.offloads != "off"
            if offloads and plan.world.links and realised(plan, findings) == "soft_switch":
                reason = "with offloads on, no frame that the soft switch sees is finished"
                yield Refusal(f"{path}.vnics.{own}.offloads", reason, "write 'offloads: off'")
        # A virtual machine has its memory from the start; nothing has to hold it to that.
        bounded = platform is None or platform.shares_kernel
        grouped = guest.cpu_quota_ratio is not None or (bounded and guest.memory_bytes is not None)
        if grouped and not findings.root:
            key = "cpu_quota_ratio" if guest.cpu_quota_ratio is not None else "memory_bytes"
            yield Refusal(f"{path}.{key}", "control groups can only be made by root here", "run as root")


def _vswitches(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    for name, vswitch in plan.world.vswitches.items():
        kind = VSWITCHES.get(vswitch.kind)
        kinds = vswitches.played()
        if kind is None or vswitch.kind not in kinds:
            reason = f"'{vswitch.kind}' cannot be built here"
            yield Refusal(f"vswitches.{name}.kind", reason, f"write {' or '.join(kinds)}")
        else:
            yield from vswitches.of(vswitch.kind).refusals(f"vswitches.{name}", name, plan, findings)


def _roles(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    for name, role in plan.roles.items():
        path = f"roles.{name}"
        if role.workload not in played(WORKLOADS, ARM):
            continue  # which was said
        command = is_command(role.workload)
        if (
            not command
            and findings.probe_workloads is not None
            and role.workload not in findings.probe_workloads
        ):
            reason = f"'{role.workload}' is declared, and no probe here plays it"
            yield Refusal(f"{path}.workload", reason, f"write one of {', '.join(findings.probe_workloads)}")
            continue
        if role.parameters.get("dscp") and role.parameters.get("meter", "virtlab") != "virtlab":
            reason = "only virtlab's own meter writes code points into IP headers"
            yield Refusal(f"{path}.dscp", reason, "remove 'meter', or match by address or port")
        marking = _marked_beside(plan, role)
        if marking is not None:
            reason = (
                f"a guest of it asks for congestion marks for '{marking}', and so for all its connections"
            )
            yield Refusal(f"{path}.ecn", reason, "write 'ecn: true' for both, or for none")
        if command and "argv" not in role.parameters:
            yield from _of_image(path, plan, role)
        if command and role.from_ in plan.world.guests:
            yield from _brought(path, role, plan.world.guests[role.from_], findings)
        if is_budgeted(role.workload) and role.from_ in plan.world.guests:
            yield from _budgeted(path, plan, role, findings)
        for end in entered(plan, role) or (None,):
            yield from _ends_apart(path, plan, (role.from_, end))
        for key, guest in (("from", role.from_), ("to", role.to))[: 1 if command else 2]:
            yield from _agentless_end(path, key, plan, guest)


def _of_image(path: str, plan: Plan, role: Role) -> Iterator[Refusal]:
    """Why the image of a role's guest does not say what it starts."""
    guest = plan.world.guests.get(str(role.from_))
    if guest is not None and guest.image is not None:
        try:
            started_by(guest.image)
        except MachineError as error:
            yield Refusal(f"{path}.argv", error.what, error.cure)


def _brought(path: str, role: Role, guest: Guest, findings: Findings) -> Iterator[Refusal]:
    """Why a role's program or its files are not in its guest."""
    platform = PLATFORMS.get(guest.platform)
    if platform is not None:
        yield from files_refused(path, role.parameters, platform)
        yield from unknown_program(path, role.parameters, guest, findings.small_system)


def _agentless_end(path: str, key: str, plan: Plan, guest: str | None) -> Iterator[Refusal]:
    """A guest without our agent can be no end of a role."""
    entry = plan.world.guests.get(str(guest))
    if entry is not None and entry.platform in PLATFORMS and PLATFORMS[entry.platform].agentless:
        reason = f"{guest} has no agent of ours"
        yield Refusal(f"{path}.{key}", reason, "measure through it, from a guest beside it")


def _ends_apart(path: str, plan: Plan, ends: tuple[str | None, str | None]) -> Iterator[Refusal]:
    """A role joins two existing hosts, or two guests that are made: nothing leads from one kind to the other."""
    networks = {
        next(iter(guest.vnics.values())).network
        if guest.platform in PLATFORMS and PLATFORMS[guest.platform].existing
        else None
        for end in ends
        if end is not None and (guest := plan.world.guests.get(end)) is not None
    }
    if len(networks) > 1:
        reason = "its ends are on networks that nothing joins"
        cure = "let both be existing hosts on one kind of network, or neither"
        yield Refusal(path, reason, cure)


def _marked_beside(plan: Plan, role: Role) -> str | None:
    """A TCP role with ECN that shares a guest with this one, which has none."""
    if WORKLOADS[role.workload].transport(role.parameters) != "tcp" or role.parameters.get("ecn"):
        return None
    own = {role.from_, *entered(plan, role)} - {None}
    return next(
        (
            name
            for name, other in plan.roles.items()
            if other.parameters.get("ecn") and own & {other.from_, other.to}
        ),
        None,
    )


def _budgeted(path: str, plan: Plan, role: Role, findings: Findings) -> Iterator[Refusal]:
    """Can this machine give a guest a CPU budget each period?"""
    if role.parameters.get("server") == "quota":
        guest = plan.world.guests.get(str(role.from_))
        if not findings.root:
            cure = "run as root; `virtlab rt analyze` needs no privilege"
            yield Refusal(f"{path}.server", "control groups can only be made by root here", cure)
        elif guest is not None and guest.cpu_quota_ratio is not None:
            reason = f"guest {role.from_} has a CPU quota of its own already"
            yield Refusal(f"{path}.server", reason, "remove its 'cpu', or write 'server: deadline'")
        others = [
            name
            for name, other in plan.roles.items()
            if other.from_ == role.from_ and is_budgeted(other.workload) and other != role
        ]
        if others:
            reason = f"guest {role.from_} has the budget of {others[0]} too, and one quota"
            yield Refusal(f"{path}.server", reason, "give each role a guest of its own")
        return
    refused = deadline_refused()
    if refused is not None:
        yield Refusal(f"{path}.server", *refused)
    elif plan.world.links and realised(plan, findings) == "soft_switch" and len(os.sched_getaffinity(0)) > 1:
        reason = "beside a soft switch guests are pinned, and the kernel gives no pinned thread a budget"
        yield Refusal(path, reason, "take the role to a file without links, or write 'server: quota'")


def _services(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    yield from strays(plan)
    for name, service in plan.world.services.items():
        path = f"services.{name}"
        if service.kind in played(SERVICES, ARM) and services.find(service.kind) is None:
            reason = f"'{service.kind}' is declared, and nothing plays it here"
            yield Refusal(f"{path}.kind", reason, f"write one of {', '.join(services.played())}")
        if (kind := services.find(service.kind)) is not None:
            yield from kind.of_world(plan, name, service)
        for guest in guests_of(service):
            platform = (
                PLATFORMS.get(plan.world.guests[guest].platform) if guest in plan.world.guests else None
            )
            yield from _agentless_end(path, "on", plan, guest)
            if platform is not None and (played_by := services.find(service.kind)) is not None:
                yield from played_by.refusals(path, service, plan.world.guests[guest])
                yield from unknown_program(
                    path, service.parameters, plan.world.guests[guest], findings.small_system
                )
                yield from limits_of_service(path, service, platform, findings)


def limits_of_service(
    path: str, service: Service, platform: Platform, findings: Findings
) -> Iterator[Refusal]:
    """Why a service's own limits of CPU and memory cannot be held."""
    for key in LIMITS:
        if service.parameters.get(key) is None:
            continue
        if platform.existing:
            reason = (
                f"control groups on a host that exists already, as {platform.name} hosts do, would stay there"
            )
            yield Refusal(f"{path}.{key}", reason, "bound the service there yourself, in its 'argv'")
        elif findings.inside is not None and platform.shares_kernel:
            reason = f"a guest inside {findings.inside} bounds no program by itself"
            yield Refusal(f"{path}.{key}", reason, "bound the guest, or use guests on this machine")
        elif platform.shares_kernel and not findings.root:
            yield Refusal(f"{path}.{key}", "control groups can only be made by root here", "run as root")


def _timeline(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    del findings
    yield from moves.refused(plan)
    for action in plan.timeline:
        path = f"timeline.{action.id}"
        if action.do in played(ACTIONS, ARM) and actions.find(action.do) is None:
            reason = f"'{action.do}' is declared, and nothing plays it here"
            yield Refusal(path, reason, f"use {', '.join(actions.played())}")
        if action.guest not in plan.world.guests:
            continue
        reset = _reset_of(plan, action.guest)
        if commands_guest(action.do):
            yield from _agentless_end(path, "guest", plan, action.guest)
        elif restarts_guest(action.do) and reset is None:
            reason = f"{action.guest} exists already and only ends roles: nothing goes through it that a reset interrupts"
            able = ", ".join(name for name in platforms.played() if PLATFORMS[name].reset is not None)
            yield Refusal(f"{path}.guest", reason, f"reset a guest that forwards: {able}")
        elif restarts_guest(action.do) and reset is not None and reset.boots:
            ends = [name for name, role in plan.roles.items() if action.guest in {role.from_, role.to}]
            if ends:
                reason = f"{action.guest} is an end of {', '.join(ends)}, which its reset would end"
                yield Refusal(f"{path}.guest", reason, "reset a guest that forwards")
            served = [name for name, service in plan.world.services.items() if action.guest in service.on]
            if served:
                reason = f"{action.guest} runs {', '.join(served)}, which its reset would end"
                yield Refusal(f"{path}.guest", reason, "reset a guest without services")


def _reset_of(plan: Plan, guest: str | None) -> Reset | None:
    platform = PLATFORMS.get(plan.world.guests[str(guest)].platform)
    return platform.reset if platform is not None else None


def _collect(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    del findings
    yield from sampling_refusals(plan)
    for series in plan.collect.series:
        if series.source not in SERIES:
            yield Refusal(
                f"collect.series.{series.source}",
                "is not a series of this testbed",
                f"there are {', '.join(SERIES)}",
            )
        elif series.every_ns < LEAST_PERIOD_NS:
            yield Refusal(
                f"collect.series.{series.source}", "cannot be sampled so often", "write at least 1 ms"
            )
    if 0 < plan.collect.telemetry_ns < LEAST_PERIOD_NS:
        yield Refusal("collect.telemetry", "cannot be sampled so often", "write at least 1 ms, or off")
    for group in plan.collect.counters:
        if group not in COUNTERS:
            yield Refusal(
                f"collect.counters.{group}",
                "is not a group of counters of this testbed",
                f"there are {', '.join(COUNTERS)}",
            )


def _ports(plan: Plan, layer_two: LayerTwo) -> Iterator[Refusal]:
    for name in plan.world.vswitches:
        ports = layer_two.ports(Box("vswitch", name))
        if ports > BRIDGE_PORTS_MAX:
            yield Refusal(
                f"vswitches.{name}",
                f"{ports} ports, a Linux bridge holds {BRIDGE_PORTS_MAX}",
                "use several hosts",
            )


def capabilities(findings: Findings, fingerprint: Mapping[str, str]) -> Capabilities:
    """What works here, with the reason for what does not."""
    world = None if findings.world is None else "; ".join(part for part in findings.world if part)
    qdiscs = {f"{kind}/virtlab": world for kind in findings.switch_qdiscs}
    qdiscs |= {f"{kind}/kernel": world or why for kind, why in findings.qdiscs.items()}
    fifo = findings.qdiscs.get(PFIFO.name, "not tried")
    qdiscs[f"{FIFO.name}/kernel"] = world or fifo
    netem = findings.qdiscs.get(NETEM.name, "not tried")
    return Capabilities(
        backend="testbed",
        platforms={name: world or platforms.of(name).missing(findings) for name in platforms.played()},
        vswitches={name: world or vswitches.of(name).missing(findings) for name in vswitches.played()},
        qdiscs=qdiscs,
        workloads=dict.fromkeys(played(WORKLOADS, ARM), world),
        actions={
            name: entry.arms.get(ARM, NOT_PLAYED) or (NOT_PLAYED if actions.find(name) is None else world)
            for name, entry in ACTIONS.items()
        },
        links={
            "netem": world or (f"this kernel has no netem ({netem})" if netem is not None else None),
            "soft_switch": world,
            "shaping": world or findings.qdiscs.get(HTB.name, "not tried"),
        },
        parallel_sessions=1,
        fingerprint=fingerprint,
    )
