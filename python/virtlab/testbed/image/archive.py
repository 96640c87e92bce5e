"""An initial file system as the kernel unpacks it: a cpio archive of the 'newc' kind.

Format: Documentation/driver-api/early-userspace/buffer-format.rst of Linux. A header of ASCII hexadecimal numbers, the
name with its NUL, the content; name and content are padded to a multiple of four. Not compressed: an emulated processor
unpacks slower than a disk reads.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field

_TRAILER = "TRAILER!!!"


@dataclass(slots=True)
class Archive:
    """Entries by name; parents come before what is in them, and are made when they are missing."""

    _entries: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def folder(self, name: str) -> None:
        """A folder that everybody can enter."""
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, content: bytes, *, executable: bool = False) -> None:
        """A file that everybody can read."""
        self._add(name, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def link(self, name: str, target: str) -> None:
        """A symbolic link."""
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def __bytes__(self) -> bytes:
        parts = []
        for number, (name, (mode, content)) in enumerate(self._entries.items(), start=1):
            parts.append(_entry(name, mode, content, number))
        parts.append(_entry(_TRAILER, 0, b"", 0))
        return b"".join(parts)

    def _add(self, name: str, mode: int, content: bytes) -> None:
        name = name.strip("/")
        parent = name.rpartition("/")[0]
        if parent and parent not in self._entries:
            self.folder(parent)
        self._entries.setdefault(name, (mode, content))


def _entry(name: str, mode: int, content: bytes, number: int) -> bytes:
    links = 2 if stat.S_ISDIR(mode) else 1
    label = name.encode() + b"\0"
    # inode, mode, user, group, links, time, size, device (2), own device (2), length of the name, checksum
    fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(label), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in fields) + label
    return _padded(head) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
