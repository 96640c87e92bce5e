"""Trying things in a child process that is gone afterwards, whatever it did, and never takes longer than its time.

The child is a plain fork: it may change its user, enter namespaces, take real-time priorities or hang in the kernel.
What it found comes back as JSON through a pipe.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEWCGROUP = 0x02000000
NOBODY = 65534
_PR_SET_DUMPABLE = 4
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of it: a value, or the words of the error."""

    value: Any = None
    error: str | None = None
    errno: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it worked."""
        return self.error is None


def libc() -> ctypes.CDLL:
    """The C library of this process, errno kept."""
    return ctypes.CDLL(None, use_errno=True)


def checked(result: int, call: str) -> int:
    """Raises OSError with `what` when a call of `libc` gave -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def in_child(work: Callable[[], Any], *, as_nobody: bool = False, timeout_s: float = 5.0) -> Tried:
    """Runs `work` in a child, as an ordinary user if asked; its result must be JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _child(work, writing, as_nobody=as_nobody)
    os.close(writing)
    said = b""
    until = time.monotonic() + timeout_s
    try:
        while select.select([reading], [], [], max(until - time.monotonic(), 0))[0]:
            chunk = os.read(reading, 1 << 16)
            if not chunk:
                break
            said += chunk
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    try:
        found = json.loads(said)
    except ValueError:
        return Tried(error=f"no answer within {timeout_s:g} s", errno=errno.ETIMEDOUT)
    return Tried(**found)


def _child(work: Callable[[], Any], writing: int, *, as_nobody: bool) -> None:
    found: dict[str, Any]
    try:
        if as_nobody:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            libc().prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self belongs to root
        found = {"value": work()}
    except OSError as error:
        found = {"error": error.strerror or str(error), "errno": error.errno}
    except BaseException as error:  # the child answers whatever happens, and runs no handler of its parent
        found = {"error": f"{type(error).__name__}: {error}"}
    with suppress(OSError):
        os.write(writing, json.dumps(found).encode())
    os._exit(0)


def unshare(flags: int) -> None:
    """Enters new namespaces; with a user namespace this user becomes root in it. OSError with the kernel's words."""
    uid, gid = os.geteuid(), os.getegid()
    checked(libc().unshare(flags), "unshare")
    if flags & CLONE_NEWUSER:
        Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="utf-8")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="utf-8")


def private_network() -> None:
    """Enters a network namespace of its own, by way of a user namespace where that is needed."""
    unshare(CLONE_NEWNET | (0 if os.geteuid() == 0 else CLONE_NEWUSER))


def without_timer_slack() -> None:
    """Sleeps of this process end as soon as the kernel can."""
    libc().prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
