"""What outlives a process is written down before it is made, and swept by the next process.

A private world needs none of this: it dies with its leader. Control groups do not; so each session that makes one owns
an entry: a file with the boot it belongs to, its owner and the paths, locked while the owner lives. An entry whose lock
is free, or of an earlier boot, is swept: by ownership, never by a pattern of names.

Its owner may be killed at any moment, while others sweep. So lines are added to an entry and never written again: the
first is an object, each further one a path. A last line that is not whole is of a directory that was not made yet.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
import uuid
from pathlib import Path

from virtlab.errors import MachineError

ROOT_LEDGER = Path("/run/virtlab/ledger")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SWEEP_PATIENCE_S = 2.0


def boot_id() -> str:
    """The id of the machine's current boot."""
    return BOOT_ID.read_text(encoding="ascii").strip()


class Entry:
    """One session's entry, locked until it is closed or its process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.directories: list[str] = []

    def plan(self, *directories: Path | str) -> None:
        """Notes directories, on disk, before they are made."""
        self.directories += map(str, directories)
        _add(self._descriptor, [json.dumps(str(each)) for each in directories])

    def close(self) -> None:
        """Removes the directories, innermost last noted first, then the entry."""
        if _remove(self.directories):
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


def open_entry(folder: Path = ROOT_LEDGER) -> Entry:
    """A new entry of this process. MachineError when the folder cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{uuid.uuid4().hex}.json"
        descriptor = _locked(path)
        while os.fstat(descriptor).st_nlink == 0:  # a sweeper found it before it was locked
            os.close(descriptor)
            descriptor = _locked(path)
        _add(descriptor, [json.dumps({"boot_id": boot_id(), "owner": os.getpid()})])
    except OSError as error:
        raise MachineError(
            "ledger", f"{folder} cannot be written ({error.strerror})", "run as root"
        ) from error
    return Entry(path, descriptor)


def _locked(path: Path) -> int:
    """The descriptor of a new file."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def sweep(folder: Path = ROOT_LEDGER) -> list[str]:
    """Removes what dead owners left; the paths that went."""
    gone: list[str] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # another sweeper was faster
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            continue  # its owner lives
        boot, directories = noted(path)
        if boot != boot_id() or _remove(directories):
            gone += directories
            path.unlink(missing_ok=True)
        os.close(descriptor)
    return gone


def noted(path: Path) -> tuple[str | None, list[str]]:
    """The boot that an entry belongs to, and its directories."""
    boot, directories = None, []
    with contextlib.suppress(FileNotFoundError):  # another sweeper was faster
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):  # its owner was killed while it wrote that
                found = json.loads(line)
                if isinstance(found, dict):
                    boot = found.get("boot_id")
                    directories += found.get("directories", ())  # the earlier form had them in its one line
                else:
                    directories.append(str(found))
    return boot, directories


def _add(descriptor: int, lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    if os.write(descriptor, content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


def _remove(directories: list[str]) -> bool:
    """Removes control groups with what a container engine made below them; their processes may still be ending."""
    end = time.monotonic() + SWEEP_PATIENCE_S
    for directory in reversed(directories):
        while Path(directory).exists():
            try:
                for below in sorted(_folders(Path(directory)), reverse=True):
                    below.rmdir()
                Path(directory).rmdir()
            except OSError:
                if time.monotonic() > end:
                    return False
                time.sleep(0.02)
    return True


def _folders(directory: Path) -> list[Path]:
    """All folders below one, each after what it lies in."""
    return [Path(place) / name for place, names, _ in os.walk(directory) for name in names]
