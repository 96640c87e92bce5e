"""`gluster`: a program in each guest that starts a node's daemon, or mounts the volume of a client.

Gluster's programs are this machine's. A daemon makes attributes that need this machine's root, and a client mounts: so both
run with the rights of the world's root, in namespaces of their guest. What they write is on their guest's disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from virtlab.catalogue.services.gluster import CLIENTS, GLUSTER
from virtlab.catalogue.workloads.files import FILES
from virtlab.plan import Guest, Plan, Refusal, Service
from virtlab.planner.guests.stores import guests_of
from virtlab.testbed.services import gluster_program
from virtlab.testbed.services.files import Files
from virtlab.testbed.services.installed import (
    DISK,
    PYTHON,
    refused,
    refused_guest,
    text_of,
    without_disk,
)
from virtlab.testbed.services.service import Invocation, ServiceImplementation

PROGRAM = "gluster_program.py"
PACKAGES = {"glusterd": "glusterfs-server", "gluster": "glusterfs-cli", "glusterfs": "glusterfs-client"}


def told(name: str, service: Service) -> dict[str, Any]:
    """What the program of each guest has to know of the store."""
    ready = service.ready
    assert ready is not None, name
    return {
        "nodes": len(service.on), "copies": GLUSTER.complete(service.parameters)["copies"], "volume": name,
        "folder": DISK.format(name), "home": DISK.format(f"{name}.node"), "patience_s": ready.timeout_ns / 1e9,
    }  # fmt: skip


def _invocation(name: str, service: Service, _: Guest) -> Invocation:
    words = json.dumps(told(name, service), separators=(",", ":"))
    return Invocation(
        (),
        before=(PYTHON, PROGRAM, words),
        files=Files(DISK.format(f"{name}.program"), {PROGRAM: text_of(gluster_program.__file__)}),
        peers=guests_of(service),
        trusted=True,
    )


def _refusals(path: str, _: Service, guest: Guest) -> Iterator[Refusal]:
    yield from refused_guest(path, guest)


def _of_world(plan: Plan, name: str, service: Service) -> Iterator[Refusal]:
    path = f"services.{name}"
    why, instead = "Gluster mounts, and marks what it keeps", f"a role of '{FILES.name}' without it"
    yield from refused(path, PACKAGES, why, instead)
    yield from without_disk(f"{path}.on", plan, service.on, "on which a node keeps files")
    clients = service.parameters.get(CLIENTS, ())
    yield from without_disk(f"{path}.{CLIENTS}", plan, clients, "beside which the volume is mounted")


IMPLEMENTATION = ServiceImplementation(
    _invocation,
    _refusals,
    "see its output among the run's artefacts; a full disk ends a brick",
    _of_world,
    ready_line=gluster_program.READY,
)
