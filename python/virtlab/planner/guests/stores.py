"""Distributed stores of a Plan: their guests, who asks them, where a client reaches them, and which no arm can play."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from virtlab.catalogue import SERVICES
from virtlab.catalogue.actions import restarts_guest
from virtlab.catalogue.declaration import ServiceOperation
from virtlab.catalogue.services import RECOVERED
from virtlab.catalogue.services.store import DISK, MULTICAST, PEERS_MAX, PROXIES, STORE, TRANSFERS
from virtlab.catalogue.workloads.objects import largest_bytes
from virtlab.plan import Action, Plan, Refusal, Role, Service, Trigger
from virtlab.planner.guests.clusters import towards
from virtlab.planner.guests.stored_disks import as_roles
from virtlab.planner.mobility.moves import over_before
from virtlab.planner.topology.cuts import DOWN, STATE, cut_links
from virtlab.planner.topology.ends import RoleEnd, role_ends

RECORD_BYTES = 512  # of an object on a disk, beside its content (crates/virtlab-store)


def is_store(service: Service | None) -> bool:
    """Whether roles ask it as a whole, as a store is."""
    return service is not None and service.kind == STORE.name


def guests_of(service: Service) -> tuple[str, ...]:
    """The guests of a service: of a store its nodes, then its proxies."""
    beside = SERVICES[service.kind].more_guests if service.kind in SERVICES else None
    return (*service.on, *(service.parameters.get(beside, ()) if beside is not None else ()))


def is_watched(service: Service) -> bool:
    """Whether nodes of a store tell each other that they are there, so that others make copies for a silent one."""
    return is_store(service) and service.parameters.get("beat_ns") is not None


def _known(plan: Plan, guests: Iterable[str]) -> list[str]:
    return [guest for guest in guests if guest in plan.world.guests]


def client_roles(plan: Plan, name: str) -> dict[str, Role]:
    """Roles that ask a service."""
    return {
        each: role
        for each, role in plan.roles.items()
        if role.workload == SERVICES[STORE.name].whole and role.parameters.get("service") == name
    }


def clients(plan: Plan, name: str) -> dict[str, Role]:
    """By its path, each client of a store: roles that ask it, then guests' disks that are on it, in the core's
    order.
    """
    roles = {f"roles.{each}": role for each, role in client_roles(plan, name).items()}
    return roles | {f"guests.{guest}.disk": role for guest, role in as_roles(plan, name).items()}


def peer_parameters(service: Service) -> dict[str, Any]:
    """A store's parameters as both arms' machines take them."""
    beside = (PROXIES, TRANSFERS)
    return {key: value for key, value in STORE.complete(service.parameters).items() if key not in beside}


def nodes_behind(plan: Plan, name: str) -> dict[str, list[int]]:
    """Places of a store's nodes that nothing reaches once a link is cut, by each link that the timeline cuts: nodes on
    a host that has no other link.
    """
    found: dict[str, list[int]] = {}
    for place, guest in enumerate(plan.world.services[name].on):
        host = plan.world.guests[guest].host if guest in plan.world.guests else ""
        links = [link for link, each in plan.world.links.items() if host in map(_device, each.ends)]
        if len(links) == 1 and links[0] in cut_links(plan):
            found.setdefault(links[0], []).append(place)
    return found


def _device(port: str) -> str:
    return port.partition(".")[0]


def reached(plan: Plan, role: Role, guest: str) -> RoleEnd | None:
    """A guest as the client of a role reaches it; None where it does not."""
    pair = role_ends(plan, towards(role, guest))
    return None if pair is None else pair[1]


def strays(plan: Plan) -> Iterator[Refusal]:
    """Roles that would ask a store, and name none."""
    for name, role in plan.roles.items():
        asked = plan.world.services.get(str(role.parameters.get("service")))
        kind = SERVICES[asked.kind] if asked is not None and asked.kind in SERVICES else None
        if role.workload == STORE.whole and (kind is None or kind.whole != role.workload):
            reason = f"'{role.workload}' needs a store, and 'to' names none"
            yield Refusal(f"roles.{name}.to", reason, f"name a service with 'kind: {STORE.name}'")


def refusals_of_stores(plan: Plan) -> Iterator[Refusal]:
    """What keeps stores from being played, by any arm."""
    yield from strays(plan)
    for name, service in plan.world.services.items():
        if is_store(service):
            yield from refusals_of_store(plan, name, service)


def refusals_of_store(plan: Plan, name: str, service: Service) -> Iterator[Refusal]:
    """The same, of one store."""
    path, roles, said = f"services.{name}", clients(plan, name), STORE.complete(service.parameters)
    ends: dict[str, tuple[str, RoleEnd]] = {}
    yield from _too_many(path, service, roles)
    yield from _too_large(plan, service, roles)
    yield from _reset(plan, service)
    yield from idle_waits(plan, name)
    for guest in _known(plan, guests_of(service)):
        for each, role in roles.items():
            if role.from_ == guest:
                reason = f"{guest} is both a client and part of the store '{name}'"
                if each.startswith("roles."):  # of a disk, `stored_disk_mistakes` says it
                    yield Refusal(f"{each}.from", reason, "name another guest")
            elif (end := reached(plan, role, guest)) is None:
                reason = f"{guest} and {role.from_} have no address of one IP version"
                yield Refusal(f"{path}.on", reason, "give both IPv4, or both IPv6")
            elif (other := ends.setdefault(guest, (each, end)))[1] != end:
                reason = f"it reaches {guest} at another address than {other[0].removeprefix('roles.')} does"
                yield Refusal(
                    _at(each, "to", "service"), reason, "write the same 'family', and one network, for both"
                )
    if said["ack"] == DISK:
        for guest in _known(plan, service.on):
            if plan.world.guests[guest].disk is None:
                reason = f"{guest} has no disk, which 'ack: disk' needs"
                yield Refusal(
                    f"{path}.ack", reason, "give it a 'disk', or write 'ack: memory' with a 'cache'"
                )
    if said["lookup"] == MULTICAST:
        asks = [str(role.from_) for role in roles.values()]
        yield from _not_heard(path, plan, _known(plan, [*guests_of(service), *asks]))


def _at(client: str, of_role: str, of_disk: str) -> str:
    """Where it is said of a client, which is a role or a disk."""
    return f"{client}.{of_role if client.startswith('roles.') else of_disk}"


def _too_many(path: str, service: Service, roles: Mapping[str, Role]) -> Iterator[Refusal]:
    peers = len(guests_of(service)) + len(roles)
    if peers > PEERS_MAX:
        reason = f"{peers} nodes, proxies and clients are too many: at most {PEERS_MAX} connect to each other"
        yield Refusal(f"{path}.on", reason, "let fewer roles ask it, each with more 'threads'")


def _too_large(plan: Plan, service: Service, roles: Mapping[str, Role]) -> Iterator[Refusal]:
    """Objects that are larger than the smallest disk of a node; what lies on it already is not counted."""
    disks = [(guest, plan.world.guests[guest].disk) for guest in _known(plan, service.on)]
    room = min(((disk.size_bytes, guest) for guest, disk in disks if disk is not None), default=None)
    for each, role in roles.items():
        size_bytes = largest_bytes(role.parameters)
        if room is not None and size_bytes + RECORD_BYTES > room[0]:
            reason = f"an object of {size_bytes} B and its record of {RECORD_BYTES} B do not fit on the disk of {room[1]}"
            yield Refusal(
                _at(each, "size", "block_bytes"),
                reason,
                f"write at most '{room[0] - RECORD_BYTES} B', or a larger disk",
            )


def _reset(plan: Plan, service: Service) -> Iterator[Refusal]:
    """A guest that is reset loses what its memory held, and no node is played so."""
    for position, action in enumerate(plan.timeline):
        if restarts_guest(action.do) and action.guest in guests_of(service):
            reason = f"{action.guest} is part of a store, and what its node would lose is unknown"
            yield Refusal(
                f"timeline[{position}].guest",
                reason,
                "remove the reset; call 'fail_node' and 'heal' of the store instead",
            )


def calls_of(plan: Plan, name: str) -> list[tuple[str, Action, ServiceOperation]]:
    """Calls of a store's operations, with their paths."""
    operations = SERVICES[plan.world.services[name].kind].operations
    return [
        (f"timeline[{position}]", action, operations[str(action.op)])
        for position, action in enumerate(plan.timeline)
        if action.service == name and action.op in operations
    ]


def comes_before(plan: Plan, first: Action, then: Action, known: dict[str, set[str]]) -> bool:
    """Whether an action begins before another in every run in which both do; `known` as in `over_before`."""
    if first.id in over_before(plan, then, known):
        return True
    early, late = first.after or Trigger(all=("",)), then.after or Trigger(all=("",))
    return early.events() == late.events() and early.any == late.any and early.plus_ns < late.plus_ns


def idle_waits(plan: Plan, name: str) -> Iterator[Refusal]:
    """Waits until a store has recovered that end at once, since nothing was lost before them."""
    losing = _losing(plan, name)
    lost = [action for action in plan.timeline if action.service == name and action.op in losing]
    if is_watched(plan.world.services[name]):
        behind = nodes_behind(plan, name)
        lost += [each for each in plan.timeline if each.link in behind and each.args.get(STATE) == DOWN]
    known: dict[str, set[str]] = {}
    for position, action in enumerate(plan.timeline):
        service, _, progress = str(action.until.call if action.until is not None else "").partition(".")
        if service == name and progress == RECOVERED:
            if not all(comes_before(plan, action, loss, known) for loss in lost):
                continue
            reason = f"no node of '{name}' is lost before it, so that it waits for nothing"
            cure = f"call {' or '.join(losing)} before it, or remove it"
            yield Refusal(f"timeline[{position}].until", reason, cure)


def _losing(plan: Plan, name: str) -> list[str]:
    """Operations after which a store's nodes say when they have what they lost, or missed."""
    kind = SERVICES[plan.world.services[name].kind]
    return [op for op, each in kind.operations.items() if each.of_one]


def _not_heard(path: str, plan: Plan, guests: list[str]) -> Iterator[Refusal]:
    """Ports that frames to a group do not reach."""
    for guest in dict.fromkeys(guests):
        for vnic in plan.world.guests[guest].vnics.values():
            vswitch = plan.world.vswitches.get(vnic.vswitch or "")
            if vnic.isolated:
                reason = f"{guest} is isolated on {vnic.vswitch}, which keeps questions to all nodes from it"
                yield Refusal(f"{path}.lookup", reason, "write 'isolate: false' there, or 'lookup: ring'")
            elif vswitch is not None and not vswitch.flooding:
                reason = f"{vnic.vswitch} floods nothing, and questions to all nodes are flooded"
                yield Refusal(f"{path}.lookup", reason, "let it flood, or write 'lookup: ring'")
