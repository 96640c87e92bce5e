"""Guests that move to another host in mid-run: which, where to, and why one cannot.

What a guest needs at its destination is built with the world: a tap on that host's virtual switch for each vNIC, and a
second machine that waits for its memory. Refused is what this testbed does not carry over yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from virtlab.catalogue import PLATFORMS, WORKLOADS, write_platform
from virtlab.catalogue.collected import COUNTERS, SERIES
from virtlab.plan import Action, Plan, Refusal, Vnic
from virtlab.planner.mobility.copying import unaddressed
from virtlab.planner.mobility.moves import (
    COLD,
    MIRRORED,
    MODE,
    NETWORK,
    OVER,
    POST_COPY,
    SHARED,
    asked_otherwise,
    disk_of_move,
    measured_by_its_clock,
    mode_of,
    moves,
    moves_out_of_turn,
    moving,
    no_destination,
    no_such_disk,
    not_of_its_mode,
    on_processors,
    pool_at,
    source_of,
    vswitch_there,
)
from virtlab.planner.queues.ports import in_front_of, is_port
from virtlab.planner.queues.pushback import sharing
from virtlab.testbed.leader.groups import of_pools

XBZRLE, ZLIB, ZSTD = "xbzrle", "zlib", "zstd"
USERFAULTS = Path("/proc/sys/vm/unprivileged_userfaultfd")
CURE_USERFAULTS = "as root: sysctl vm.unprivileged_userfaultfd=1"
LONGEST_NS = 50_000_000_000  # a probe that hears nothing for 60 s ends its traffic
DATAGRAMS = frozenset({"icmp", "udp"})


def userfaults_missing() -> str | None:
    """Why no machine can continue before its memory has arrived; None where it can.

    Its pages are fetched by userfaultfd(2), and a machine of ours has no privilege by which it could have that else.
    """
    try:
        allowed = USERFAULTS.read_text(encoding="ascii").strip() == "1"
    except OSError:
        return "this kernel has no userfaultfd"
    return (
        None
        if allowed
        else "only privileged processes may handle page faults here (vm.unprivileged_userfaultfd is 0)"
    )


def refused(plan: Plan) -> Iterator[Refusal]:
    """Every reason why a guest of the timeline cannot move."""
    yield from moves_out_of_turn(plan)
    for path, action in moving(plan):
        guest = str(action.guest)
        yield from _how(path, action, plan)
        yield from _where(path, action, plan)
        yield from measured_by_its_clock(path, guest, plan)
        placed = list(on_processors(path, action, plan))
        yield from placed or _in_groups(path, action, plan)
        yield from _asked_of_services(path, guest, plan)
        yield from asked_otherwise(path, guest, plan)
        if mode_of(action) == COLD:
            yield from _ends_with_its_kernel(path, guest, plan)
    if moves(plan):
        yield from _over_both(plan)
        yield from _collected(plan)


def _how(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    guest = plan.world.guests[str(action.guest)]
    platform = PLATFORMS.get(guest.platform)
    modes = platform.moves if platform is not None else ()
    if not modes:
        reason = f"no guest of platform '{guest.platform}' moves here"
        yield Refusal(f"{path}.guest", reason, write_platform(lambda each: bool(each.moves)))
    elif mode_of(action) not in modes:
        reason = f"the mode '{action.mode}' is not played"
        yield Refusal(f"{path}.mode", reason, f"write 'mode: {' | '.join(modes)}'")
    yield from _copied(path, action)
    if action.over not in {None, OVER, NETWORK}:
        yield Refusal(f"{path}.over", f"nothing is '{action.over}'", f"write '{OVER}' or '{NETWORK}'")
    if action.timeout_ns is None or action.timeout_ns > LONGEST_NS:
        reason = f"a guest that moves is out of our reach, and for {LONGEST_NS // 10**9} s at most"
        yield Refusal(f"{path}.timeout", reason, "write 'timeout: 30 s' and 'on_timeout: cancel'")
    if guest.image is not None:
        reason = "a disk that a guest boots from cannot move"
        yield Refusal(f"{path}.guest", reason, "take a guest without 'image'; a 'disk' of its own moves")
    if mode_of(action) == POST_COPY and disk_of_move(plan, action) == MIRRORED:
        reason = "a disk is mirrored from where its guest runs, which post-copy leaves first"
        yield Refusal(f"{path}.disk", reason, f"write 'disk: {SHARED}', or 'mode: {MODE}'")
    yield from no_such_disk(path, action, plan)


def _in_groups(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    """Pools that are control groups: a machine is put into the groups of its guest as it starts, before the guest
    comes.
    """
    guest, bounds = str(action.guest), of_pools(plan)
    for host in (source_of(plan, action), str(action.to)):
        pool = pool_at(plan, guest, host)
        if pool is None or (bound := bounds.get(f"pools.{pool}")) is None:
            continue
        keys = {"memory": bound.memory_bytes, "by: quota": bound.bandwidth, "weight": bound.weight}
        said = " and ".join(f"'{key}'" for key, value in keys.items() if value is not None)
        reason = f"pool '{pool}' has {said}, so it is a control group, and a guest that moves stays in its first host's"
        cure = "write 'by: affinity' without 'memory' and weights, or run the file in the simulator"
        yield Refusal(f"{path}.pool", reason, cure)


def _over_both(plan: Plan) -> Iterator[Refusal]:
    """Guests that are copied over links from where they were copied to over the machine, or the other way round."""
    for guest, own in moves(plan).items():
        for before, action in pairwise(own):
            ways = [each.over or OVER for each in (before, action) if mode_of(each) != COLD]
            if len(ways) == 2 and ways[0] != ways[1]:
                reason = (
                    f"{guest} was copied over the {ways[0]} before, and all its moves need the same 'over'"
                )
                yield Refusal(f"timeline.{action.id}.over", reason, f"write 'over: {ways[0]}'")


def _copied(path: str, action: Action) -> Iterator[Refusal]:
    """What a mode does not go with."""
    mode = mode_of(action)
    if mode == POST_COPY and (why := userfaults_missing()) is not None:
        yield Refusal(f"{path}.mode", why, CURE_USERFAULTS)
    yield from not_of_its_mode(path, action)
    if action.compression == ZSTD and action.connections is None:
        reason = "QEMU compresses by zstd only over several connections"
        yield Refusal(f"{path}.compression", reason, "write 'connections: 2', too, or 'compression: zlib'")
    if action.compression == XBZRLE and action.connections is not None:
        reason = "QEMU sends differences to the page before over one connection"
        yield Refusal(f"{path}.compression", reason, "remove 'connections', or write 'compression: zlib'")


def _where(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    guest, to = plan.world.guests[str(action.guest)], action.to
    if (nowhere := no_destination(path, action, plan)) is not None:
        yield nowhere
        return
    if action.over == NETWORK and mode_of(action) != COLD:
        yield from filter(None, [unaddressed(path, action, plan)])
    for name, vnic in guest.vnics.items():
        own = f"{path}.guest.{name}"
        if vnic.vswitch is None:
            continue
        there = vswitch_there(plan, str(action.guest), name, str(to))
        pair = [plan.world.vswitches.get(one) for one in (vnic.vswitch, there)]
        if any(each is None for each in pair):
            yield Refusal(own, f"there is no virtual switch '{there}'", f"give {to} a guest, and so a switch")
        elif not all(each is not None and each.learning for each in pair):
            yield Refusal(own, "a switch that does not learn never sends to where it is", "let both learn")
        else:
            yield from _held_back(own, vnic, there, plan)


def _held_back(path: str, vnic: Vnic, there: str, plan: Plan) -> Iterator[Refusal]:
    """What holds its frames back is in front of its host's wire, or of its own vNIC, which it takes along."""
    here, there = (in_front_of(plan, each) for each in (str(vnic.vswitch), there))
    shares = sharing(plan)
    if (here in shares) != (there in shares):
        one, other = (here, there) if here in shares else (there, here)
        reason = f"guests behind '{one}' share the queue of its wire, and behind '{other}' they share none"
        yield Refusal(path, reason, "write one 'pushback' for both hosts")
    elif (
        vnic.pushback_bit_per_s is not None
        and here not in shares
        and _wires(here, plan) != _wires(there, plan)
    ):
        reason = f"it is held back at the rate of the wire of '{here}', and that of '{there}' has another"
        yield Refusal(path, reason, "give both wires one rate, or write 'pushback: uplink' for both hosts")


def _wires(vswitch: str, plan: Plan) -> set[int]:
    """Rates of the links of a virtual switch, bit/s."""
    ends, links = set(plan.world.vswitches[vswitch].uplinks), plan.world.links.items()
    return {link.rate_bit_per_s for name, link in links if set(link.ends) & ends and not is_port(name, link)}


def _ends_with_its_kernel(path: str, guest: str, plan: Plan) -> Iterator[Refusal]:
    """What a guest cannot have that boots again: only who answers echoes does so as before."""
    for name, service in plan.world.services.items():
        if guest in service.on:
            reason = f"the service '{name}' runs in it, and ends when it is shut down"
            yield Refusal(
                f"{path}.guest", reason, f"write 'mode: {MODE}', or let it serve in a guest that stays"
            )
    for name, role in plan.roles.items():
        workload = WORKLOADS.get(role.workload)
        if workload is None or guest not in {role.from_, role.to}:
            continue
        if guest == role.from_:
            reason = f"'{name}' runs in it, and ends when it is shut down"
            yield Refusal(
                f"{path}.guest", reason, f"write 'mode: {MODE}', or let it run in a guest that stays"
            )
        elif not workload.echoes or workload.transport(role.parameters) not in DATAGRAMS:
            reason = f"connections of '{name}' end with its kernel"
            yield Refusal(f"{path}.guest", reason, f"write 'mode: {MODE}', or measure by rtt")


def _asked_of_services(path: str, guest: str, plan: Plan) -> Iterator[Refusal]:
    """Actions that ask something of a service in a guest that moves: what has been started there goes along and serves
    on, but nothing of it can be ended, started or checked while its agent is out of our reach.
    """
    for action in plan.timeline:
        asked = action.service
        if action.until is not None and action.until.call is not None:
            asked = action.until.call.partition(".")[0]
        service = plan.world.services.get(asked) if asked is not None else None
        if service is not None and guest in service.on and action.args.get("guest") in {None, guest}:
            reason = f"'{action.id}' asks something of '{asked}' in it, whose agent is out of our reach while it moves"
            yield Refusal(f"{path}.guest", reason, "let services of a guest that moves only serve")


def _collected(plan: Plan) -> Iterator[Refusal]:
    for series in plan.collect.series:
        known = SERIES.get(series.source)
        if known is not None and not known.of_moving:
            reason = "two machines carry the name of a guest that moves, and its own clock stands still"
            yield Refusal(f"collect.series.{series.source}", reason, "take it out")
    for name in plan.collect.counters:
        group = COUNTERS.get(name)
        if group is not None and not group.of_moving:
            reason = "two machines carry the name of a guest that moves"
            yield Refusal(f"collect.counters.{name}", reason, "take it out")
