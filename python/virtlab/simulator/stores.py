"""Distributed stores in the simulator: where their nodes and proxies are, and which lines cross what they send in bulk.

A store that no role asks and no disk is on has nothing to do, and is left out. Its peers speak under the addresses
under which a client reaches them. With `transfers: fluid` the core plays copies that are made again, and objects of 1
MB and more, as the copies of guests that move are played: each has its max-min fair share of the lines between both
peers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from virtlab.catalogue import QDISCS
from virtlab.catalogue.actions import restarts_guest
from virtlab.catalogue.qdiscs.netem import NETEM
from virtlab.catalogue.services.store import (
    FLUID,
    MESSAGES,
    MULTICAST,
    OF_PROCESSORS,
    PROXIES,
    PROXY,
    STORE,
    TRANSFERS,
)
from virtlab.plan import Plan, Refusal, Service
from virtlab.plan.seeds import service_seed
from virtlab.planner.guests.clusters import towards
from virtlab.planner.guests.stored_disks import as_roles
from virtlab.planner.guests.stores import clients, guests_of, is_store, nodes_behind, peer_parameters, reached
from virtlab.planner.mobility.copying import stored_disks
from virtlab.planner.mobility.moves import moves
from virtlab.planner.topology.cuts import cut_links
from virtlab.planner.topology.ends import RoleEnd, role_ends
from virtlab.planner.topology.layer_two import Box, LayerTwo, guest_box

Line = tuple[str, str]  # a link, and the direction


def stores(plan: Plan, places: Mapping[tuple[str, str], int], seed: int) -> dict[str, Any]:
    """The simulator core's input for stores; empty if the Plan has none. `places`: of vNICs, by guest and name."""
    found = []
    for name, service in plan.world.services.items():
        role = next(iter(clients(plan, name).values()), None) if is_store(service) else None
        if role is not None:
            ends = [
                _end(end, places, service_seed(seed, name, guest))
                for guest in guests_of(service)
                if (end := reached(plan, role, guest)) is not None
            ]
            nodes = len(service.on)
            disks = list(_disks(plan, name, places, seed))
            found.append(
                {
                    "service": name,
                    "nodes": ends[:nodes],
                    "proxies": ends[nodes:],
                    "parameters": peer_parameters(service),
                    **({"behind": list(behind.items())} if (behind := nodes_behind(plan, name)) else {}),
                    **({"disks": disks} if disks else {}),
                    **({"fluid": _lines_between(plan, name, service)} if is_fluid(service) else {}),
                    **({"messages": _messages(plan, name, service)} if is_of_messages(service) else {}),
                }
            )
    return {"stores": found} if found else {}


def _disks(
    plan: Plan, name: str, places: Mapping[tuple[str, str], int], seed: int
) -> Iterator[dict[str, Any]]:
    """Disks of guests that are on a store, each with where its client is."""
    guests = {guest: place for place, guest in enumerate(plan.world.guests)}
    blocks = stored_disks(plan, name)
    for guest, role in as_roles(plan, name).items():
        pair = role_ends(plan, role)
        if pair is not None:
            end = _end(pair[0], places, service_seed(seed, name, guest))
            yield {"guest": guests[guest], "block_bytes": blocks[guest].block_bytes, "end": end}


def _end(end: RoleEnd, places: Mapping[tuple[str, str], int], seed: int) -> dict[str, Any]:
    address = None if end.address is None else str(end.address.ip)
    return {"vnic": places[end.guest, end.vnic], "address": address, "seed": seed}


def guests_with_processors(plan: Plan) -> list[str]:
    """Guests in which messages cost a node or a proxy processor time, in the order of the Plan."""
    found = set[str]()
    for name, service in plan.world.services.items():
        if is_store(service) and clients(plan, name):
            for key in OF_PROCESSORS:
                if service.parameters.get(key):
                    of_proxies = key.startswith(PROXY)
                    found.update(service.parameters.get(PROXIES, ()) if of_proxies else service.on)
    return [guest for guest in plan.world.guests if guest in found]


def is_fluid(service: Service) -> bool:
    """Whether it is a store whose contents are no packets."""
    return is_store(service) and service.parameters.get(TRANSFERS) == FLUID


def is_of_messages(service: Service) -> bool:
    """Whether it is a store of which nothing is packets."""
    return is_store(service) and service.parameters.get(TRANSFERS) == MESSAGES


def _peers(plan: Plan, name: str, service: Service) -> list[RoleEnd]:
    """Nodes, proxies and clients of a store, in the core's order."""
    roles = clients(plan, name)
    first = next(iter(roles.values()))
    own = [reached(plan, first, guest) for guest in guests_of(service)]
    pairs = [role_ends(plan, towards(role, service.on[0])) for role in roles.values()]
    return [end for end in (*own, *(pair[0] for pair in pairs if pair is not None)) if end is not None]


def _lines_between(plan: Plan, name: str, service: Service) -> dict[str, Any]:
    """Lines, and by the peer that sends and the one that hears the places of those between them."""
    boxes, places, ways = _boxes(plan, _peers(plan, name, service)), dict[Line, int](), []
    layer_two, directions = LayerTwo(plan), _directions(plan)
    for box in boxes:
        tree = _tree(layer_two, box, directions)
        ways.append([[places.setdefault(line, len(places)) for line in _way(tree, to) or ()] for to in boxes])
    return {"lines": [list(line) for line in places], "ways": ways}


def _messages(plan: Plan, name: str, service: Service) -> dict[str, Any]:
    """The same, and where what a peer says to all nodes goes: switches send it over every line that leads away."""
    ways = _lines_between(plan, name, service)
    if STORE.complete(service.parameters)["lookup"] != MULTICAST:
        return {"ways": ways}
    peers = _peers(plan, name, service)
    boxes, places = _boxes(plan, peers), {tuple(line): place for place, line in enumerate(ways["lines"])}
    layer_two, directions, floods = LayerTwo(plan), _directions(plan), []
    for box in boxes:
        tree = _tree(layer_two, box, directions)
        behind: dict[Box, int | None] = {box: None}
        branches: list[tuple[int, int | None]] = []
        for to, (here, line) in tree.items():  # from the peer outwards
            if here is not None:
                behind[to] = behind[here]
                if line is not None:
                    branches.append((places.setdefault(line, len(places)), behind[here]))
                    behind[to] = len(branches) - 1
        floods.append({"branches": branches, "nodes": [behind[to] for to in boxes[: len(service.on)]]})
    return {"ways": {**ways, "lines": [list(line) for line in places]}, "floods": floods}


def _boxes(plan: Plan, peers: Sequence[RoleEnd]) -> list[Box]:
    return [guest_box(peer.guest, plan.world.guests[peer.guest], peer.vnic) for peer in peers]


def _directions(plan: Plan) -> dict[str, Line]:
    """By the port at which it begins, each direction of a link."""
    return {
        end: (name, direction)
        for name, link in plan.world.links.items()
        for end, direction in zip(link.ends, ("ab", "ba"), strict=True)
    }


def _tree(
    layer_two: LayerTwo, begin: Box, directions: Mapping[str, Line]
) -> dict[Box, tuple[Box | None, Line | None]]:
    """From which box frames of one come to each other one, and over which line."""
    before: dict[Box, tuple[Box | None, Line | None]] = {begin: (None, None)}
    waiting = deque([begin])
    while waiting:
        here = waiting.popleft()
        for edge in layer_two.edges[here]:
            if edge.box not in before:
                line = directions[edge.port] if edge.because.startswith("links.") else None
                before[edge.box] = here, line
                waiting.append(edge.box)
    return before


def _way(tree: Mapping[Box, tuple[Box | None, Line | None]], to: Box) -> list[Line] | None:
    """The lines to a box; None where no way without a router leads there."""
    if to not in tree:
        return None
    found, here = [], to
    while (step := tree[here])[0] is not None:
        here = step[0]
        found += [] if step[1] is None else [step[1]]
    return found[::-1]


def refusals_of_transfers(plan: Plan) -> Iterator[Refusal]:
    """Why what a store sends cannot be a fluid, or messages: on its way something is not modelled for them."""
    for name, service in plan.world.services.items():
        if not clients(plan, name):
            continue
        peers = _peers(plan, name, service)
        if is_fluid(service):
            reason = next(_why_packets(plan, peers), None)
        elif is_of_messages(service):
            reason = next(_why_no_messages(plan, peers), None)
        else:
            continue
        if reason is not None:
            yield Refusal(f"services.{name}.{TRANSFERS}", reason, f"remove '{TRANSFERS}'")


def _why_packets(plan: Plan, peers: Sequence[RoleEnd]) -> Iterator[str]:
    layer_two, directions, boxes = LayerTwo(plan), _directions(plan), _boxes(plan, peers)
    moved = [peer.guest for peer in peers if peer.guest in moves(plan)]
    yield from (f"{guest} moves, and its transfers would not move with it" for guest in moved)
    crossed = dict[Line, None]()
    for own, box in zip(peers, boxes, strict=True):
        tree = _tree(layer_two, box, directions)
        for other, to in zip(peers, boxes, strict=True):
            way = _way(tree, to)
            if way is None:
                yield f"a router stands between {own.guest} and {other.guest}, and its packets are no fluid"
            crossed.update(dict.fromkeys(way or ()))
    cut = cut_links(plan)
    for link, direction in crossed:
        if link in cut:
            yield f"the link '{link}' is cut, and of a fluid no frame would be lost"
        kind = getattr(plan.world.links[link].queue, direction).kind
        declared = QDISCS[kind]
        if kind == NETEM.name or declared.serves == "shaped" or declared.shares == "by_curve":
            yield f"'{kind}' of the link '{link}' delays, loses or holds back packets, and not a fluid"


def _why_no_messages(plan: Plan, peers: Sequence[RoleEnd]) -> Iterator[str]:
    """Messages have their lines to themselves, and these serve them in the order in which they come."""
    world = plan.world
    if world.arp == "live" or world.ipv6_noise:
        key = "arp: live" if world.arp == "live" else "ipv6_noise"
        yield f"'{key}' has guests send packets, for which messages do not wait"
    yield from (
        f"{guest} forwards frames, and messages cross no guest"
        for guest, one in world.guests.items()
        if one.bridges
    )
    yield from (f"{guest} moves, and messages are no packets that would follow it" for guest in moves(plan))
    own = {peer.guest for peer in peers}
    for action in plan.timeline:
        if restarts_guest(action.do) and action.guest in own:
            yield f"timeline.{action.id} resets {action.guest}, and messages to it would not be lost"
    layer_two, directions, boxes = LayerTwo(plan), _directions(plan), _boxes(plan, peers)
    crossed, cut = set[Line](), cut_links(plan)
    for peer, box in zip(peers, boxes, strict=True):
        tree = _tree(layer_two, box, directions)
        for other, to in zip(peers, boxes, strict=True):
            if to not in tree:
                yield f"a router stands between {peer.guest} and {other.guest}, and it forwards packets alone"
        crossed.update(line for _, line in tree.values() if line is not None)
    for link, direction in sorted(crossed):
        if link in cut:
            yield f"the link '{link}' is cut, and of messages no frame would be lost"
        kind = getattr(world.links[link].queue, direction).kind
        if not QDISCS[kind].tail_drop:
            yield f"'{kind}' of the link '{link}' does not serve in the order in which packets come"
    for path, guests in _senders(plan):
        if crossed & _crossed_from(plan, guests, layer_two, directions):
            yield f"packets of {path} cross its lines, and messages do not wait for packets"


def _senders(plan: Plan) -> Iterator[tuple[str, set[str]]]:
    """By its path, what sends packets, and the guests that do."""
    services = plan.world.services
    for name, role in plan.roles.items():
        asked = services.get(str(role.parameters.get("service")), services.get(str(role.to)))
        if is_of_messages(asked) if asked is not None else role.to is None:
            continue
        beside = set() if asked is None else set(guests_of(asked))
        yield f"roles.{name}", {str(role.from_), str(role.to), *beside}
    for name, service in services.items():
        if is_store(service) and not is_of_messages(service):
            asking = {str(role.from_) for role in clients(plan, name).values()}
            if asking:
                yield f"services.{name}", {*guests_of(service), *asking}


def _crossed_from(
    plan: Plan, guests: set[str], layer_two: LayerTwo, directions: Mapping[str, Line]
) -> set[Line]:
    """Lines that a frame from one of the guests may cross."""
    found = set[Line]()
    for guest in guests & plan.world.guests.keys():
        for vnic in plan.world.guests[guest].vnics:
            tree = _tree(layer_two, guest_box(guest, plan.world.guests[guest], vnic), directions)
            found.update(line for _, line in tree.values() if line is not None)
    return found
