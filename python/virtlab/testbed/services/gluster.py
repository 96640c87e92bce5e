"""`gluster`: a program in each guest that starts a node's daemon, or mounts the volume of a client.

Gluster's programs are this machine's. A daemon makes attributes that need this machine's root, and a client mounts: so
both run with the rights of the world's root, in namespaces of their guest. What they write is on their guest's disk.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from virtlab.catalogue.services.gluster import ACCESS, CLIENTS, FUSE, GLUSTER, NFS
from virtlab.catalogue.workloads.files import FILES
from virtlab.plan import Guest, Plan, Refusal, Service
from virtlab.planner.guests.stores import guests_of
from virtlab.testbed.services import gluster_program, recovery_program
from virtlab.testbed.services.files import Files
from virtlab.testbed.services.folders import folders_at_once
from virtlab.testbed.services.installed import (
    DISK,
    PYTHON,
    brought,
    has_programs_of_image,
    losses,
    lost_nodes,
    node_command,
    refused,
    refused_guest,
    without_disk,
)
from virtlab.testbed.services.service import Copies, Invocation, Missed, ServiceImplementation

PROGRAM = "gluster_program.py"
FILE_SYSTEMS = Path("/proc/filesystems")
PACKAGES = {"glusterd": "glusterfs-server", "gluster": "glusterfs-cli", "glusterfs": "glusterfs-client"}


def store_facts(name: str, service: Service) -> dict[str, Any]:
    """What the program of each guest has to know of the store."""
    ready = service.ready
    assert ready is not None, name
    return {
        "nodes": len(service.on), "copies": GLUSTER.complete(service.parameters)["copies"], "volume": name,
        "folder": DISK.format(name), "home": DISK.format(f"{name}.node"), "patience_s": ready.timeout_ns / 1e9,
    }  # fmt: skip


def _invocation(name: str, service: Service, _: Guest | None = None) -> Invocation:
    words = json.dumps(store_facts(name, service), separators=(",", ":"))
    return Invocation(
        (),
        before=(PYTHON, PROGRAM, words),
        files=Files(DISK.format(f"{name}.program"), brought(PROGRAM, gluster_program.__file__)),
        peers=guests_of(service),
        trusted=True,
    )


def _listing(name: str, service: Service) -> Invocation:
    return node_command(_invocation(name, service), gluster_program.LIST)


def _wipe(name: str, service: Service) -> Invocation:
    return node_command(_invocation(name, service), gluster_program.WIPE)


def _mirror(service: Service, guest: str) -> str:
    """The first other node of a node's group."""
    wanted, place = int(GLUSTER.complete(service.parameters)["copies"]), service.on.index(guest)
    group = service.on[place - place % wanted :][:wanted]
    return next(each for each in group if each != guest)


def _missed(name: str, service: Service, lost_s: float, _: Sequence[Any]) -> Invocation:
    loss = json.dumps({"began_s": lost_s})
    return node_command(_invocation(name, service), gluster_program.MISSED, loss=loss)


def _roles(plan: Plan, name: str) -> dict[str, str]:
    """Those that work below where the volume is mounted. Each has all of the volume's files."""
    mounted, clients = DISK.format(name), plan.world.services[name].parameters.get(CLIENTS, ())
    found = {}
    for each, role in plan.roles.items():
        directory = str(role.parameters.get(FILES.directory or "", ""))
        if (
            role.workload == FILES.name
            and role.from_ in clients
            and f"{directory}/".startswith(f"{mounted}/")
        ):
            found[each] = mounted
    return found


def counted(service: Service, _: str, lists: Sequence[Any]) -> dict[str, int]:
    """Copies of the files of a volume: good ones have the content that most nodes of a group of mirrors have."""
    wanted, there, missing = int(GLUSTER.complete(service.parameters)["copies"]), 0, 0
    for first in range(0, len(lists), wanted):
        group = lists[first : first + wanted]
        for path in {path for node in group for path in node}:
            contents = Counter(node[path] for node in group if path in node)
            good = contents.most_common(1)[0][1]
            there, missing = there + good, missing + wanted - good
    return {"object_copies": there, "missing_copies": missing}


def _without_nfs() -> str:
    """What this machine lacks of it beside."""
    known = {line.split()[-1] for line in FILE_SYSTEMS.read_text("ascii").splitlines()}
    return "" if NFS in known else f", and this kernel mounts no NFS ({FILE_SYSTEMS})"


def _refusals(path: str, _: Service, guest: Guest) -> Iterator[Refusal]:
    if has_programs_of_image(guest):
        reason = (
            f"it mounts, and marks what it keeps, by powers (CAP_SYS_ADMIN) that no {guest.platform} gets"
        )
        yield Refusal(
            f"{path}.on", reason, "put it on guests that share this machine's files, as a namespace does"
        )
        return
    yield from refused_guest(path, guest)


def _of_world(plan: Plan, name: str, service: Service) -> Iterator[Refusal]:
    path = f"services.{name}"
    why, instead = "Gluster mounts, and marks what it keeps", f"a role of '{FILES.name}' without it"
    guests = [plan.world.guests[each] for each in guests_of(service) if each in plan.world.guests]
    yield from refused(path, guests, PACKAGES, why, instead)
    yield from without_disk(f"{path}.on", plan, service.on, "on which a node keeps files")
    yield from losses(plan, name)
    yield from folders_at_once(plan, name)
    if GLUSTER.complete(service.parameters)[ACCESS] == NFS:
        reason = f"virtlab mounts Gluster's volumes by FUSE alone{_without_nfs()}"
        yield Refusal(f"{path}.{ACCESS}", reason, f"write '{ACCESS}: {FUSE}', or remove it")
    if GLUSTER.complete(service.parameters)["copies"] == 1:
        for call, _ in lost_nodes(plan, name):
            reason = "no other node has a copy, so nothing would come back"
            yield Refusal(f"{call}.op", reason, f"write 'copies: 2' in 'services.{name}'")
    clients = service.parameters.get(CLIENTS, ())
    yield from without_disk(f"{path}.{CLIENTS}", plan, clients, "beside which the volume is mounted")


IMPLEMENTATION = ServiceImplementation(
    _invocation,
    _refusals,
    "see its output among the run's artefacts; a full disk ends a brick",
    _of_world,
    recovery_program.RECOVERED,
    _wipe,
    Missed(None, _mirror, _missed),
    ready_line=gluster_program.READY,
    copies=Copies(_listing, _roles, counted),
)
