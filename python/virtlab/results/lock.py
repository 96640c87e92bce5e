"""A lock on a file that says who holds it.

flock(2) ends with its holder, however it dies, so no lock is ever stale; the words in the file (process, what
for, since) are for people only. The file itself stays: removing it would let two holders lock two different
files of one name. A system without flock(2) takes SQLite's lock on a file beside it, which ends with its holder too.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import sqlite3

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_WORDS_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: process, what for, and since when (UTC, ISO 8601; empty: not known)."""

    pid: int
    what: str
    since: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} ({self.what})" + (f" since {self.since}" if self.since else "")


class FileLock:
    """An exclusive lock on `path`, taken by `acquire` without waiting, given back by `release` or the
    process's end.

    The file is opened as the kernel wants it in shared sticky folders (fs.protected_regular): without O_CREAT
    when it is there, never through a symbolic link. `make`: it is made where it is missing. In a file of another
    user nothing is written, so that it may lie where others can put one; who may read it can lock it.
    """

    def __init__(self, path: Path, *, mode: int = 0o644, make: bool = True) -> None:
        self.path = path
        self._mode = mode
        self._make = make
        self._descriptor: int | None = None
        self._connection: sqlite3.Connection | None = None

    def _open(self) -> int:
        flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        for _ in range(3):
            with contextlib.suppress(FileNotFoundError):
                try:
                    return os.open(self.path, os.O_RDWR | flags)
                except PermissionError:
                    return os.open(self.path, os.O_RDONLY | flags)
            if not self._make:
                break
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, self._mode)
            except FileExistsError:
                continue
            os.fchmod(descriptor, self._mode)  # whatever the umask: another user must be able to open it too
            return descriptor
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(self.path))

    def acquire(self, holder: Holder) -> bool:
        """True once held; False when someone else holds it. OSError when the file cannot be opened."""
        descriptor = self._open()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file", str(self.path))
        if not (self._locked(descriptor) if fcntl is not None else self._locked_beside()):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        self._say(json.dumps(asdict(holder)).encode())
        return True

    @staticmethod
    def _locked(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _locked_beside(self) -> bool:
        import sqlite3

        beside = self.path.with_name(f"{self.path.name}-held")
        connection = sqlite3.connect(beside, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            connection.close()
            return False
        self._connection = connection
        return True

    def holder(self) -> Holder | None:
        """Who holds it: in that user's words where only root or we could write them, else by the kernel's list.

        None when neither says it.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            state = os.fstat(descriptor)
            words = os.read(descriptor, _WORDS_BYTES) if state.st_uid in {0, os.geteuid()} else b""
        except OSError:
            return None
        finally:
            os.close(descriptor)
        process, said = _process(state), _words(words)
        if said is not None and process in {None, said.pid}:
            return said
        return Holder(process, f"of {_owner(process)}") if process is not None else None

    def release(self) -> None:
        """Gives it back; harmless when not held."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                self._say(b"")
            os.close(self._descriptor)
            self._descriptor = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _say(self, words: bytes) -> None:
        """Writes who holds it, where the file is ours and has no other name, by which it would be another file of
        ours.
        """
        assert self._descriptor is not None
        state = os.fstat(self._descriptor)
        if state.st_uid == os.geteuid() and state.st_nlink == 1:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, words, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _words(content: bytes) -> Holder | None:
    try:
        said = json.loads(content)
        found = Holder(int(said["pid"]), str(said["what"]), str(said["since"]))
    except (ValueError, ArithmeticError, TypeError, KeyError, RecursionError):
        return None
    return found if (found.what + found.since).isprintable() else None


def _process(state: os.stat_result) -> int | None:
    """The process that holds a lock of flock(2) on this file, by the kernel's list; None where that does not know
    it.
    """
    device = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    try:
        lines = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    # A number, FLOCK, ADVISORY, WRITE, the process, the file; of one that waits there is an arrow after the number.
    for words in map(str.split, lines):
        if words[1:2] == ["FLOCK"] and len(words) > 5 and words[5] == device and int(words[4]) > 0:
            return int(words[4])
    return None


def _owner(process: int) -> str:
    try:
        return f"user {os.stat(f'/proc/{process}').st_uid}"  # noqa: PTH116 - no file
    except OSError:
        return "another user"
