"""Guests that move to another host in the simulator: what is copied of them, over which links, and where frames go
then.

The core plays a move by the model of `virtlab migration` (rule `qemu`). The copy is a fluid: `over: machine` it has its
bandwidth and shares no wire, `over: network` it has its max-min fair share of the links between both hosts, and packets
find the rest. While the guest is paused it hears and says nothing; then its vNICs are at the virtual switches of the
other host, and every table leads there after the profile's time of re-convergence. A port with a queue or a rate waits
at each host of its way from the start; what is in the queue of the port that it leaves is lost, as on the testbed,
where nothing reads the tap of a machine that has ended. Of a profile:

| parameter | what it is |
|---|---|
| `migration.untouched_ratio` | the part of a guest's memory that is zero, so that it is not sent |
| `migration.setup_ns` | from the request to the first byte |
| `migration.device_ns` | the part of the pause that is not memory |
| `migration.reconvergence_ns` | after the pause, until frames reach the guest |
| `migration.shutdown_ns` | of `cold`: until the guest is off |
| `migration.boot_ns` | of `cold`: from its start until it serves; absent: as its platform declares |
| `migration.send_byte_ns`, `migration.receive_byte_ns` | what a byte costs the source's, the destination's processors |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from virtlab.catalogue import PLATFORMS, write_platform
from virtlab.catalogue.actions import moves_guest
from virtlab.plan import Action, Plan, Refusal
from virtlab.planner.mobility.copying import unaddressed
from virtlab.planner.mobility.moves import (
    BANDWIDTH_BYTE_PER_S,
    COLD,
    DOWNTIME_LIMIT_NS,
    HOT,
    MIRRORED,
    MODE,
    NETWORK,
    OVER,
    POST_COPY,
    asked_otherwise,
    disk_of_move,
    measured_by_its_clock,
    mode_of,
    moved,
    moves,
    moves_out_of_turn,
    moving,
    no_destination,
    no_such_disk,
    not_of_its_mode,
    on_processors,
    passages,
    pool_at,
    source_of,
    vswitch_there,
    writers,
)
from virtlab.planner.topology.cuts import cut_links
from virtlab.planner.topology.layer_two import Box, LayerTwo
from virtlab.simulator.pools import sharing_processors, vcpus
from virtlab.units.factors import NS_PER_S

LOOKS_EVERY_S = 0.1  # QEMU's BUFFER_DELAY
MODES = (MODE, POST_COPY, HOT, COLD)


def lowered_move(
    plan: Plan, action: Action, vnics: Mapping[str, int], vswitches: Mapping[str, int]
) -> dict[str, Any]:
    """The simulator core's input for a move. Its own times are zero, as in the ideal profile."""
    name, to = str(action.guest), str(action.to)
    guest = plan.world.guests[name]
    return {
        "entity": f"guests.{name}",
        "guest": {"memory_bytes": float(guest.memory_bytes or 0), **_disk(plan, action)},
        "policy": {
            "mode": mode_of(action), "rule": "qemu", "window_s": LOOKS_EVERY_S,
            "downtime_limit_s": (action.downtime_limit_ns or DOWNTIME_LIMIT_NS) / NS_PER_S,
            **({"rounds_limit": action.rounds_limit} if action.rounds_limit is not None else {}),
            **({"auto_converge": True} if action.auto_converge else {}),
        },
        **({"connections": action.connections} if action.connections is not None else {}),
        "bandwidth_byte_per_s": float(action.bandwidth_byte_per_s or BANDWIDTH_BYTE_PER_S),
        "host": list(plan.world.hosts).index(to),
        "way": way(plan, source_of(plan, action), to) or [] if action.over == NETWORK else [],
        "plugs": [
            [vnics[f"guests.{name}.vnics.{own}"], vswitches[vswitch_there(plan, name, own, to)]]
            for own in guest.vnics
        ],
        "stations": list(_stations(moved(plan, name, to), name, vnics, vswitches)),
    }  # fmt: skip


def _disk(plan: Plan, action: Action) -> dict[str, float]:
    """What of a guest's disk is copied; nothing where both hosts share it."""
    disk = plan.world.guests[str(action.guest)].disk
    if disk is None or disk_of_move(plan, action) != MIRRORED:
        return {}
    return {"disk_bytes": float(disk.size_bytes)}


def dirtied(plan: Plan, guest: str) -> dict[str, float]:
    """How fast roles of a Plan dirty a guest's memory, and how much of it, all at once; nothing where none does."""
    roles = writers(plan, guest)
    if not roles:
        return {}
    return {
        "dirty_byte_per_s": float(sum(role.parameters["rate_byte_per_s"] for role in roles)),
        "working_set_bytes": float(sum(role.parameters["working_set_bytes"] for role in roles)),
    }


def _stations(
    after: Plan, guest: str, vnics: Mapping[str, int], vswitches: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Which way frames to each vNIC of a guest go, in the world after its move.

    Behind its ports at other hosts nothing changes: what is still in their queues comes out where it was, and is lost
    there.
    """
    layer_two = LayerTwo(after)
    for name, vnic in after.world.guests[guest].vnics.items():
        found: dict[str, list[Any]] = {"vswitches": [], "lines": [], "bridges": []}
        left = passages(after, guest, name)
        for box, port in layer_two.ports_towards_vnic(guest, name).items():
            if box.kind == "switch":
                found["lines"].append(_line_from(after, port))
            elif box.kind == "vswitch":
                if box.name in left and box.name != vnic.vswitch:
                    continue
                to = {"port": port} if port in layer_two.owner else {"vnic": vnics[_path(port)]}
                found["vswitches"].append([vswitches[box.name], to])
            else:
                place = list(after.world.guests).index(box.name)
                found["bridges"].append([place, vnics[_path(port)]])
        yield {"mac": vnic.mac.lower(), **found}


def _path(port: str) -> str:
    guest, _, vnic = port.partition("/")
    return f"guests.{guest}.vnics.{vnic}"


def _line_from(plan: Plan, port: str) -> list[str]:
    """The direction of a link that begins at a port."""
    for name, link in plan.world.links.items():
        if port in link.ends:
            return [name, "ab" if link.ends[0] == port else "ba"]
    raise KeyError(port)


def way(plan: Plan, source: str, to: str) -> list[list[str]] | None:
    """Links from a host to another, each with its direction; None where no way without a router leads there.

    The copy begins and ends at the virtual switches on which both hosts have vNICs of their own.
    """
    layer_two, begins, ends = LayerTwo(plan), _switches(plan, source), _switches(plan, to)
    before: dict[Box, tuple[Box, list[str] | None]] = {}
    waiting = deque(begins)
    while waiting:
        here = waiting.popleft()
        if here in ends:
            found = []
            while here in before:
                here, line = before[here]
                found += [] if line is None else [line]
            return found[::-1]
        for edge in layer_two.edges[here]:
            if edge.box not in before and edge.box not in begins:
                line = _line_from(plan, edge.port) if edge.because.startswith("links.") else None
                before[edge.box] = here, line
                waiting.append(edge.box)
    return None


def _switches(plan: Plan, host: str) -> list[Box]:
    own = plan.world.hosts[host].vnic
    return [Box("vswitch", str(own.vswitch))] if own is not None else []


def timed(lowered: Mapping[str, Any], plan: Plan, value: Callable[[str], float]) -> dict[str, Any]:
    """The core's input with what a profile's values say of its moves."""
    if not moves(plan):
        return dict(lowered)
    pairs = zip(lowered["timeline"], plan.timeline, strict=True)
    timeline = [
        {**each, "args": _timed(each["args"], plan, action, value)} if moves_guest(action.do) else each
        for each, action in pairs
    ]
    return {**lowered, "timeline": timeline}


def _timed(
    given: Mapping[str, Any], plan: Plan, action: Action, value: Callable[[str], float]
) -> dict[str, Any]:
    guest = plan.world.guests[str(action.guest)]
    sent = given["guest"]["memory_bytes"] * (1 - min(value("migration.untouched_ratio"), 1.0))
    fixed = {
        "setup_s": value("migration.setup_ns") / NS_PER_S,
        "device_state_s": value("migration.device_ns") / NS_PER_S,
        "reconvergence_s": value("migration.reconvergence_ns") / NS_PER_S,
        "shutdown_s": value("migration.shutdown_ns") / NS_PER_S,
        "boot_s": (value("migration.boot_ns") or PLATFORMS[guest.platform].start_ns) / NS_PER_S,
    }
    places = {each.path: place for place, each in enumerate(sharing_processors(plan))}
    leaves, comes = (
        _processors(plan, str(action.guest), host) for host in (source_of(plan, action), str(action.to))
    )
    arrives = places.get(comes)
    lowered_pools = bool(vcpus(plan))
    work = [
        [places[path], byte_ns]
        for path, byte_ns in (
            (leaves, value("migration.send_byte_ns")),
            (comes, value("migration.receive_byte_ns")),
        )
        if byte_ns and path in places and lowered_pools
    ]
    # What is written to is never zero.
    most = max(sent, dirtied(plan, str(action.guest)).get("working_set_bytes", 0.0))
    own = {**given["guest"], "memory_bytes": max(most, 1.0), "fixed": fixed}
    pool = {"pool": arrives} if arrives is not None and lowered_pools else {}
    return {**given, "guest": own, "work": work, **pool}


def _processors(plan: Plan, guest: str, host: str) -> str:
    """On whose processors a guest is at a host: a pool's, or what its pools leave."""
    pool = pool_at(plan, guest, host)
    return f"pools.{pool}" if pool is not None else f"hosts.{host}"


def switch_overs(plan: Plan, happened: Sequence[tuple[int, str]]) -> dict[str, dict[str, Any]]:
    """What is known of each pause of a guest that moves, by its events."""
    at = {what: t_ns for t_ns, what in happened}
    found: dict[str, dict[str, Any]] = {}
    for guest, action in ((guest, one) for guest, own in moves(plan).items() for one in own):
        paused, resumed = f"{action.id}.paused", f"{action.id}.resumed"
        found[paused] = {"guest": guest}
        if resumed in at:
            found[resumed] = {"guest": guest, "pause_ns": at[resumed] - at[paused]}
    return found


def refused(plan: Plan) -> Iterator[Refusal]:
    """Every reason why a guest of the timeline cannot move in the simulator."""
    yield from moves_out_of_turn(plan)
    for path, action in moving(plan):
        guest = str(action.guest)
        where = list(_where(path, action, plan))
        yield from where or _how(path, action, plan)
        yield from measured_by_its_clock(path, guest, plan)
        yield from asked_otherwise(path, guest, plan)


def _how(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    guest = plan.world.guests[str(action.guest)]
    platform = PLATFORMS.get(guest.platform)
    if platform is None or not platform.moves:
        reason = f"a guest of platform '{guest.platform}' has no memory of its own that could move"
        yield Refusal(f"{path}.guest", reason, write_platform(lambda each: bool(each.moves)))
    elif guest.memory_bytes is None:
        reason = "how much memory it has is not said, so what is copied is unknown"
        yield Refusal(f"{path}.guest", reason, "write its 'memory', e.g. 256 MiB")
    if action.mode is not None and action.mode not in MODES:
        yield Refusal(f"{path}.mode", f"there is no mode '{action.mode}'", f"write {' | '.join(MODES)}")
    if action.mode == POST_COPY and action.on_timeout in {"cancel", "censor"}:
        ends = "cannot be cancelled" if action.on_timeout == "cancel" else "is lost when its time-out passes"
        reason = f"a guest that runs at the destination before its memory does {ends}"
        yield Refusal(f"{path}.on_timeout", reason, "write 'on_timeout: fail'")
    if action.over not in {None, OVER, NETWORK}:
        yield Refusal(f"{path}.over", f"nothing is '{action.over}'", f"write '{OVER}' or '{NETWORK}'")
    if action.over == NETWORK and mode_of(action) != COLD:
        yield from filter(None, [unaddressed(path, action, plan)])
    yield from _over_a_cut(path, action, plan)
    yield from not_of_its_mode(path, action)
    yield from no_such_disk(path, action, plan)
    if action.compression is not None:
        reason = "the model knows how much memory a guest has and writes, and not how much of it compresses"
        yield Refusal(f"{path}.compression", reason, "remove it, or run the file on the testbed")
    if action.recover_after_ns is not None:
        reason = "no copy breaks in the simulator"
        yield Refusal(f"{path}.recover_after", reason, "remove it, or run the file on the testbed")
    if action.auto_converge and (serves := _served(plan, str(action.guest))) is not None:
        reason = f"the model slows what a guest writes, and not '{serves}', which it serves"
        yield Refusal(f"{path}.auto_converge", reason, "remove it, or run the file on the testbed")
    yield from on_processors(path, action, plan)


def _over_a_cut(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    """A copy is a fluid, of which no frame is lost."""
    cut = cut_links(plan) if action.over == NETWORK else []
    crossed = (way(plan, source_of(plan, action), str(action.to)) or ()) if cut else ()
    for link in cut:
        if any(link == name for name, _ in crossed):
            reason = f"its copy crosses '{link}', which is cut, and no copy breaks in the simulator"
            yield Refusal(f"{path}.over", reason, "remove the cut, or run the file on the testbed")


def _served(plan: Plan, guest: str) -> str | None:
    """What takes processors of a guest beside a writer of memory: a service, or a role at its far end."""
    services = [name for name, service in plan.world.services.items() if guest in service.on]
    roles = [
        name for name, role in plan.roles.items() if role.to == guest and role.parameters.get("demand_ns")
    ]
    return next(iter([*services, *roles]), None)


def _where(path: str, action: Action, plan: Plan) -> Iterator[Refusal]:
    guest, to = plan.world.guests[str(action.guest)], action.to
    if (nowhere := no_destination(path, action, plan)) is not None:
        yield nowhere
        return
    for name, vnic in guest.vnics.items():
        own = f"{path}.guest.{name}"
        if vnic.vswitch is None:
            yield Refusal(own, "its port is its host's own", "let it stand on a virtual switch")
        elif (there := vswitch_there(plan, str(action.guest), name, str(to))) not in plan.world.vswitches:
            yield Refusal(own, f"there is no virtual switch '{there}'", f"give {to} a guest, and so a switch")
