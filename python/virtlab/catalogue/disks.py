"""What a disk of a guest can have, by its platform: the one rule that files and Plans are checked by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from virtlab.catalogue.declaration import Platform
from virtlab.catalogue.platforms import write_platform
from virtlab.units import PAGE_BYTES, SECTOR_BYTES, Size, nearest

FOLDER = "/var/tmp"  # noqa: S108 - where a guest's disk is, if that is a folder
SERVICE = "service"  # the medium of a disk whose blocks are objects of a store
FILE = "file"  # of a disk that takes the time of a model
BLOCK_MIN_BYTES, BLOCK_BYTES, BLOCK_MAX_BYTES = 64 << 10, 64 << 10, 4 << 20
OF_STORE = ("service", "block")
OF_MEDIUM = ("write_cache", "rate", "latency")


@dataclass(frozen=True, slots=True)
class DiskFault:
    """Something of a disk that no disk of the platform has."""

    key: str  # of the disk; "": the platform has none
    what: str
    cure: str


def is_on_disk(directory: str) -> bool:
    """Whether a directory is the guest's disk, where that is a folder, or in it.

    >>> [is_on_disk(path) for path in ("/var/tmp", "/var/tmp/a", "/var/tmpa", "/var")]
    [True, True, False, False]
    """
    return directory == FOLDER or directory.startswith(f"{FOLDER}/")


def disk_faults(
    platform: Platform, said: Iterable[str], size_bytes: int, medium: str | None
) -> Iterator[DiskFault]:
    """All that is wrong with a disk of which the keys `said` (those with another value than if absent) are given."""
    if not platform.disk:
        what = f"guests of platform {platform.name} have no disk of their own"
        yield DiskFault("", what, f"remove it, or {_with([])}")
        return
    folders = f"disks of platform {platform.name} are folders in memory"
    lacking = platform.lacks_of_disk(said)
    if medium == FILE and platform.disk_is_folder and "medium" not in lacking:
        lacking = ["medium", *lacking]
    for key in lacking:
        if key in OF_STORE and "medium" in lacking:
            continue  # its medium says it
        # Where bytes can be in a file, a disk has all that it can have.
        able = _with(["rate"] if key == "medium" and medium == FILE else [key])
        if key == "medium":
            yield DiskFault(key, folders, f"write 'memory', or {able}")
        else:
            yield DiskFault(key, f"{folders}, and have no {key.replace('_', ' ')}", f"remove it, or {able}")
    whole_bytes, unit = (PAGE_BYTES, "pages") if platform.disk_is_folder else (SECTOR_BYTES, "sectors")
    if size_bytes % whole_bytes:
        larger_bytes = -(-size_bytes // whole_bytes) * whole_bytes
        what = f"a disk of {Size(size_bytes)} is not a whole number of {unit} of {whole_bytes} B"
        yield DiskFault("size", what, f"write e.g. '{larger_bytes} B'")


def store_faults(said: Iterable[str], block_bytes: int | None, *, on_store: bool) -> Iterator[DiskFault]:
    """What is wrong with a disk in which keys of a disk on a store, and of any other, are said together."""
    keys = list(said)
    for key in OF_STORE if not on_store else ():
        if key in keys:
            yield DiskFault(
                key, f"'{key}' is of disks on a store", f"write 'medium: {SERVICE}', or remove it"
            )
    for key in OF_MEDIUM if on_store else ():
        if key in keys:
            cure = "remove it, and say it of the disks of the store's nodes"
            yield DiskFault(
                key,
                f"a disk on a store takes the time of the store, and has no {key.replace('_', ' ')}",
                cure,
            )
    if on_store and "service" not in keys:
        yield DiskFault(
            "medium", "it does not say which service keeps its blocks", "write e.g. 'service: depot', too"
        )
    if block_bytes is not None and not (BLOCK_MIN_BYTES <= block_bytes <= BLOCK_MAX_BYTES):
        what = f"a block of {Size(block_bytes)} is not of 64 KiB to 4 MiB"
        yield DiskFault("block", what, "write e.g. '64 KiB'")
    elif block_bytes is not None and block_bytes % SECTOR_BYTES:
        what = f"a block of {Size(block_bytes)} is not a whole number of sectors of {SECTOR_BYTES} B"
        yield DiskFault("block", what, f"write e.g. '{-(-block_bytes // SECTOR_BYTES) * SECTOR_BYTES} B'")


def store_fault(
    guest: str, service: str, kinds: Mapping[str, str], parts: Mapping[str, Collection[str]]
) -> DiskFault | None:
    """Why the disk of a guest cannot be on a service. `kinds`: of services; `parts`: by store, its nodes and
    proxies.
    """
    stores = list(parts)
    if service not in kinds:
        cure = (
            nearest(service, stores) or f"there are {', '.join(stores)}"
            if stores
            else "add one with 'kind: store'"
        )
        return DiskFault("service", f"there is no service '{service}'", cure)
    if service not in stores:
        cure = (
            f"name one of {', '.join(stores)}"
            if stores
            else "add a service with 'kind: store', and name that"
        )
        return DiskFault("service", f"'{service}' is of kind {kinds[service]}, which keeps no blocks", cure)
    for name in stores:
        if guest in parts[name]:
            what = f"{guest} is part of the store '{name}', whose objects cannot lie on a disk that is on a store itself"
            return DiskFault("medium", what, "write 'medium: memory' or 'medium: file' for its nodes")
    return None


def _with(keys: Sequence[str]) -> str:
    """The cure that names the platforms whose guests can have such a disk."""
    return write_platform(lambda each: bool(each.disk) and not each.lacks_of_disk(keys))
