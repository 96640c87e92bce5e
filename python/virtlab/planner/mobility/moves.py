"""Guests that move to another host in mid-run: which, and what the world is after a move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.actions import moves_guest
from virtlab.catalogue.workloads.dirty import DIRTY
from virtlab.plan import Action, Plan, Refusal, Role
from virtlab.planner.topology.port_names import link_ends, passage, port_of, port_there

BANDWIDTH_BYTE_PER_S = 128 << 20  # QEMU's defaults, which a Plan means that says neither
DOWNTIME_LIMIT_NS = 300_000_000
MODE, OVER = "pre_copy", "machine"  # what a Plan means that says neither
HOT, POST_COPY, COLD = "hot", "post_copy", "cold"  # the other modes
NETWORK = "network"  # the copy crosses the links of the world
SHARED, MIRRORED = "shared", "mirrored"  # the disk of a guest that moves; the first where nothing is said
NO_POOL = "none"  # what an action says of a guest that is in no pool at its destination
CONNECTIONS_MAX = 16
BEGINS = frozenset({"started", "paused", "resumed"})  # events of an action that is not over
FINISHED = "finished"
STAYED = frozenset({"failed", "cancelled", "timeout"})  # after which a guest is where it was


def moves(plan: Plan) -> dict[str, list[Action]]:
    """Guest -> the actions by which it moves, in the order in which it does."""
    found: dict[str, list[Action]] = {}
    for action in plan.timeline:
        if moves_guest(action.do):
            found.setdefault(str(action.guest), []).append(action)
    return found


def moving(plan: Plan) -> Iterator[tuple[str, Action]]:
    """Every action by which a guest of the world moves, with its path."""
    for action in plan.timeline:
        if moves_guest(action.do) and action.guest in plan.world.guests:
            yield f"timeline.{action.id}", action


def source_of(plan: Plan, action: Action) -> str:
    """The host that a guest leaves by an action: where the one before brought it, or where it began; of one that tries
    again, what the one before was to leave.
    """
    own = moves(plan)[str(action.guest)]
    source = plan.world.guests[str(action.guest)].host
    for before, following in pairwise(own[: own.index(action) + 1]):
        if not tries_again(following, before):
            source = str(before.to)
    return source


def tries_again(action: Action, before: Action) -> bool:
    """Whether a move begins only where the one before has left its guest where it was."""
    stayed = {f"{before.id}.{event}" for event in STAYED}
    return action.after is not None and stayed >= set(action.after.events())


def come(plan: Plan, host: str) -> list[str]:
    """Guests that are at a host at some time and do not begin there."""
    guests = plan.world.guests
    return [
        guest
        for guest, own in moves(plan).items()
        if guests[guest].host != host and any(action.to == host for action in own)
    ]


def copies(plan: Plan, guest: str) -> bool:
    """Whether a guest's memory is copied while it moves, by any of its actions."""
    return any(mode_of(action) != COLD for action in moves(plan).get(guest, ()))


def moves_out_of_turn(plan: Plan) -> Iterator[Refusal]:
    """Guests that move again while an earlier move may still be under way, or has shut them down."""
    actions = {action.id: action for action in plan.timeline}
    over: dict[str, set[str]] = {}
    needless = {name: tries for own in moves(plan).values() for name, tries in _needless(own).items()}
    for guest, own in moves(plan).items():
        yield from _from_two_places(guest, own)
        for before, action in pairwise(own):
            if before.id not in _over_before(action, actions, needless, over):
                reason = f"{guest} may still be moving ('{before.id}') when it moves again"
                cure = f"write 'after: {before.id}.finished', or what comes after that"
                yield Refusal(f"timeline.{action.id}.after", reason, cure)
            elif tries_again(action, before) and mode_of(before) == COLD:
                reason = f"{guest} is shut down by '{before.id}', and does not run on where it was"
                yield Refusal(f"timeline.{action.id}.after", reason, f"write 'after: {before.id}.finished'")


def _from_two_places(guest: str, own: Sequence[Action]) -> Iterator[Refusal]:
    """Moves before which a guest is where the move before was to bring it, or where another try of that was."""
    there: dict[str | None, str] = {}
    for before, action in pairwise(own):
        there[before.to] = before.id
        if tries_again(action, before):
            continue
        if len(there) > 1:
            hosts = " or ".join(str(host) for host in there)
            reason = (
                f"{guest} is at {hosts} then, by which of {', '.join(there.values())} has brought it there"
            )
            yield Refusal(f"timeline.{action.id}.after", reason, "let another try have the same 'to'")
        there = {}


def _needless(own: Sequence[Action]) -> dict[str, set[str]]:
    """Move -> those that would have tried it again, once it has finished."""
    found: dict[str, set[str]] = {}
    for place in range(len(own)):
        tries = set()
        for before, action in pairwise(own[place:]):
            if not tries_again(action, before):
                break
            tries.add(action.id)
        found[own[place].id] = tries
    return found


def over_before(plan: Plan, action: Action, known: dict[str, set[str]] | None = None) -> set[str]:
    """Actions that are over whenever one begins, or never begin; `known` keeps what was found out of a Plan's
    others.
    """
    return _over_before(action, {each.id: each for each in plan.timeline}, {}, {} if known is None else known)


def _over_before(
    action: Action,
    actions: Mapping[str, Action],
    needless: Mapping[str, set[str]],
    known: dict[str, set[str]],
) -> set[str]:
    """Actions that are over whenever one begins, or never begin; `known`: those of others, where they were looked for
    before.
    """
    if action.id in known:
        return known[action.id]
    waiting = [action]
    while waiting:  # not by calls: a timeline may be longer than these can be deep
        one = waiting[-1]
        events = [] if one.after is None else [event.rpartition(".") for event in one.after.events()]
        before = [actions[name] for name, _, _ in events if name in actions and name not in known]
        if one.id not in known and before:
            known[one.id] = set()  # what waits for itself never begins
            waiting += before
            continue
        waiting.pop()
        each = []
        for name, _, what in events:
            over = {name} if what not in BEGINS else set()
            over |= known.get(name, set())
            if what == FINISHED:
                over |= needless.get(name, set())
            each.append(over)
        gathered = set.intersection if one.after is not None and one.after.any else set.union
        known[one.id] = gathered(*each) if each else set()
    return known[action.id]


def measured_by_its_clock(path: str, guest: str, plan: Plan) -> Iterator[Refusal]:
    """Roles whose numbers come from a clock that a pause stops."""
    for name, role in plan.roles.items():
        workload = WORKLOADS.get(role.workload)
        if workload is None or workload.moves:
            continue
        sends = "to" in workload.streams.values()
        if guest == role.from_ or (guest == role.to and sends):
            reason = f"'{name}' measures by its clock, which stands still while it is paused"
            yield Refusal(f"{path}.guest", reason, "measure from a guest that stays, by rtt, say")


def asked_otherwise(path: str, guest: str, plan: Plan) -> Iterator[Refusal]:
    """Actions that ask something else of a guest that moves."""
    for action in plan.timeline:
        if action.guest == guest and not moves_guest(action.do):
            reason = f"'{action.id}' asks something of it, too"
            yield Refusal(f"{path}.guest", reason, "let that guest only move")


def writers(plan: Plan, guest: str) -> list[Role]:
    """Roles that write to a guest's memory, over and over."""
    return [role for role in plan.roles.values() if role.workload == DIRTY.name and role.from_ == guest]


def mode_of(action: Action) -> str:
    """How a guest moves by an action."""
    return action.mode or MODE


def disk_of_move(plan: Plan, action: Action) -> str | None:
    """How a guest's disk moves along; None of one without."""
    guest = plan.world.guests.get(str(action.guest))
    return (action.disk or SHARED) if guest is not None and guest.disk is not None else None


def mirrors(plan: Plan, guest: str) -> bool:
    """Whether a guest's disk is copied by any of its moves."""
    return any(disk_of_move(plan, action) == MIRRORED for action in moves(plan).get(guest, ()))


def no_such_disk(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    """Why what an action says of the guest's disk does not go with the guest, or with its mode."""
    if action.disk not in {None, SHARED, MIRRORED}:
        yield Refusal(
            f"{path}.disk",
            f"'{action.disk}' is not a way to move a disk",
            f"write '{SHARED}' or '{MIRRORED}'",
        )
    elif action.disk is not None and disk_of_move(plan, action) is None:
        yield Refusal(f"{path}.disk", f"{action.guest} has no disk", "remove it, or give the guest a 'disk'")
    elif action.disk == MIRRORED and mode_of(action) == COLD:
        reason = "a guest that is shut down is not copied, and neither is its disk"
        yield Refusal(f"{path}.disk", reason, f"write 'disk: {SHARED}'")


def vswitch_there(plan: Plan, guest: str, vnic: str, to: str) -> str:
    """The name of the virtual switch at a host that takes the place of the one on which a vNIC stands.

    Switches of one name on two hosts are each other's: 'h1.br' and 'h2.br'. Where the port there is a link of its own
    the vNIC stands behind it.
    """
    entry, world = plan.world.guests[guest], plan.world
    own = str(entry.vnics[vnic].vswitch)
    if to == entry.host:
        return own
    if (behind := passage(port_there(guest, vnic, to))) in world.vswitches:
        return behind
    if own == passage(port := port_of(guest, vnic)):
        near, _ = link_ends(port)
        own = next(name for name, above in world.vswitches.items() if near in above.uplinks)
    return f"{to}.{own.removeprefix(f'{entry.host}.')}"


def passages(plan: Plan, guest: str, vnic: str) -> set[str]:
    """Virtual switches of two ports behind which a vNIC stands at some host, where its ports are links of their own."""
    hosts = destinations(plan, guest)
    ports = [port_of(guest, vnic), *(port_there(guest, vnic, host) for host in hosts)]
    return {passage(port) for port in ports} & plan.world.vswitches.keys()


def moved(plan: Plan, name: str, to: str) -> Plan:
    """The Plan with a guest on another host, its vNICs on the virtual switches there."""
    guest = plan.world.guests[name]
    vnics = {
        own: vnic.model_copy(update={"vswitch": vswitch_there(plan, name, own, to)})
        for own, vnic in guest.vnics.items()
    }
    guests = {**plan.world.guests, name: guest.model_copy(update={"host": to, "vnics": vnics})}
    return plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})


def left_by_pools(plan: Plan, host: str) -> int | None:
    """How many of a host's own processors its pools leave to guests in none; None where it shares the machine's."""
    cpus = plan.world.hosts[host].cpus
    given = sum(pool.cpus for pool in plan.world.pools.values() if pool.host == host)
    return None if cpus is None else cpus - given


def cpus_of_hosts(plan: Plan, guest: str) -> set[int | None]:
    """How many processors of their own the hosts have at which a guest is at some time."""
    every = (plan.world.guests[guest].host, *destinations(plan, guest))
    return {plan.world.hosts[host].cpus for host in every if host in plan.world.hosts}


def pool_at(plan: Plan, guest: str, host: str) -> str | None:
    """The pool of a host in which a guest is while it is there; None where it is in none."""
    entry = plan.world.guests[guest]
    if host == entry.host:
        return entry.pool
    said = next((action.pool for action in moves(plan).get(guest, ()) if action.to == host), None)
    return said if said != NO_POOL else None


def pools_of_guests(plan: Plan) -> dict[str, set[str]]:
    """Guest -> the pools in which it is at some time; guests that are in none are left out."""
    guests = plan.world.guests
    found = {name: {guest.pool} for name, guest in guests.items() if guest.pool is not None}
    for guest in (name for name in moves(plan) if name in guests):
        every = (pool_at(plan, guest, host) for host in destinations(plan, guest))
        if into := {pool for pool in every if pool is not None}:
            found[guest] = found.get(guest, set()) | into
    return found


def come_into(plan: Plan, pool: str) -> list[str]:
    """Guests that are in a pool at some time and do not begin there."""
    guests, host = plan.world.guests, plan.world.pools[pool].host
    moving = [guest for guest in moves(plan) if guest in guests and guests[guest].host != host]
    return [guest for guest in moving if pool_at(plan, guest, host) == pool]


def _into_pool(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    """What is wrong with the pool in which a guest is at its destination, or is not said."""
    guest, to = str(action.guest), str(action.to)
    entry, pools = plan.world.guests[guest], plan.world.pools
    there = [name.removeprefix(f"{to}.") for name, pool in pools.items() if pool.host == to]
    cure = f"write 'pool: {' | '.join([*there, NO_POOL])}'"
    if not there:
        cure = f"give {to} 'pools' and write which, or 'cpus' and write 'pool: {NO_POOL}'"
    if action.pool is None:
        if (left := pool_at(plan, guest, source_of(plan, action))) is not None or (
            to == entry.host and entry.pool is not None
        ):
            was = (
                f"it is in pool '{left}' of the host that it leaves"
                if left
                else f"it began in '{entry.pool}'"
            )
            reason = f"{was}, and nothing says in which of {to} it is then"
            yield Refusal(f"{path}.pool", reason, cure)
        return
    said = None if action.pool == NO_POOL else action.pool
    if said is not None and (said not in pools or pools[said].host != to):
        reason = f"{to} has no pool '{said.removeprefix(f'{to}.')}'"
        yield Refusal(f"{path}.pool", reason, cure)
    elif said != (before := pool_at(plan, guest, to)):
        own = before.removeprefix(f"{to}.") if before is not None else NO_POOL
        reason = f"it is in another pool of {to} at another time"
        yield Refusal(f"{path}.pool", reason, f"write 'pool: {own}', as there")
    elif said is not None and (entry.cpu_quota_ratio or 0) > pools[said].cpus:
        reason = f"a share of {entry.cpu_quota_ratio:g} processors in a pool that has {pools[said].cpus}"
        yield Refusal(f"{path}.pool", reason, "lower its 'cpu', or make the pool larger")


def on_processors(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    """A share of processors that is not said, or that a guest which moves cannot have."""
    if wrong := list(_into_pool(path, action, plan)):
        yield from wrong
        return
    guest = str(action.guest)
    ends = [host for host in (source_of(plan, action), str(action.to)) if host in plan.world.hosts]
    pooled = {host: pool_at(plan, guest, host) is not None for host in ends}
    left = {host: left_by_pools(plan, host) for host in ends if not pooled[host]}
    if None in left.values() and (any(pooled.values()) or any(count is not None for count in left.values())):
        if any(pooled.values()):
            reason = "at one of both hosts it is in a pool, and at the other it has no processors of its own"
            yield Refusal(
                f"{path}.pool", reason, "let it be in a pool of both, or give the other host 'cpus'"
            )
        else:
            reason = "one of both hosts has processors of its own and the other has not"
            yield Refusal(f"{path}.to", reason, "give both hosts 'cpus', or neither")
    for host, count in left.items():
        if count is not None and count < 1:
            reason = f"pools of {host} leave it no processor there"
            yield Refusal(f"{path}.guest", reason, f"write more 'cpus' of {host}, or make its pools smaller")


def no_destination(path: str, action: Action, plan: Plan) -> Refusal | None:
    """Why an action moves its guest nowhere; None where it names another host."""
    source, to = source_of(plan, action), action.to
    if to in plan.world.hosts and to != source:
        return None
    others = [name for name in plan.world.hosts if name != source]
    reason = f"'{to}' is not another host" if to is not None else "no host is named"
    cure = f"write 'to' with one of {', '.join(others)}" if others else "add a second host"
    return Refusal(f"{path}.to", reason, cure)


def not_of_its_mode(path: str, action: Action) -> Iterator[Refusal]:
    """Why what an action says of its copy does not go with its mode, or with what QEMU can."""
    mode = mode_of(action)
    for key in ("compression", "connections"):
        if mode == COLD and getattr(action, key) is not None:
            yield Refusal(f"{path}.{key}", "a guest that is shut down is not copied", "remove it")
    if mode == POST_COPY and (action.compression is not None or action.connections is not None):
        key = "compression" if action.compression is not None else "connections"
        reason = "QEMU sends the pages that a guest asks for one by one, as they are"
        yield Refusal(f"{path}.{key}", reason, f"remove it, or write 'mode: {MODE}'")
    if mode != MODE:
        for key in ("rounds_limit", "auto_converge", "downtime_limit_ns"):
            if getattr(action, key) not in {None, False}:
                name = key.removesuffix("_ns")
                yield Refusal(
                    f"{path}.{name}", f"'{mode}' has no rounds", f"remove it, or write 'mode: {MODE}'"
                )
    if mode != POST_COPY and action.recover_after_ns is not None:
        reason = f"a guest that moves by '{mode}' runs on where it was if its copy breaks"
        yield Refusal(f"{path}.recover_after", reason, f"remove it, or write 'mode: {POST_COPY}'")
    if action.connections is not None and not 2 <= action.connections <= CONNECTIONS_MAX:
        reason = f"{action.connections} connections are not what QEMU copies by"
        yield Refusal(f"{path}.connections", reason, f"write a number from 2 to {CONNECTIONS_MAX}")


def destinations(plan: Plan, guest: str) -> list[str]:
    """Hosts that a guest moves to, but the one where it begins, each once."""
    there = (str(action.to) for action in moves(plan).get(guest, ()))
    return [host for host in dict.fromkeys(there) if host != plan.world.guests[guest].host]
