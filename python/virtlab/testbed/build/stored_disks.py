"""Disks on a store: how the leader asks that, and folders of guests that share this machine's kernel, which it mounts.

A folder on a store is a file system by FUSE, which a thread of the leader serves. Nothing but the thread holds what was
written before the store has answered, so a server waits for each of its writes.
"""

from __future__ import annotations

import os
import platform
import zlib
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_interface
from typing import Any

from virtlab.agents.requests.leader import Disks, Mount
from virtlab.catalogue import write_platform
from virtlab.catalogue.disks import FOLDER
from virtlab.catalogue.services.demand_server import DEMAND_SERVER
from virtlab.catalogue.services.store import MULTICAST
from virtlab.catalogue.workloads.request_response import REQUEST_RESPONSE
from virtlab.errors import MachineError
from virtlab.metrics.disks import disk_of, disks_of
from virtlab.plan import Disk, Observer, Plan, Refusal, Service
from virtlab.planner.guests.disks import is_stored_folder
from virtlab.planner.guests.stored_disks import as_roles
from virtlab.planner.guests.stores import clients, guests_of, peer_parameters, reached
from virtlab.planner.mobility.copying import stored_disks
from virtlab.testbed.build.machine import kernel
from virtlab.testbed.build.pools import TOGETHER
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader.control import Control, RefusedError
from virtlab.testbed.steps.names import host_namespace

DEVICE = "/dev/fuse"
BUFFERED = "buffered"
LEAST_KERNEL = (6, 1)  # which makes files without a name by FUSE
INSTEAD = f"{write_platform(lambda each: 'rate' in each.disk)} for the guest, or 'medium: memory'"


def disk_entity(guest: str) -> str:
    """What the leader calls the disk of a guest, which is no network."""
    return f"{TOGETHER}{disk_of(guest)}"


def folders_on_stores(plan: Plan, among: Iterable[str] | None = None) -> dict[str, Disk]:
    """Guest -> its disk, of those (among some) whose disk is a folder on a store."""
    names = plan.world.guests if among is None else set(among)
    return {
        name: disk
        for name, disk in stored_disks(plan).items()
        if name in names and is_stored_folder(plan.world.guests[name])
    }


def mount(control: Control, plan: Plan, lowered: Lowered, guests: Iterable[str], observe: Observer) -> None:
    """Gives some of the guests their folders, before anything is started in them. What is started there sees what is
    mounted in the world by now, and nothing that is mounted later. MachineError where the kernel gives none.
    """
    for name in folders_on_stores(plan, guests):
        observe.progress("mount disks on stores")
        try:
            control.call(Mount(lowered.guests[name], on_store(name, plan)))
        except RefusedError as error:
            cure = f"see who may mount file systems by FUSE here, or {INSTEAD}"
            raise MachineError(f"guests.{name}.disk", error.what, cure) from error


def served(control: Control, plan: Plan, guests: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Guest -> its folder on a store as it is served now, of some. MachineError where one is so no more."""
    folders = folders_on_stores(plan, guests)
    if not folders:
        return {}
    disks = control.call(Disks())["disks"]
    for error in unmounted(folders, disks):
        raise error
    told = {each["name"]: each for each in disks}
    return {name: dict(told[disk_entity(name)]) for name in folders}


def unmounted(folders: Iterable[str], disks: Iterable[Mapping[str, Any]]) -> Iterator[MachineError]:
    """One for each of these guests whose folder is mounted no more, by what the leader says of all disks."""
    mounted = {each["name"] for each in disks if each.get("mounted")}
    for name in folders:
        if disk_entity(name) not in mounted:
            yield MachineError(
                f"guests.{name}.disk",
                f"it is mounted no more at {FOLDER}, and what was written there since is not on it",
                "see what in the guest, or on this machine, unmounts it",
            )


def folder_refusals(plan: Plan, *, inside: bool) -> Iterator[Refusal]:
    """Why folders cannot be on a store here. `inside`: the world would be in a laboratory machine."""
    folders = folders_on_stores(plan)
    if not folders:
        return
    path = f"guests.{next(iter(folders))}.disk.medium"
    if inside:
        reason = "the kernel of a laboratory machine has no FUSE"
        yield Refusal(path, reason, f"run without '--in', or {INSTEAD}")
    elif (why := _no_device()) is not None:
        yield Refusal(path, *why)
    for name, service in plan.world.services.items():
        on = next((guest for guest in service.on if guest in folders), None)
        if on is not None and service.kind == DEMAND_SERVER.name:
            yield from _buffered(f"services.{name}", on, service.parameters)
    for name, role in plan.roles.items():
        if (
            role.workload == REQUEST_RESPONSE.name
            and role.to in folders
            and not role.parameters.get("service")
        ):
            yield from _buffered(f"roles.{name}", str(role.to), role.parameters)


def _no_device() -> tuple[str, str] | None:
    """Why this machine mounts nothing by FUSE, and the cure."""
    if kernel() < LEAST_KERNEL:
        least = ".".join(map(str, LEAST_KERNEL))
        return f"a folder on a store needs Linux {least} or later, and this is {platform.release()}", INSTEAD
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        reason = f"a folder on a store is mounted by FUSE, and {DEVICE} cannot be opened: {error.strerror}"
        return reason, f"load the kernel module 'fuse' and let this user open {DEVICE}, or {INSTEAD}"
    return None


def _buffered(path: str, guest: str, parameters: Mapping[str, Any]) -> Iterator[Refusal]:
    if parameters.get("write_bytes") and parameters.get("write_mode", BUFFERED) == BUFFERED:
        reason = f"the disk of {guest} is a folder on a store, for which no kernel buffers writes"
        yield Refusal(f"{path}.write_mode", reason, "write 'write_mode: fsync'")


def on_store(name: str, plan: Plan) -> dict[str, Any]:
    """The disk of a guest as the leader serves it: a client of the store, in the network of its host, and whom that
    asks.
    """
    guest = plan.world.guests[name]
    disk, own = guest.disk, plan.world.hosts[guest.host].vnic
    assert disk is not None, name
    assert own is not None, name
    asked = {
        "number": list(stored_disks(plan)).index(name), "network": host_namespace(guest.host),
        "local": str(ip_interface(own.ip[0]).ip), "port": plan.world.services[str(disk.service)].ready.port,  # type: ignore[union-attr]
        "asked": _client_parameters(plan, name, disk),
    }  # fmt: skip
    return {
        "name": disk_entity(name), "together": f"{TOGETHER}{disks_of(guest.host)}", **asked,
        "size_bytes": disk.size_bytes, "service": disk.service, "block_bytes": disk.block_bytes,
    }  # fmt: skip


def _client_parameters(plan: Plan, guest: str, disk: Disk) -> dict[str, Any]:
    """What the client of a guest's disk has to know of its store."""
    own = str(disk.service)
    service = plan.world.services[own]
    role = as_roles(plan, own)[guest]
    ends = [reached(plan, role, part) for part in guests_of(service)]
    place = list(clients(plan, own)).index(f"guests.{guest}.disk")
    return {
        "me": len(ends) + place, "nodes": len(service.on), "folder": 0, "parameters": peer_parameters(service),
        "peers": [str(end.address.ip) for end in ends if end is not None and end.address is not None],
        **asking_group(own, service),
    }  # fmt: skip


def asking_group(name: str, service: Service) -> dict[str, str]:
    """To which questions for all nodes go: an address of the store's name, below those of one organisation (RFC
    2365).
    """
    if peer_parameters(service)["lookup"] != MULTICAST:
        return {}
    number = zlib.crc32(name.encode()) % 0xFFFE + 1
    return {"group": f"239.192.{number >> 8}.{number & 255}"}
