"""Disks of guests: which guests have that of their host, and what no guest of theirs can have."""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue import Platform
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import DiskSpec, HostSpec
from virtlab.experiment.work.services import ServiceSpec


def check_disks(
    at: Steps, host: HostSpec, own: Platform, of_guests: Mapping[str, Platform], findings: Findings
) -> None:
    """Adds every mistake about the disks of a host's guests, each where the disk is said.

    `own` is the host's platform, and `of_guests` are those of its guests. A guest that says nothing else has the disk
    of its host, and has to be able to have all of it: else it would be without, in silence.
    """
    for name, guest in host.guests.items():
        if guest.disk is not None:
            _check((*at, "guests", name, "disk"), guest.disk, of_guests[name], findings)
    if host.disk is None:
        return
    takers = {name: of_guests[name] for name, guest in host.guests.items() if guest.disk is None}
    platforms = {platform.name: platform for platform in takers.values()}
    if len(platforms) < 2:
        _check((*at, "disk"), host.disk, next(iter(platforms.values()), own), findings)
        return
    for each in platforms.values():
        alike = " and ".join(f"'{name}'" for name, platform in takers.items() if platform is each)
        _check((*at, "disk"), host.disk, each, findings, takers=alike)


def check_stored_disks(
    hosts: Mapping[str, HostSpec], services: Mapping[str, ServiceSpec], findings: Findings
) -> None:
    """Adds every disk that is on a service which is no store, or in a guest of one, each where it is said."""
    said: dict[Steps, tuple[DiskSpec, list[str]]] = {}
    for host, each in hosts.items():
        for name, guest in each.guests.items():
            disk = guest.disk or each.disk
            if disk is not None and disk.service is not None:
                own = () if guest.disk is None else ("guests", name)
                said.setdefault(("hosts", host, *own, "disk"), (disk, []))[1].append(f"{host}.{name}")
    if not said:
        return
    from virtlab.catalogue.disks import store_fault  # of files with such disks alone

    kinds = {name: service.kind for name, service in services.items()}
    parts = {
        name: (*service.on, *service.parameters.get(service.declaration.beside or "", ()))
        for name, service in services.items()
    }
    for at, (disk, takers) in said.items():
        if disk.service not in kinds and findings.declares("services", disk.service):
            continue  # its own mistake says what to mend
        faults = (store_fault(taker, str(disk.service), kinds, parts) for taker in takers)
        if (fault := next((each for each in faults if each is not None), None)) is not None:
            findings.add((*at, fault.key), fault.what, fault.cure)


def _check(at: Steps, spec: DiskSpec, platform: Platform, findings: Findings, takers: str = "") -> None:
    """`takers`: the guests that have it from their host beside guests of other platforms."""
    from virtlab.catalogue.disks import SERVICE, disk_faults, store_faults  # of files with disks alone

    of_platform = list(disk_faults(platform, spec.said, spec.size))
    of_store = store_faults(spec.said, spec.block, on_store=spec.medium == SERVICE)
    for fault in of_platform or of_store:
        steps = (*at, fault.key) if fault.key else at
        what, cure = fault.what, fault.cure
        if takers:
            what += f", and {takers} would have this one from the host"
            cure = "say 'disk' at each guest that can have it, instead of at their host"
        findings.add(steps, what, cure, key=fault.key != "size")
