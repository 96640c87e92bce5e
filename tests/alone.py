"""Tests of one room are alone: they start no process and connect to no other machine.

So they run anywhere, in any order, and fast. A test that starts something is in `tests/process` or has the marker
`process`; without either it fails at the very call. Python tells of such calls by audit events, but for
`multiprocessing`, whose start is wrapped.
"""

from __future__ import annotations

import multiprocessing.util
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FOLDERS = ("attacks", "fuzz", "theory", "unit")
STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}

_running: list[str] = []  # the test under way that must be alone


def must_be(item: pytest.Item) -> bool:
    """Whether this test has to be alone."""
    folders = [HERE / name for name in FOLDERS]
    return any(map(item.path.is_relative_to, folders)) and item.get_closest_marker("process") is None


def begin(item: pytest.Item) -> None:
    """From now on this test is under way."""
    _running[:] = [item.nodeid] if must_be(item) else []


def end() -> None:
    """No test is under way."""
    _running.clear()


def watch() -> None:
    """Refuses from now on, for as long as this Python lives."""
    spawn = multiprocessing.util.spawnv_passfds

    def refusing(*arguments: Any) -> int:
        _refuse("starts a process")
        return spawn(*arguments)

    multiprocessing.util.spawnv_passfds = refusing
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _running:
        return
    if event in STARTS:
        _refuse("starts a process")
    elif event == "socket.connect" and isinstance(arguments[1], tuple):  # a path is a socket of this machine
        _refuse("connects to a machine")


def _refuse(what: str) -> None:
    if _running:
        pytest.fail(f"{_running[0]} {what}; move it to tests/process, or mark it `process`", pytrace=False)
