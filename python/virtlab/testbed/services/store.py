"""`store`: virtlab's own reference store: the agent is a node, or a proxy, as a process of its own in each guest.

A node keeps whole objects: as files on its guest's disk where that is a folder, else in memory. Each of them has the
parameters that the simulator's core has of the same Plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from virtlab.catalogue.services.store import OF_PROCESSORS, PACKETS, STORE, TRANSFERS
from virtlab.errors import GuestError
from virtlab.plan import Guest, Plan, Refusal, Role, Service
from virtlab.planner.guests.clusters import towards
from virtlab.planner.guests.disks import is_folder
from virtlab.planner.guests.stores import (
    calls_of,
    client_roles,
    comes_before,
    guests_of,
    is_watched,
    peer_parameters,
    reached,
    refusals_of_store,
)
from virtlab.planner.topology.ends import ends_between, interfaces, role_ends
from virtlab.testbed.build.stored_disks import asking_group
from virtlab.testbed.services.folders import folder_of, folders_at_once
from virtlab.testbed.services.service import OURSELVES, Invocation, ServiceImplementation

FOLDER = "/var/tmp/objects"  # noqa: S108 - on the guest's own disk
COPIES_MAX = 13  # of whose holders a message has room


def _invocation(name: str, service: Service, guest: Guest) -> Invocation:
    assert service.ready is not None, name
    words = json.dumps(peer_parameters(service), separators=(",", ":"))
    before = [OURSELVES, "store", "--parameters", words, "--port", str(service.ready.port)]
    before += ["--nodes", str(len(service.on))]
    before += [word for key, value in asking_group(name, service).items() for word in (f"--{key}", value)]
    if guest.disk is not None:
        before += ["--folder", f"{FOLDER}/{name}"]
    return Invocation(
        (),
        before=tuple(before),
        peers=guests_of(service),
        back=("--back",),
        emptied=("--wiped", "--back"),
    )


def _client_parameters(plan: Plan, name: str, role: Role) -> dict[str, Any]:
    """What the client of a role has to know of the store that it asks, by the parameter's name. GuestError where it
    does not reach a part of it.
    """
    own = str(role.parameters["service"])
    service = plan.world.services[own]
    guests, roles = guests_of(service), client_roles(plan, own)
    addresses = []
    for guest in guests:
        end = reached(plan, role, guest)
        if end is None or end.address is None:
            raise GuestError(
                f"roles.{name}", f"{role.from_} does not reach {guest}", "give both IPv4, or both IPv6"
            )
        addresses.append(str(end.address.ip))
    folders = list(dict.fromkeys(folder_of(each, roles[each]) for each in roles))
    told = {
        "me": len(guests) + list(roles).index(name), "peers": addresses, "nodes": len(service.on),
        "folder": folders.index(folder_of(name, role)), "parameters": peer_parameters(service), **asking_group(own, service),
        "away": [guests.index(guest) for guest in _failing(plan, own) if guest in service.on],
    }  # fmt: skip
    return {"store": told}


def _refusals(path: str, _: Service, guest: Guest) -> Iterator[Refusal]:
    if guest.disk is not None and not is_folder(guest):
        reason = f"a node keeps objects as files, and a disk of {guest.platform} guests has no file system"
        cure = "give its guests a platform whose disk is a folder, or no 'disk' and 'ack: memory'"
        yield Refusal(f"{path}.on", reason, cure)


def _of_world(plan: Plan, name: str, service: Service) -> Iterator[Refusal]:
    path, roles = f"services.{name}", client_roles(plan, name)
    yield from refusals_of_store(plan, name, service)
    if int(peer_parameters(service)["copies"]) > COPIES_MAX:
        reason = f"{COPIES_MAX} copies are the most on the testbed"
        yield Refusal(
            f"{path}.copies", reason, f"write at most {COPIES_MAX}, or run with '--backend simulator'"
        )
    for key, said in OF_PROCESSORS.items():
        if service.parameters.get(key) is not None:
            reason = "nodes and proxies take the time of the machine's processors, and no other"
            yield Refusal(f"{path}.{said}", reason, "remove it, or run with '--backend simulator'")
    if service.parameters.get(TRANSFERS, PACKETS) != PACKETS:
        reason = "what nodes send are packets, which nothing else stands for"
        yield Refusal(
            f"{path}.{TRANSFERS}", reason, f"remove '{TRANSFERS}', or run with '--backend simulator'"
        )
    yield from _losses(plan, name)
    yield from _several_addresses(plan, name, service)
    yield from folders_at_once(plan, name, "run with '--backend simulator'")
    for role in roles.values():
        if asking_group(name, service):
            yield from _not_asked(path, plan, service, role)


def _failing(plan: Plan, name: str) -> list[str]:
    """Nodes that the timeline lets fail, and that may be away when the run ends."""
    calls = [
        action for _, action, operation in calls_of(plan, name) if operation.ends and not operation.starts
    ]
    return sorted({str(action.args.get("guest")) for action in calls})


def _losses(plan: Plan, name: str) -> Iterator[Refusal]:
    """What of losses is not played: a 'heal' before them, which asks nodes that run."""
    calls = [(f"{path}.op", action, operation) for path, action, operation in calls_of(plan, name)]
    lost = [action for _, action, operation in calls if operation.ends]
    known: dict[str, set[str]] = {}
    for path, action, operation in calls:
        if not operation.ends and all(comes_before(plan, action, loss, known) for loss in lost):
            reason = (
                f"no node of '{name}' is lost before it, and 'heal' does nothing for nodes that were cut off"
            )
            yield Refusal(
                path, reason, "let it come after the loss, remove it, or run with '--backend simulator'"
            )


def _several_addresses(plan: Plan, name: str, service: Service) -> Iterator[Refusal]:
    """Nodes and proxies that others know by different addresses: a peer is known by the one that it speaks from."""
    own = [guest for guest in guests_of(service) if guest in plan.world.guests]
    if not any(len([*interfaces(plan.world.guests[guest])]) > 1 for guest in own):
        return
    alike: dict[
        tuple[object, ...], list[str]
    ] = {}  # guests of the same networks reach another at the same address
    for guest in own:
        networks = tuple(address.network for _, _, address in interfaces(plan.world.guests[guest]))
        alike.setdefault(networks, []).append(guest)
    for other in own:
        known: tuple[str, str] | None = None
        for guests in alike.values():
            near = next((guest for guest in guests if guest != other), None)
            pair = None if near is None else ends_between(plan, near, other, str(STORE.whole))
            if near is None or pair is None or pair[1].address is None:
                continue
            address = str(pair[1].address.ip)
            known = known or (near, address)
            if known[1] != address:
                reason = f"{near} reaches {other} at {address}, and {known[0]} at {known[1]}"
                yield Refusal(
                    f"services.{name}.on", reason, "put all nodes and proxies of a store on one network"
                )
                return


def _not_asked(path: str, plan: Plan, service: Service, role: Role) -> Iterator[Refusal]:
    """Where questions to all nodes do not get to one of them."""
    for guest in guests_of(service):
        pair = role_ends(plan, towards(role, guest))
        near, far = (None, None) if pair is None else (pair[0].address, pair[1].address)
        if near is None or far is None:
            continue
        if far.version == 6:
            reason = f"{role.from_} reaches {guest} by IPv6, and agents ask all nodes by IPv4"
            yield Refusal(f"{path}.lookup", reason, "give them IPv4, or write 'lookup: ring'")
        elif near.network != far.network:
            reason = f"a router stands between {role.from_} and {guest}, and forwards no multicast"
            yield Refusal(f"{path}.lookup", reason, "put both on one network, or write 'lookup: ring'")


IMPLEMENTATION = ServiceImplementation(
    _invocation,
    _refusals,
    "see its output among the run's artefacts; a full disk ends a node, and another program may have its port",
    _of_world,
    watches=is_watched,
    tells_standstills=True,
    client_parameters=_client_parameters,
)
