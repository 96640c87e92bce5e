"""Disks of guests: which guests have that of their host, and what no guest of theirs can have."""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue import Platform
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import DiskSpec, HostSpec


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


def _check(at: Steps, spec: DiskSpec, platform: Platform, findings: Findings, takers: str = "") -> None:
    """`takers`: the guests that have it from their host beside guests of other platforms."""
    from virtlab.catalogue.disks import SERVICE, disk_faults, store_faults  # of files with disks alone

    of_platform = list(disk_faults(platform, spec.said, spec.size, spec.medium))
    of_store = store_faults(spec.said, spec.block, on_store=spec.medium == SERVICE)
    for fault in of_platform or of_store:
        steps = (*at, fault.key) if fault.key else at
        what, cure = fault.what, fault.cure
        if takers:
            what += f", and {takers} would have this one from the host"
            cure = "say 'disk' at each guest that can have it, instead of at their host"
        findings.add(steps, what, cure, key=fault.key != "size")
