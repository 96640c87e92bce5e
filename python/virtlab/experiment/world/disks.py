"""Disks of guests: which guests can have one, and of which size."""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.declaration import Platform
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import GuestSpec
from virtlab.units import SECTOR_BYTES, Size


def check_disk(at: Steps, platforms: Sequence[Platform], spec: GuestSpec, findings: Findings) -> None:
    """Adds every mistake about the disk that a guest has, or that guests of these platforms have from their host."""
    if spec.disk is None:
        return
    if not any(platform.disk for platform in platforms):
        able = " | ".join(name for name, platform in PLATFORMS.items() if platform.disk)
        what = f"guests of platform {' and '.join(platform.name for platform in platforms)} have no disk of their own"
        findings.add((*at, "disk"), what, f"remove it, or write 'platform: {able}'", key=True)
    if spec.disk.size % SECTOR_BYTES:
        whole = Size(-(-spec.disk.size // SECTOR_BYTES) * SECTOR_BYTES)
        what = f"a disk of {Size(spec.disk.size)} is no whole number of sectors of {SECTOR_BYTES} B"
        findings.add((*at, "disk", "size"), what, f"write e.g. '{whole.size_bytes} B'")
