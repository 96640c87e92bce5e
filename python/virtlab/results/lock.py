"""A lock on a file that says who holds it.

flock(2) ends with its holder, however it dies, so no lock is ever stale; the words in the file (process, what
for, since) are for people only. The file itself stays: removing it would let two holders lock two different
files of one name.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: process, what for, and since when (UTC, ISO 8601)."""

    pid: int
    what: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.what}) since {self.since}"


class FileLock:
    """An exclusive lock on `path`, taken by `acquire` without waiting, given back by `release` or the
    process's end.

    The file is opened as the kernel wants it in shared sticky folders (fs.protected_regular): without O_CREAT
    when it is there, never through a symbolic link.
    """

    def __init__(self, path: Path, *, mode: int = 0o644) -> None:
        self.path = path
        self._mode = mode
        self._descriptor: int | None = None

    def _open(self) -> int:
        flags = os.O_NOFOLLOW | os.O_CLOEXEC
        for _ in range(3):
            with contextlib.suppress(FileNotFoundError):
                return os.open(self.path, os.O_RDWR | flags)
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, self._mode)
            except FileExistsError:
                continue
            os.fchmod(descriptor, self._mode)  # whatever the umask: another user must be able to open it too
            return descriptor
        raise FileNotFoundError(self.path)

    def acquire(self, holder: Holder) -> bool:
        """True once held; False when someone else holds it. OSError when the file cannot be opened."""
        descriptor = self._open()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{self.path} is not a regular file")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)
        self._descriptor = descriptor
        return True

    def holder(self) -> Holder | None:
        """Who holds it according to the file; None when that cannot be read."""
        try:
            return Holder(**json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def release(self) -> None:
        """Gives it back; harmless when not held."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
