"""What every test may lean on. Tests that build real worlds go one after the other: beside each other they would measure
each other. In one suite they are one group, in one process of several; suites on one machine take turns, test by test."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

REAL = ("testbed", "parity", "contract")
TURN = Path(tempfile.gettempdir()) / "virtlab-tests.turn"


def _is_real(item: pytest.Item) -> bool:
    here = Path(__file__).parent
    return item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in REAL


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One group of all that is real (`--dist loadgroup`)."""
    for item in items:
        if _is_real(item):
            item.add_marker(pytest.mark.xdist_group("machine"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Waits for its turn before a test's time begins to count."""
    if not _is_real(item):
        return (yield)
    descriptor = os.open(_turn(), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return (yield)
    finally:
        os.close(descriptor)


def _turn() -> Path:
    """The file that is locked; made once, by whoever comes first, and never removed."""
    if not TURN.exists():
        with contextlib.suppress(FileExistsError):
            os.close(os.open(TURN, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444))
    return TURN
