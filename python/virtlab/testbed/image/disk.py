"""A disk image that a virtual machine boots: where it lies, what it is, and how to distinguish it from another. It is
only read.

What it is shows in its first bytes, not in its name: many a `.img` is of the kind qcow2 (header:
docs/interop/qcow2.txt of QEMU). A raw disk that a BIOS boots carries its signature at the end of the first sector,
one for UEFI alone is partitioned by GPT and has it too, for the sake of old programs.

An image is somebody else's word, and a header of the kind qcow2 can name other files, which its guest would then
read: a base, and a file with its data. The base may be a file that lies beside the image, named without a folder,
and is looked at likewise; all else is refused. QEMU is given every file and its kind, so that it neither guesses one
nor asks the header.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from virtlab.errors import MachineError
from virtlab.units import SECTOR_BYTES

HEAD_BYTES = 64 << 20
TAIL_BYTES = 1 << 20
BASES_MAX = 8
_QCOW2 = b"QFI\xfb"
_SIGNATURE = b"\x55\xaa"
_QCOW2_HEAD = struct.Struct(">4sIQIIQ")  # magic, version, place and length of the base's name, cluster, size
# Of version 3: features that must be understood, length of the header.
_QCOW2_MORE = struct.Struct(">72xQ20xI")
_QCOW2_HEAD_BYTES = 72  # of version 2
_EXTENSION = struct.Struct(">II")  # kind, length
_CLUSTER_BITS = range(9, 22)
_NAME_BYTES = 1023
_Identity = tuple[int, int]  # device and inode
_DATA_ELSEWHERE = 1 << 2
_BASE_FORMAT, _DATA_FILE, _LAST = 0xE2792ACA, 0x44415441, 0
CURE_WHOLE = "give an image that is whole in one file (`qemu-img convert -O qcow2` makes one)"
CURE_BASE = (
    "put it beside the image and name it so (`qemu-img rebase -u -b NAME -F FORMAT IMAGE`), or " + CURE_WHOLE
)


@dataclass(frozen=True, slots=True)
class Disk:
    """An image. `format`: raw or qcow2; `size_bytes`: of the disk that a machine sees; `base`: what it builds upon."""

    path: Path
    format: str
    size_bytes: int
    base: Disk | None = None

    def drive(self, *, alone: bool = False) -> list[str]:
        """QEMU's words for it: what the machine writes goes to a file without a name that ends with the process.

        Where that file finds no more room, the machine gets an error, as from a disk that fails. `alone`:
        nothing else is tried at boot (UEFI would ask every network first).
        """
        place = "if=none,id=disk" if alone else "if=virtio"
        file = f"file={escaped(self.path)},format={self.format}"
        words = ["-drive", ",".join([file, *self._bases(), place, "snapshot=on,werror=report"])]
        device = ["-device", "virtio-blk-pci,drive=disk,bootindex=1", "-boot", "strict=on"]
        return [*words, *device] if alone else words

    def _bases(self) -> Iterator[str]:
        base, at = self.base, "backing"
        while base is not None:
            yield f"{at}.driver={base.format},{at}.file.driver=file,{at}.file.filename={escaped(base.path)}"
            base, at = base.base, f"{at}.backing"

    def facts(self) -> dict[str, object]:
        """The disk's identity, for the record of a run."""
        return {
            "image": self.path.name,
            "image_format": self.format,
            "image_base": None if self.base is None else self.base.path.name,
            "disk_bytes": self.size_bytes,
            "image_sha256": fingerprint(self.path),
        }


@dataclass(frozen=True, slots=True)
class _Header:
    """What a header of the kind qcow2 says. `base_format`: of the base, where it is said."""

    size_bytes: int
    base: str | None
    base_format: str | None
    data_elsewhere: bool


def look(where: str, name: str) -> Disk:
    """The image of a path: absolute, of the home folder (`~/`), or from the working folder. MachineError for
    anything else.
    """
    path = Path(os.path.abspath(Path(name).expanduser()))  # noqa: PTH100 - `resolve` would follow links, and show others
    try:
        with _opened(path) as file:
            head = os.pread(file.fileno(), SECTOR_BYTES, 0)
            if head.startswith(_QCOW2):
                return _disk(where, path, file, "qcow2", ())
            size_bytes = file.seek(0, os.SEEK_END)
    except FileNotFoundError:
        cure = "name the image by its path from the working folder, by '~/...' or '/...'"
        raise MachineError(where, f"there is no disk image {path}", cure) from None
    except OSError as error:
        raise MachineError(where, f"{path} cannot be read ({error.strerror})", "name a disk image") from error
    if len(head) == SECTOR_BYTES and head.endswith(_SIGNATURE):
        return Disk(path, "raw", size_bytes)
    what = f"{path} is not a disk to boot: it is not of the kind qcow2, and its first sector has no boot signature"
    raise MachineError(
        where, what, "give an image of a whole disk, raw or qcow2 (`qemu-img convert -O qcow2` makes one)"
    )


def of_kind(where: str, path: Path, kind: str) -> Disk:
    """An image whose kind is said: raw, qcow2, or one whose header names no file. MachineError when it cannot be it."""
    try:
        with _opened(path) as file:
            return _disk(where, path, file, kind, ())
    except OSError as error:
        raise MachineError(where, f"{path} cannot be read ({error.strerror})", "name a disk image") from error


def _disk(where: str, path: Path, file: BinaryIO, kind: str, above: tuple[_Identity, ...]) -> Disk:
    """`above`: the images that build upon it."""
    if kind != "qcow2":
        return Disk(path, kind, file.seek(0, os.SEEK_END))
    header = _header(where, path, file)
    if header.data_elsewhere:
        raise MachineError(where, f"{path} keeps its data in a file that its header names", CURE_WHOLE)
    if header.base is None:
        return Disk(path, kind, header.size_bytes)
    return Disk(path, kind, header.size_bytes, _base(where, path, header, (*above, _identity(file))))


def _base(where: str, path: Path, header: _Header, above: tuple[_Identity, ...]) -> Disk:
    name, kind = str(header.base), header.base_format
    if name in {".", ".."} or not name.isprintable() or set(name) & set("/:"):
        what = f"the header of {path} names {name[:100]!a} as its base, which is not the bare name of a file beside it"
        raise MachineError(where, what, CURE_BASE)
    if kind not in {None, "raw", "qcow2"}:
        what = f"the header of {path} says that its base is of the kind {kind!a}, not raw or qcow2"
        raise MachineError(where, what, CURE_WHOLE)
    place = path.with_name(name)
    try:
        with _opened(place, flags=os.O_NOFOLLOW) as file:
            if _identity(file) in above or len(above) > BASES_MAX:
                again = _identity(file) in above
                much = "itself in the end" if again else f"more than {BASES_MAX} images, one upon the other"
                raise MachineError(where, f"{path} builds upon {much}", CURE_WHOLE)
            found = kind or ("qcow2" if os.pread(file.fileno(), len(_QCOW2), 0) == _QCOW2 else "raw")
            return _disk(where, place, file, found, above)
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise MachineError(
            where, f"{place}, the base of {path.name}, cannot be read ({why})", CURE_BASE
        ) from error


def _header(where: str, path: Path, file: BinaryIO) -> _Header:
    """MachineError where it cannot be one: QEMU must not read it otherwise than we do."""
    damaged = MachineError(
        where, f"{path} is not a disk: its header of the kind qcow2 is damaged", CURE_WHOLE
    )
    head = os.pread(file.fileno(), 1 << _CLUSTER_BITS[-1], 0)
    if len(head) < _QCOW2_HEAD_BYTES or not head.startswith(_QCOW2):
        raise damaged
    _, version, place, length, cluster_bits, size_bytes = _QCOW2_HEAD.unpack_from(head)
    features, at = 0, _QCOW2_HEAD_BYTES
    if version == 3 and len(head) >= _QCOW2_MORE.size:
        features, at = _QCOW2_MORE.unpack_from(head)
    elif version != 2:
        raise damaged
    end = place or 1 << min(cluster_bits, _CLUSTER_BITS[-1])
    if cluster_bits not in _CLUSTER_BITS or at > end or length > _NAME_BYTES or place + length > len(head):
        raise damaged
    said: dict[int, bytes] = {}
    while at + _EXTENSION.size <= min(end, len(head)):
        kind, bytes_ = _EXTENSION.unpack_from(head, at)
        at += _EXTENSION.size
        if kind == _LAST:
            break
        if bytes_ > end - at:
            raise damaged
        said[kind] = head[at : at + bytes_]
        at += -(-bytes_ // 8) * 8
    return _Header(
        size_bytes,
        head[place : place + length].decode(errors="replace") if place and length else None,
        said[_BASE_FORMAT].decode(errors="replace") if _BASE_FORMAT in said else None,
        bool(features & _DATA_ELSEWHERE) or _DATA_FILE in said,
    )


def _opened(path: Path, *, flags: int = 0) -> BinaryIO:
    """A regular file, opened to read; opening anything else neither blocks nor has an effect."""
    flags |= os.O_NONBLOCK | os.O_NOCTTY
    file = open(path, "rb", opener=lambda name, how: os.open(name, how | flags))  # noqa: SIM115 - its caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file")
    return file


def _identity(file: BinaryIO) -> _Identity:
    state = os.fstat(file.fileno())
    return state.st_dev, state.st_ino


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
