"""`swift`: a program in each guest that builds the rings and starts the servers of a node, or of a proxy.

Swift's programs are this machine's, which guests that share its files see; they run as the user of their packages,
without any capability. Nodes keep objects on their guests' disks, whose file system, in memory, has the attributes that
Swift needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from virtlab.catalogue.services.swift import AUTH, BUCKET, KEYS, NO_AUTH, PROXIES, REVOKE, S3, SWIFT, TEMPAUTH
from virtlab.errors import GuestError
from virtlab.plan import Guest, Plan, Refusal, Role, Service
from virtlab.planner.guests.stores import calls_of, client_roles, guests_of, reached
from virtlab.testbed.build.machine import kernel
from virtlab.testbed.services import recovery_program, swift_program
from virtlab.testbed.services.files import FOLDER, Files
from virtlab.testbed.services.folders import folder_of, folders_at_once
from virtlab.testbed.services.installed import (
    DISK,
    PYTHON,
    brought,
    losses,
    lost_nodes,
    node_command,
    refused,
    refused_guest,
    without_disk,
)
from virtlab.testbed.services.service import Beside, Copies, Invocation, Missed, ServiceImplementation

PROGRAM = "swift_program.py"
ATTRIBUTES_SINCE = (6, 6)
INTERVAL_NS = 30_000_000_000
PACKAGES = {  # by the program that each brings
    "swift-proxy-server": "swift-proxy",
    "swift-account-server": "swift-account",
    "swift-container-server": "swift-container",
    "swift-object-server": "swift-object",
    "memcached": "memcached",
    "rsync": "rsync",
}


def store_facts(name: str, service: Service) -> dict[str, Any]:
    """What the program of each guest has to know of the store."""
    assert service.ready is not None, name
    said = SWIFT.complete(service.parameters)
    replicator = None
    if (concurrency := said.get("concurrency")) is not None:
        interval_ns = int(said.get("interval_ns") or INTERVAL_NS)
        replicator = {"concurrency": concurrency, "interval_s": max(1, round(interval_ns / 1e9))}
    workers = int(said["workers"])
    return {
        "nodes": len(service.on), "zones": int(said.get("zones") or len(service.on)), "copies": said["copies"],
        "part_power": said["part_power"], "port": service.ready.port, "devices": DISK.format(name),
        "user": SWIFT.name, "workers": 0 if workers == 1 else workers, "replicator": replicator,
        "keys": signed_by(service), "login": login_of(service),
    }  # fmt: skip


def signed_by(service: Service) -> dict[str, str] | None:
    """By which clients sign their requests; None where these are Swift's own."""
    said = SWIFT.complete(service.parameters)
    if said["interface"] != S3:
        return None
    return _keys(said) | {"region": swift_program.REGION}


def login_of(service: Service) -> dict[str, str] | None:
    """The user whom a proxy knows, and that user's key; None where no client has to say who it is."""
    said = SWIFT.complete(service.parameters)
    if said["interface"] != S3 and said[AUTH] == NO_AUTH:
        return None
    user, key = _keys(said).values()
    return {"user": user, "key": key}


def _keys(said: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(said.get(key) or absent) for key, absent in KEYS.items()}


def gives_tokens(service: Service) -> bool:
    """Whether clients log in, and requests bear a token."""
    return login_of(service) is not None and signed_by(service) is None


def _invocation(name: str, service: Service, _: Guest | None = None) -> Invocation:
    words = json.dumps(store_facts(name, service), separators=(",", ":"))
    return Invocation(
        (),
        before=(PYTHON, PROGRAM, words),
        files=Files(FOLDER.format(name), brought(PROGRAM, swift_program.__file__)),
        user=SWIFT.name,
        peers=guests_of(service),
    )


def _client_parameters(plan: Plan, name: str, role: Role) -> dict[str, Any]:
    """What the client of a role has to know: its proxies, and the container of its objects."""
    service = plan.world.services[str(role.parameters["service"])]
    addresses = []
    for guest in service.parameters[PROXIES]:
        end = reached(plan, role, guest)
        if end is None or end.address is None:
            raise GuestError(
                f"roles.{name}", f"{role.from_} does not reach {guest}", "give both IPv4, or both IPv6"
            )
        addresses.append(str(end.address.ip))
    container, keys = quote(folder_of(name, role), safe=""), signed_by(service)
    login = login_of(service) if gives_tokens(service) else None
    path = f"/{container}" if keys else f"{swift_program.account_of(login)}/{container}"
    return {
        SWIFT.name: {
            "proxies": addresses, "path": path, "keys": keys, "login": login,
            "timeout_ns": SWIFT.complete(service.parameters)["timeout_ns"],
        }
    }  # fmt: skip


def _listing(name: str, service: Service) -> Invocation:
    return node_command(_invocation(name, service), swift_program.LIST)


def _wipe(name: str, service: Service) -> Invocation:
    return node_command(_invocation(name, service), swift_program.WIPE)


def _revoking(name: str, service: Service) -> Invocation:
    return node_command(_invocation(name, service), swift_program.REVOKE)


def _names(name: str, service: Service) -> Invocation:
    return node_command(_invocation(name, service), swift_program.NAMES)


def _missed(name: str, service: Service, lost_s: float, lists: Sequence[Any]) -> Invocation:
    others = json.dumps({"began_s": lost_s, "lists": lists}, separators=(",", ":"))
    return node_command(_invocation(name, service), swift_program.MISSED, others=others)


def _roles(plan: Plan, name: str) -> dict[str, str]:
    return {each: folder_of(each, role) for each, role in client_roles(plan, name).items()}


def counted(service: Service, folder: str, lists: Sequence[Any]) -> dict[str, int]:
    """Copies of the objects of a container: good ones are those of the newest version that any node has."""
    wanted, copies, missing = int(SWIFT.complete(service.parameters)["copies"]), 0, 0
    objects = [node.get(folder, {}) for node in lists]
    for key in {key for node in objects for key in node}:
        of_nodes = [node[key] for node in objects if key in node]
        newest = max(version for version, _ in of_nodes)
        good = sum(version == newest and whole for version, whole in of_nodes)
        if newest.endswith(swift_program.CONTENT) and good:
            copies, missing = copies + good, missing + max(0, wanted - good)
    return {"object_copies": copies, "missing_copies": missing}


def _refusals(path: str, _: Service, guest: Guest) -> Iterator[Refusal]:
    yield from refused_guest(path, guest)


def _of_world(plan: Plan, name: str, service: Service) -> Iterator[Refusal]:
    path = f"services.{name}"
    why, instead = "its servers are another user's", "'kind: store', virtlab's reference store"
    guests = [plan.world.guests[each] for each in guests_of(service) if each in plan.world.guests]
    yield from refused(path, guests, PACKAGES, why, instead)
    yield from without_disk(f"{path}.on", plan, service.on, "on which a node keeps objects")
    if kernel() < ATTRIBUTES_SINCE:
        since = ".".join(map(str, ATTRIBUTES_SINCE))
        reason = f"Swift needs attributes of files, which disks in memory have since Linux {since}"
        yield Refusal(f"{path}.kind", reason, "boot a later kernel, or write 'kind: store'")
    yield from losses(plan, name)
    if service.parameters.get("concurrency") is None:
        for call, _ in lost_nodes(plan, name):
            reason = "no replicator runs, so nothing would come back"
            yield Refusal(f"{call}.op", reason, f"write 'concurrency: 1' in 'services.{name}'")
    for each, role in plan.roles.items():
        if role.parameters.get("service") == name and role.from_ in guests_of(service):
            reason = f"{role.from_} is both a client and part of the store '{name}'"
            yield Refusal(f"roles.{each}.from", reason, "name another guest")
    yield from folders_at_once(plan, name)
    if signed_by(service) is not None:
        yield from _without_bucket(plan, name)
    for call, action, _ in calls_of(plan, name):
        if action.op == REVOKE and not gives_tokens(service):
            reason, cure = "no role has a token", f"write '{AUTH}: {TEMPAUTH}' in 'services.{name}'"
            yield Refusal(f"{call}.op", reason, cure)
        elif action.op == REVOKE and action.args:
            yield Refusal(f"{call}.args", "a token is known to all proxies, and to no node", "remove 'args'")


def _without_bucket(plan: Plan, name: str) -> Iterator[Refusal]:
    """Roles whose folder cannot be a bucket of S3."""
    for each, folder in _roles(plan, name).items():
        if not BUCKET.fullmatch(folder):
            reason = f"'{folder}' cannot be a bucket of S3, which has 3 to 63 small letters, digits and '-'"
            cure = f"write e.g. 'folder: {_bucket(folder)}'"
            yield Refusal(f"roles.{each}.folder", reason, cure)


def _bucket(folder: str) -> str:
    """The bucket's name that is most like a folder's."""
    return f"{folder.lower().replace('_', '-').strip('-')}00"[: max(3, len(folder))].rstrip("-")


IMPLEMENTATION = ServiceImplementation(
    _invocation,
    _refusals,
    "see its output among the run's artefacts; a full disk or another program at its ports ends a server",
    _of_world,
    recovery_program.RECOVERED,
    _wipe,
    Missed(_names, lambda _, guest: guest, _missed),
    ready_line=swift_program.READY,
    copies=Copies(_listing, _roles, counted),
    client_parameters=_client_parameters,
    besides={REVOKE: Beside(lambda service: service.parameters[PROXIES], _revoking, "revokes tokens")},
)
