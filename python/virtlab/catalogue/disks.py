"""What a disk of a guest can have, by its platform: the one rule that files and Plans are checked by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from virtlab.catalogue.declaration import Platform
from virtlab.catalogue.platforms import PLATFORMS
from virtlab.units import PAGE_BYTES, SECTOR_BYTES, Size


@dataclass(frozen=True, slots=True)
class DiskFault:
    """Something of a disk that no disk of the platform has."""

    key: str  # of the disk; "": the platform has none
    what: str
    cure: str


def disk_faults(platform: Platform, said: Iterable[str], size_bytes: int) -> Iterator[DiskFault]:
    """All that is wrong with a disk of which the keys `said` (those with another value than if absent) are given."""
    if not platform.disk:
        what = f"guests of platform {platform.name} have no disk of their own"
        yield DiskFault("", what, f"remove it, or write 'platform: {_all_with([])}'")
        return
    folders = f"disks of platform {platform.name} are folders in memory"
    for key in platform.lacks_of_disk(said):
        able = f"write 'platform: {_all_with([key])}'"
        if key == "medium":
            yield DiskFault(key, folders, f"write 'memory', or {able}")
        else:
            yield DiskFault(key, f"{folders}, and have no {key.replace('_', ' ')}", f"remove it, or {able}")
    whole_bytes, unit = (PAGE_BYTES, "pages") if platform.disk_is_folder else (SECTOR_BYTES, "sectors")
    if size_bytes % whole_bytes:
        larger_bytes = -(-size_bytes // whole_bytes) * whole_bytes
        what = f"a disk of {Size(size_bytes)} is no whole number of {unit} of {whole_bytes} B"
        yield DiskFault("size", what, f"write e.g. '{larger_bytes} B'")


def _all_with(keys: Sequence[str]) -> str:
    """Platforms whose guests can have such a disk."""
    return " | ".join(name for name, each in PLATFORMS.items() if each.disk and not each.lacks_of_disk(keys))
