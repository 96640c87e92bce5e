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
from virtlab.catalogue.qdiscs.netem import NETEM
from virtlab.catalogue.services.store import FLUID, OF_PROCESSORS, PROXIES, PROXY, TRANSFERS
from virtlab.plan import Plan, Refusal, Service
from virtlab.plan.seeds import service_seed
from virtlab.planner.guests.clusters import towards
from virtlab.planner.guests.stored_disks import as_roles
from virtlab.planner.guests.stores import clients, guests_of, is_store, peer_parameters, reached
from virtlab.planner.mobility.copying import stored_disks
from virtlab.planner.mobility.moves import moves
from virtlab.planner.topology.cuts import cut_links
from virtlab.planner.topology.ends import RoleEnd, role_ends
from virtlab.planner.topology.layer_two import Box, LayerTwo, guest_box

Line = tuple[str, str]  # a link, and the direction


def stores(plan: Plan, places: Mapping[tuple[str, str], int], seed: int) -> dict[str, Any]:
    """The core's words for stores; nothing of a Plan without. `places`: of vNICs, by guest and name."""
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
                    **({"disks": disks} if disks else {}),
                    **({"fluid": _fluid(plan, name, service)} if is_fluid(service) else {}),
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


def _peers(plan: Plan, name: str, service: Service) -> list[RoleEnd]:
    """Nodes, proxies and clients of a store, in the core's order."""
    roles = clients(plan, name)
    first = next(iter(roles.values()))
    own = [reached(plan, first, guest) for guest in guests_of(service)]
    pairs = [role_ends(plan, towards(role, service.on[0])) for role in roles.values()]
    return [end for end in (*own, *(pair[0] for pair in pairs if pair is not None)) if end is not None]


def _fluid(plan: Plan, name: str, service: Service) -> dict[str, Any]:
    """Lines, and by the peer that sends and the one that hears the places of those between them."""
    boxes, places, ways = _boxes(plan, _peers(plan, name, service)), dict[Line, int](), []
    layer_two, directions = LayerTwo(plan), _directions(plan)
    for box in boxes:
        tree = _tree(layer_two, box, directions)
        ways.append([[places.setdefault(line, len(places)) for line in _way(tree, to) or ()] for to in boxes])
    return {"lines": [list(line) for line in places], "ways": ways}


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


def refusals_of_fluids(plan: Plan) -> Iterator[Refusal]:
    """Why what a store sends cannot be a fluid: on its way something is not modelled for one."""
    for name, service in plan.world.services.items():
        if not is_fluid(service) or not clients(plan, name):
            continue
        peers = _peers(plan, name, service)
        reason = next(_why_packets(plan, peers), None)
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
