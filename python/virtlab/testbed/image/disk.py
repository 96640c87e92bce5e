"""A disk image that a virtual machine boots: where it lies, what it is, and how to tell it from another. It is only read.

What it is shows in its first bytes, not in its name: many a `.img` is of the kind qcow2 (header: docs/interop/qcow2.txt of
QEMU). A raw disk that a BIOS boots carries its signature at the end of the first sector, one for UEFI alone is partitioned
by GPT and has it too, for the sake of old programs.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from virtlab.errors import MachineError

SECTOR_BYTES = 512
HEAD_BYTES = 64 << 20
TAIL_BYTES = 1 << 20
_QCOW2 = b"QFI\xfb"
_SIGNATURE = b"\x55\xaa"
_QCOW2_HEAD = struct.Struct(">4sIQIIQ")  # magic, version, place and length of the base's name, cluster, size


@dataclass(frozen=True, slots=True)
class Disk:
    """An image. `format`: raw or qcow2; `size_bytes`: of the disk that a machine sees; `base`: what it names as its base."""

    path: Path
    format: str
    size_bytes: int
    base: str | None = None

    def drive(self, *, alone: bool = False) -> list[str]:
        """QEMU's words for it: what the machine writes goes to a file without a name that ends with the process.

        Where that file finds no more room, the machine is told of an error, as by a disk that fails. `alone`: nothing else
        is tried at boot (UEFI would ask every network first).
        """
        words = f"file={escaped(self.path)},format={self.format},if={{}},snapshot=on,werror=report"
        if not alone:
            return ["-drive", words.format("virtio")]
        device = ["-device", "virtio-blk-pci,drive=disk,bootindex=1", "-boot", "strict=on"]
        return ["-drive", words.format("none,id=disk"), *device]

    def facts(self) -> dict[str, object]:
        """Which it is, for the record of a run."""
        return {
            "image": self.path.name,
            "image_format": self.format,
            "image_base": self.base,
            "disk_bytes": self.size_bytes,
            "image_sha256": fingerprint(self.path),
        }


def look(where: str, name: str) -> Disk:
    """The image of a path: absolute, of the home folder (`~/`), or from the working folder. MachineError when it is none."""
    path = Path(os.path.abspath(Path(name).expanduser()))  # noqa: PTH100 - `resolve` would follow links, and show others
    try:
        with path.open("rb") as file:
            head = file.read(SECTOR_BYTES)
            size_bytes = file.seek(0, os.SEEK_END)
            base = _base(head, file)
    except FileNotFoundError:
        cure = "name the image by its path from the working folder, by '~/...' or '/...'"
        raise MachineError(where, f"there is no disk image {path}", cure) from None
    except OSError as error:
        raise MachineError(where, f"{path} cannot be read ({error.strerror})", "name a disk image") from error
    if head.startswith(_QCOW2) and len(head) >= _QCOW2_HEAD.size:
        return Disk(path, "qcow2", _QCOW2_HEAD.unpack_from(head)[5], base)
    if len(head) == SECTOR_BYTES and head.endswith(_SIGNATURE):
        return Disk(path, "raw", size_bytes)
    what = (
        f"{path} is no disk to boot: it is not of the kind qcow2, and its first sector has no boot signature"
    )
    raise MachineError(
        where, what, "give an image of a whole disk, raw or qcow2 (`qemu-img convert -O qcow2` makes one)"
    )


def _base(head: bytes, file: BinaryIO) -> str | None:
    if not head.startswith(_QCOW2) or len(head) < _QCOW2_HEAD.size:
        return None
    _, _, place, length, _, _ = _QCOW2_HEAD.unpack_from(head)
    if place == 0 or not 0 < length <= 1023:
        return None
    return os.pread(file.fileno(), length, place).decode(errors="replace")


def escaped(path: Path) -> str:
    """A path within a list of QEMU's options.

    >>> escaped(Path("/a,b"))
    '/a,,b'
    """
    return str(path).replace(",", ",,")


def fingerprint(path: Path) -> str:
    """SHA-256 of an image; of a large one, of its ends, size and time, which is enough to tell two apart."""
    found = hashlib.sha256()
    state = path.stat()
    with path.open("rb") as file:
        found.update(file.read(HEAD_BYTES))
        if state.st_size > HEAD_BYTES:
            found.update(f"{state.st_size} {state.st_mtime_ns}".encode())
            file.seek(-TAIL_BYTES, os.SEEK_END)
            found.update(file.read())
    return found.hexdigest()
