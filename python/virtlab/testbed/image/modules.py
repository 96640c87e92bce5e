"""Kernel modules in the order in which they can be loaded.

A module names the modules whose symbols it uses (`depends=`), and those that it works better or only with (`softdep=`,
"pre: crc32c"); the latter may be aliases. `modprobe` of busybox reads both from tables that a distribution's package
leaves to be made, so they are made here.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from virtlab.testbed.image.elf import module_facts

SUFFIXES = (".ko", ".ko.xz")


def plain(name: str) -> str:
    """A module's name as the kernel has it: the file's, with '_' for '-'.

    >>> plain("kernel/drivers/char/hw_random/virtio-rng.ko.xz")
    'virtio_rng'
    """
    return Path(name).name.partition(".ko")[0].replace("-", "_")


def content_of(path: Path) -> bytes:
    """A module, unpacked if need be. OSError when it cannot be read."""
    content = path.read_bytes()
    return lzma.decompress(content) if path.name.endswith(".xz") else content


def needs(content: bytes) -> list[str]:
    """Modules that must be there before this one."""
    depends = module_facts(content).get("depends", [""])[0]
    return [plain(name) for name in depends.split(",") if name]


def aliases(content: bytes) -> list[str]:
    """Other names under which it is requested."""
    return module_facts(content).get("alias", [])


def closure(wanted: Iterable[str], read: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """Modules that can be read, with all that they need, each after what it needs. What cannot be read is left out."""
    found: dict[str, bytes] = {}
    missing: set[str] = set()

    def visit(name: str) -> None:
        if name in found or name in missing:
            return
        content = read(name)
        if content is None:
            missing.add(name)  # built into the kernel, or of another flavour
            return
        for other in needs(content):
            visit(other)
        found[name] = content

    for name in wanted:
        visit(name)
    return found


def tables(modules: Mapping[str, bytes]) -> tuple[str, str]:
    """`modules.dep` and `modules.alias` of modules in their order of loading.

    A line of the first names a file and all that it needs, what is needed first at the end.
    """
    needed: dict[str, list[str]] = {}
    for name, content in modules.items():
        direct = [other for other in needs(content) if other in modules]
        every = list(dict.fromkeys([*direct, *(deep for other in direct for deep in needed[other])]))
        order = list(modules)
        needed[name] = sorted(every, key=order.index, reverse=True)
    dependencies = "".join(
        f"{name}.ko:{''.join(f' {other}.ko' for other in others)}\n" for name, others in needed.items()
    )
    names = "".join(
        f"alias {alias} {name}\n" for name, content in modules.items() for alias in aliases(content)
    )
    return dependencies, names
