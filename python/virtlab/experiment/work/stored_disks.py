"""Disks of guests on a store: do their services exist, and are these stores that lie elsewhere?"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import DiskSpec, HostSpec
from virtlab.experiment.work.services import ServiceSpec


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
        name: (*service.on, *service.parameters.get(service.declaration.more_guests or "", ()))
        for name, service in services.items()
        if service.declaration.whole is not None
    }
    for at, (disk, takers) in said.items():
        if disk.service not in kinds and findings.declares("services", disk.service):
            continue  # its own mistake says what to mend
        faults = (store_fault(taker, str(disk.service), kinds, parts) for taker in takers)
        if (fault := next((each for each in faults if each is not None), None)) is not None:
            findings.add((*at, fault.key), fault.what, fault.cure)
