"""Processes of a session, found by their command lines."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from virtlab.testbed.session import TestbedSession


def process_of(session: TestbedSession, word: bytes) -> int:
    """The process of the session whose command line holds a word, as this namespace of processes numbers it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in _with(word):
            if _descends(pid, session.leader.process.pid):  # type: ignore[attr-defined]
                return pid
    raise AssertionError(f"no process with {word!r}")


def agents_of(session: TestbedSession, role: str) -> list[int]:
    """Agents of the session in a role, in the order in which they were started: of probes, each role's far end
    first.
    """
    found = [
        pid
        for pid in _with(f"virtlab-agent\0{role}".encode())
        if _descends(pid, session.leader.process.pid)  # type: ignore[attr-defined]
    ]
    return sorted(found, key=_started)


def _started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])


def named(word: bytes) -> list[int]:
    """Processes of this process whose command lines hold a word."""
    return [pid for pid in _with(word) if _descends(pid, os.getpid())]


def _with(word: bytes) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word in (entry / "cmdline").read_bytes():
                    yield int(entry.name)
            except OSError:
                continue


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False
