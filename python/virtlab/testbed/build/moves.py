"""Guests that move to another host in mid-run: which, where to, and why one cannot.

What a guest needs at its destination is built with the world: a tap on that host's virtual switch for each vNIC, and a
second machine that waits for its memory. Refused is what this testbed does not carry over yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import PLATFORMS, WORKLOADS
from virtlab.catalogue.actions import MIGRATE
from virtlab.catalogue.vswitches.linux_bridge import LINUX_BRIDGE
from virtlab.plan import Action, Guest, Plan, Refusal

MODE, OVER = "pre_copy", "machine"  # what a Plan means that says neither
LONGEST_NS = 50_000_000_000  # a probe that hears nothing for 60 s ends its traffic
OF_THREADS = "guest.vcpus"
OF_KERNELS = "memory"
OF_PROCESSES = "guests"


def moves(plan: Plan) -> dict[str, Action]:
    """Guest -> the action by which it moves."""
    return {str(action.guest): action for action in plan.timeline if action.do == MIGRATE.name}


def vswitch_there(guest: Guest, vswitch: str, to: str) -> str:
    """The name of the virtual switch at the destination that takes the place of a guest's own.

    Switches of one name on two hosts are each other's: 'h1.br' and 'h2.br'.
    """
    return f"{to}.{vswitch.removeprefix(f'{guest.host}.')}"


def refused(plan: Plan) -> Iterator[Refusal]:
    """Every reason why a guest of the timeline cannot move."""
    seen: set[str] = set()
    for action in plan.timeline:
        if action.do != MIGRATE.name or action.guest not in plan.world.guests:
            continue
        path = f"timeline.{action.id}"
        if action.guest in seen:
            yield Refusal(f"{path}.guest", f"{action.guest} moves twice", "let a guest move once in a run")
        seen.add(action.guest)
        yield from _how(path, action, plan)
        yield from _where(path, action, plan)
        yield from _measured(path, action.guest, plan)
    if seen:
        yield from _collected(plan)


def _how(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    guest = plan.world.guests[str(action.guest)]
    platform = PLATFORMS.get(guest.platform)
    modes = platform.moves if platform is not None else ()
    if not modes:
        able = ", ".join(name for name, each in PLATFORMS.items() if each.moves)
        reason = f"no guest of platform '{guest.platform}' moves here"
        yield Refusal(f"{path}.guest", reason, f"write 'platform: {able}'")
    elif (action.mode or MODE) not in modes:
        reason = f"the mode '{action.mode}' is not played"
        yield Refusal(f"{path}.mode", reason, f"write 'mode: {' | '.join(modes)}'")
    if (action.over or OVER) != OVER:
        reason = "the copy does not cross the links of the world: no host has an address of its own"
        yield Refusal(f"{path}.over", reason, f"write 'over: {OVER}', which shares no wire with the clients")
    if action.timeout_ns is None or action.timeout_ns > LONGEST_NS:
        reason = f"a guest that moves is out of our reach, and for {LONGEST_NS // 10**9} s at most"
        yield Refusal(f"{path}.timeout", reason, "write 'timeout: 30 s' and 'on_timeout: cancel'")
    if guest.image is not None or guest.disk is not None:
        reason = "its disk would have to be shared with the destination, or mirrored"
        yield Refusal(f"{path}.guest", reason, "take a guest without 'image' and 'disk'")


def _where(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    guest, to = plan.world.guests[str(action.guest)], action.to
    if to not in plan.world.hosts or to == guest.host:
        others = [name for name in plan.world.hosts if name != guest.host]
        reason = f"'{to}' is not another host" if to is not None else "no host is named"
        cure = f"write 'to' with one of {', '.join(others)}" if others else "add a second host"
        yield Refusal(f"{path}.to", reason, cure)
        return
    if plan.world.arp == "static":
        reason = "switches have fixed entries that name the port of the host that it leaves"
        yield Refusal(path, reason, "write 'network: {arp: live}': switches learn where it is")
    for name, vnic in guest.vnics.items():
        own = f"{path}.guest.{name}"
        if vnic.vswitch is None:
            continue
        there = vswitch_there(guest, vnic.vswitch, str(to))
        pair = [plan.world.vswitches.get(one) for one in (vnic.vswitch, there)]
        if any(each is None or each.kind != LINUX_BRIDGE.name for each in pair):
            reason = f"it needs a Linux bridge at both ends, '{vnic.vswitch}' and '{there}'"
            yield Refusal(own, reason, f"write 'vswitch: {LINUX_BRIDGE.name}' for both hosts")
        elif not all(each is not None and each.learning for each in pair):
            yield Refusal(own, "a bridge that does not learn never sends to where it is", "let both learn")
        if vnic.queue is not None or vnic.isolated or vnic.port_rate_bit_per_s is not None:
            reason = "a queue, a rate or an isolation at its port is not built at the destination"
            yield Refusal(own, reason, "take it away from the guest that moves")


def _measured(path: str, guest: str, plan: Plan) -> Iterator[Refusal]:
    for name, role in plan.roles.items():
        workload = WORKLOADS.get(role.workload)
        if workload is None or workload.moves:
            continue
        sends = "to" in workload.streams.values()
        if guest == role.from_ or (guest == role.to and sends):
            reason = f"'{name}' measures by its clock, which stands still while it is paused"
            yield Refusal(f"{path}.guest", reason, "measure from a guest that stays, by rtt, say")
    for name, service in plan.world.services.items():
        if guest in service.on:
            reason = f"it runs the service '{name}', which is out of our reach while it moves"
            yield Refusal(f"{path}.guest", reason, "take a role with a server of virtlab's own")
    for action in plan.timeline:
        if action.guest == guest and action.do != MIGRATE.name:
            reason = f"'{action.id}' asks something of it, too"
            yield Refusal(f"{path}.guest", reason, "let that guest only move")


def _collected(plan: Plan) -> Iterator[Refusal]:
    for series in plan.collect.series:
        if series.source in {OF_THREADS, OF_KERNELS}:
            reason = "two machines carry the name of a guest that moves, and its own clock stands still"
            yield Refusal(f"collect.series.{series.source}", reason, "take it out")
    if OF_PROCESSES in plan.collect.counters:
        reason = "two machines carry the name of a guest that moves"
        yield Refusal(f"collect.counters.{OF_PROCESSES}", reason, "take it out")
