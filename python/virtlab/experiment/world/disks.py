"""Disks of guests: which guests can have one, what of it, and of which size."""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.declaration import Platform
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import GuestSpec
from virtlab.units import PAGE_BYTES, SECTOR_BYTES, Size


def check_disk(at: Steps, platforms: Sequence[Platform], spec: GuestSpec, findings: Findings) -> None:
    """Adds every mistake about the disk that a guest has, or that guests of these platforms have from their host."""
    if spec.disk is None:
        return
    named = " and ".join(platform.name for platform in platforms)
    able = [platform for platform in platforms if not platform.lacks_of_disk(spec.disk.said)]
    if not any(platform.disk for platform in platforms):
        what = f"guests of platform {named} have no disk of their own"
        findings.add((*at, "disk"), what, f"remove it, or write 'platform: {_all_with([])}'", key=True)
    elif not able:
        lacking = [key for key in spec.disk.said if not any(key in platform.disk for platform in platforms)]
        for key in lacking:
            what = f"disks of platform {named} are folders in memory, and have no {key.replace('_', ' ')}"
            cure = f"remove it, or write 'platform: {_all_with([key])}'"
            if key == "medium":
                what, cure = (
                    f"disks of platform {named} are folders in memory",
                    f"write 'memory', or {cure[11:]}",
                )
            findings.add((*at, "disk", key), what, cure, key=True)
    whole_bytes = PAGE_BYTES if able and all(one.disk_is_folder for one in able) else SECTOR_BYTES
    if spec.disk.size % whole_bytes:
        whole = Size(-(-spec.disk.size // whole_bytes) * whole_bytes)
        unit = "pages" if whole_bytes == PAGE_BYTES else "sectors"
        what = f"a disk of {Size(spec.disk.size)} is no whole number of {unit} of {whole_bytes} B"
        findings.add((*at, "disk", "size"), what, f"write e.g. '{whole.size_bytes} B'")


def _all_with(keys: Sequence[str]) -> str:
    """Platforms whose guests can have such a disk."""
    return " | ".join(name for name, each in PLATFORMS.items() if each.disk and not each.lacks_of_disk(keys))
