"""Some tests measure what a machine costs: they run while no other test does, whatever number of processes tests.

Each test takes a turn. Most share theirs with tests of other processes; one that is marked `undisturbed` has it to
itself. While that one waits, no further test begins, so that it does not wait for ever. The turns are locks of two
files of this folder, which end with the processes that hold them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DOOR, ROOM = Path(__file__), Path(__file__).with_name("conftest.py")
_HELD = "VIRTLAB_TEST_TURN"  # what a test starts has the turn of that test
_within = _HELD in os.environ


@contextmanager
def turn(*, undisturbed: bool) -> Iterator[None]:
    """Until the end of the block no `undisturbed` test runs beside, and no test at all beside one of these."""
    if _within:
        yield
        return
    os.environ[_HELD] = "1"
    with DOOR.open() as door, ROOM.open() as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if undisturbed else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(room, fcntl.LOCK_UN)
