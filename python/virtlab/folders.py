"""Folders that may have come from somebody else: read and written by descriptor, never through a link.

A folder from somebody else can contain a link in place of a file, which redirects a writer elsewhere. So a folder is
opened component by component, none of which may be a link, and held by its descriptor; a file is written under a random
name that did not exist, relative to that descriptor, and takes its place by one rename. What is read must be a regular
file and is bounded. The way to the first folder is the user's own, who may have links there.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from virtlab.errors import DatasetError
from virtlab.lazy import pattern

DEEPEST = 16  # folders below one another in a dataset; it has four
_KINDS = {
    stat.S_IFLNK: "a link", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}  # fmt: skip
_CURE = "move it away: nothing here is read or written through anything but files and folders"
_ASIDE = pattern(r"\..+\.partial-[0-9a-f]{16}", re.DOTALL)  # names that `writing` takes
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Folder:
    """A folder held by its descriptor. A context manager."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def open(cls, root: Path, *below: str, make: bool = False) -> Iterator[Self]:
        """The folder `below` a root, none of whose names may be a link; with `make`, missing folders are made.

        OSError when it cannot be opened, DatasetError when something on the way below the root is no folder.
        """
        if make:
            root.mkdir(parents=True, exist_ok=True)
        folder = cls(root, os.open(root, _FOLDER))
        try:
            for name in below:
                folder._enter(name, make=make)
            yield folder
        finally:
            os.close(folder._descriptor)

    def _enter(self, name: str, *, make: bool) -> None:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._descriptor)
        path = self.path / name
        try:
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
                raise
            raise DatasetError(str(path), f"is {self._kind(name)}, not a folder", _CURE) from None
        os.close(self._descriptor)
        self.path, self._descriptor = path, inner

    def _kind(self, name: str) -> str:
        mode = os.lstat(name, dir_fd=self._descriptor).st_mode
        return _KINDS.get(stat.S_IFMT(mode), "a file")

    @contextmanager
    def writing(self, name: str, *, durable: bool = False) -> Iterator[BinaryIO]:
        """A file that takes the name when it is whole; what was there before under it is replaced, and not followed.

        `durable`: on return it survives a power loss.
        """
        aside = f".{name[:80]}.partial-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(aside, flags, 0o666, dir_fd=self._descriptor)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    yield file
                    if durable:
                        file.flush()
                        os.fsync(descriptor)
                os.rename(aside, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            except BaseException:
                self.remove(aside)
                raise
            if durable:
                os.fsync(self._descriptor)
        except OSError as error:
            error.filename, error.filename2 = (
                str(self.path / name),
                None,
            )  # neither write(2) nor a random name says which
            raise

    def write(self, name: str, content: bytes, *, durable: bool = False) -> None:
        """Puts a whole file in place."""
        with self.writing(name, durable=durable) as file:
            file.write(content)

    def append(self, name: str, content: bytes) -> None:
        """Adds to a file that is there; on return it survives a power loss.

        DatasetError when it is no file of this folder alone.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=self._descriptor), "ab") as file:
            there = os.fstat(file.fileno())
            if not stat.S_ISREG(there.st_mode) or there.st_nlink != 1:
                raise DatasetError(
                    str(self.path / name), "is not a file of this folder alone", "move it away, or copy it"
                )
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """A regular file's bytes; None if no such file exists, or it is larger."""
        try:
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._descriptor
            )
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            there = os.fstat(descriptor)
            return file.read(most_bytes) if _fits(there, most_bytes) else None

    def regular(self, name: str, most_bytes: int) -> bytes:
        """A regular file's bytes. OSError that says why they cannot be read: missing, no file, or larger."""
        path = str(self.path / name)
        try:
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._descriptor
            )
        except OSError as error:
            if error.errno not in {errno.ELOOP, errno.ENXIO}:
                raise
            raise OSError(0, f"it is {self._kind(name)}, not a file", path) from None
        with os.fdopen(descriptor, "rb") as file:
            there = os.fstat(descriptor)
            if not stat.S_ISREG(there.st_mode):
                raise OSError(
                    0, f"it is {_KINDS.get(stat.S_IFMT(there.st_mode), 'a folder')}, not a file", path
                )
            if not _fits(there, most_bytes):
                raise OSError(0, f"it has more than {most_bytes} B", path)
            return file.read(most_bytes)

    def secret(self, name: str, count: int) -> bytes | None:
        """Random bytes that only this user reads, made once; None when the file is somebody else's, or open to
        others.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except FileNotFoundError:
            aside = f".{name}.partial-{secrets.token_hex(8)}"
            made = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._descriptor)
            with os.fdopen(made, "wb") as file:
                file.write(secrets.token_bytes(count))
            with suppress(FileExistsError):  # of two that make it at once, the first
                os.link(aside, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            self.remove(aside)
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        with os.fdopen(descriptor, "rb") as file:
            there = os.fstat(descriptor)
            own = stat.S_ISREG(there.st_mode) and there.st_uid == os.geteuid() and not there.st_mode & 0o077
            found = file.read(count) if own else b""
            return found if len(found) == count else None

    def sweep(self, older_than_s: float) -> None:
        """Removes unfinished files of a killed process: those without a write for `older_than_s`."""
        with os.scandir(self._descriptor) as entries:
            names = [entry.name for entry in entries if _ASIDE.fullmatch(entry.name)]
        for name in names:
            with suppress(OSError):
                there = os.lstat(name, dir_fd=self._descriptor)
                if stat.S_ISREG(there.st_mode) and time.time() - there.st_mtime > older_than_s:
                    self.remove(name)

    def remove(self, name: str) -> None:
        """Removes a file, there or not."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self._descriptor)


def is_open_already(path: Path) -> bool:
    """Whether a name is of something that is written to and never replaced: a pipe, a device, or a descriptor that this
    process has, as '/dev/stdout', whatever it leads to."""
    parent = str(path.absolute().parent)
    of_descriptors = parent in {"/dev", "/dev/fd"} or (parent.startswith("/proc/") and parent.endswith("/fd"))
    return of_descriptors or (path.exists() and not path.is_file())


def put(path: Path, content: bytes) -> None:
    """Writes a file that the user named, whole or not at all, in its folder; what has its name is replaced, so no link
    that somebody left there says where it goes. A pipe, a device or a descriptor that was named is written to. OSError.
    """
    if is_open_already(path):
        path.write_bytes(content)
        return
    with Folder.open(path.parent) as folder:
        folder.write(path.name, content)


def _fits(there: os.stat_result, most_bytes: int) -> bool:
    return stat.S_ISREG(there.st_mode) and there.st_size <= most_bytes


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """A regular file's bytes. OSError if it is not a regular file, or larger; never waits for a pipe or device."""
    return read_with_state(path, most_bytes)[0]


def read_with_state(path: Path, most_bytes: int) -> tuple[bytes, os.stat_result]:
    """The same, and whose file it was that was read."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        there = os.fstat(file.fileno())
        if not stat.S_ISREG(there.st_mode):
            kind = _KINDS.get(stat.S_IFMT(there.st_mode), "a folder")
            raise OSError(0, f"it is {kind}, not a file", str(path))
        if there.st_size > most_bytes:
            raise OSError(
                0, f"it has {there.st_size} B, more than the {most_bytes} B that are read", str(path)
            )
        return file.read(there.st_size or most_bytes), there  # the kernel's own files report no size


def only_files_and_folders(root: Path) -> None:
    """DatasetError that names the first link, pipe, socket or device below a folder."""
    waiting = [(str(root), 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > DEEPEST:
            raise DatasetError(folder, f"is more than {DEEPEST} folders deep in a dataset", "move it away")
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
                    elif not entry.is_file(follow_symlinks=False):
                        _refuse(entry)
        except FileNotFoundError:
            continue  # of a run that is being written, or swept
        except OSError as error:
            raise DatasetError(
                folder, f"cannot be read ({error.strerror})", "take the right to it, or ask for another copy"
            ) from error


def _refuse(entry: os.DirEntry[str]) -> None:
    try:
        kind = _KINDS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), "no file")
    except FileNotFoundError:
        return
    raise DatasetError(entry.path, f"is {kind} inside a dataset", _CURE)
