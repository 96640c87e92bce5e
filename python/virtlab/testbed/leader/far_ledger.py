"""What is made on another machine, or in another daemon, is written down here before it is made.

A private world dies with its leader; a copy of the agent on a remote host, or a domain that a hypervisor's daemon
runs, would not. Each is an entry: a file that says what and where, locked while its owner lives, removed when the
thing is gone. An entry whose lock is free is of a dead owner: the next user of that place removes the thing, known
by a name that was made for it alone, and then the entry. It outlives a boot of this machine, as what it names does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from virtlab.errors import MachineError

_MOST_BYTES = 1 << 16


def folder() -> Path:
    """The folder of the entries, in the user's own state."""
    named = os.environ.get("XDG_STATE_HOME")
    return (Path(named) if named else Path.home() / ".local" / "state") / "virtlab" / "far"


@dataclass(slots=True)
class Entry:
    """One thing elsewhere, while its owner lives."""

    path: Path
    descriptor: int

    def close(self, *, gone: bool) -> None:
        """Lets go of it; the entry stays for a sweeper unless the thing is gone."""
        if self.descriptor >= 0:
            if gone:
                self.path.unlink(missing_ok=True)
            os.close(self.descriptor)
            self.descriptor = -1


def note(kind: str, place: str, name: str) -> Entry:
    """An entry on disk: at `place` something called `name` is about to be made. MachineError when it cannot be
    written.
    """
    where = folder()
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = where / f"{uuid.uuid4().hex}.json"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps({"kind": kind, "place": place, "name": name}).encode())
        os.fsync(descriptor)
    except OSError as error:
        what = f"{where} cannot be written ({error.strerror})"
        raise MachineError("ledger", what, "make room, or set XDG_STATE_HOME") from error
    return Entry(path, descriptor)


@dataclass(frozen=True, slots=True)
class Swept:
    """Names that a sweep met."""

    gone: tuple[str, ...]
    stayed: tuple[str, ...]  # not removed


def sweep(kind: str, place: str, remove: Callable[[str], bool], *, once: bool = False) -> Swept:
    """Has `remove` take away what dead owners left at a place (by name; whether it is gone); the names.

    `once`: a place where something cannot be removed is not asked again, as one that is far may take its time to
    refuse.
    """
    gone: list[str] = []
    stayed: list[str] = []
    for path in sorted(folder().glob("*.json")) if folder().is_dir() else []:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # another sweeper was faster
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            entry = _read(descriptor)
            if entry.get("kind") == kind and entry.get("place") == place:
                if not (once and stayed) and remove(str(entry["name"])):
                    path.unlink(missing_ok=True)
                    gone.append(str(entry["name"]))
                else:
                    stayed.append(str(entry["name"]))
        except OSError:
            continue  # its owner lives
        finally:
            os.close(descriptor)
    return Swept(tuple(gone), tuple(stayed))


def _read(descriptor: int) -> Mapping[str, object]:
    with contextlib.suppress(ValueError):
        entry = json.loads(os.pread(descriptor, _MOST_BYTES, 0) or b"{}")
        if isinstance(entry, dict):
            return entry
    return {}
