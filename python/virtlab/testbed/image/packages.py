"""Programs from a distribution's packages with all libraries that they need, unpacked and not installed.

A program's dynamic section names libraries (`libxenlight.so.4.17`), not packages. Packages that a package depends on
hold them: so those whose names begin like a library's are fetched, one generation after the other, until nothing is
lacking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.image import elf, kernels

GENERATIONS_MAX = 6
_LIBRARIES = ("lib", "zlib")
LOADED_LATER = {"libc.so.6": ("libgcc_s.so.1",)}  # the C library loads it when a thread is cancelled


def fetch(names: Iterable[str], place: Path) -> dict[str, Path]:
    """Packages by name, downloaded by apt. MachineError when one cannot be had."""
    wanted = sorted(names)
    place.mkdir(parents=True, exist_ok=True)
    if wanted:
        kernels.run(["apt-get", "download", "-q", *wanted], place, "apt")
    return {name: next(place.glob(f"{name}_*.deb")) for name in wanted}


def unpack(package: Path, place: Path) -> None:
    """Puts a package's files below a folder."""
    kernels.run(["dpkg-deb", "-x", str(package), str(place)], place.parent, "dpkg")


def version_of(package: Path) -> str:
    """A package's version."""
    return kernels.run(["dpkg-deb", "-f", str(package), "Version"], package.parent, "dpkg").strip()


def depends(package: Path) -> list[str]:
    """Libraries' packages that a package depends on; of alternatives the first.

    MachineError when the file is no package.
    """
    said = kernels.run(["dpkg-deb", "-f", str(package), "Pre-Depends", "Depends"], package.parent, "dpkg")
    return libraries_in(said)


def libraries_in(paragraph: str) -> list[str]:
    """Names of libraries' packages in fields of a package.

    >>> libraries_in("Pre-Depends: libc6 (>= 2.36)\\nDepends: libxenmisc4.17 (= 4.17.7), python3:any, zlib1g | zlib2\\n")
    ['libc6', 'libxenmisc4.17', 'zlib1g']
    """
    fields = [line.partition(":")[2] if not line.startswith(" ") else line for line in paragraph.splitlines()]
    names = [
        entry.split("|")[0].split("(")[0].strip().partition(":")[0] for entry in ",".join(fields).split(",")
    ]
    return [name for name in names if name.startswith(_LIBRARIES)]


def lacking(
    programs: Iterable[Path], find: Callable[[str], Path | None]
) -> tuple[dict[str, Path], list[str]]:
    """Libraries that programs need, and what those need: name -> file, and names of those that cannot be found."""
    found: dict[str, Path] = {}
    absent: list[str] = []
    waiting = [(path, name) for path in programs for name in elf.needed(path.read_bytes())]
    while waiting:
        _, name = waiting.pop()
        if name in found or name in absent:
            continue
        path = find(name)
        if path is None:
            absent.append(name)
            continue
        found[name] = path
        more = [*elf.needed(path.read_bytes()), *LOADED_LATER.get(name, ())]
        waiting += [(path, other) for other in more]
    return found, absent


def gather(
    first: dict[str, Path], programs: Callable[[Path], list[Path]], work: Path
) -> tuple[list[Path], dict[str, Path]]:
    """Unpacks packages and those of their libraries; the programs, and the libraries that they need by name.

    `programs` says where they are below the folder that all is unpacked to. MachineError when a library is nowhere.
    """
    root = work / "root"
    root.mkdir()
    seen: set[str] = set()
    generation = first
    for number in range(GENERATIONS_MAX):
        for package in generation.values():
            unpack(package, root)
        seen |= set(generation)
        wanted = programs(root)
        libraries, absent = lacking(wanted, lambda name: _library(root, name))
        if not absent:
            return wanted, libraries
        further = {name for package in generation.values() for name in depends(package)} - seen
        generation = fetch(further, work / f"generation-{number}")
        if not generation:
            break
    what = f"no package that these depend on holds {', '.join(sorted(absent))}"
    raise MachineError("image", what, "run `apt-get update`")


def _library(root: Path, name: str) -> Path | None:
    for folder in ("usr/lib", "lib"):
        for path in sorted((root / folder).glob(f"*-linux-gnu*/{name}")):
            if path.exists():
                return path.resolve()
    return None
