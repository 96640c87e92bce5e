"""An owner of an entry of the ledger, killed at any moment while others sweep: nothing that it made stays."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from virtlab.testbed.leader import ledger

KILLS = 60


def made(folder: Path, place: Path) -> None:
    """Makes directories by entries of its own, for ever."""
    number = 0
    while True:
        entry = ledger.open_entry(folder)
        number += 1
        for name in ("a", "a/b", "a/b/c", "a/d"):
            directory = place / f"{number}-{name.replace('/', '-')}"
            entry.plan(directory)
            directory.mkdir()
        entry.close()


def test_nothing_stays_of_an_owner_that_is_killed_at_any_moment(tmp_path: Path) -> None:
    folder, place, draws = tmp_path / "ledger", tmp_path / "groups", random.Random(3)
    place.mkdir()
    for kill in range(KILLS):
        child = os.fork()
        if child == 0:
            try:
                made(folder, place)
            finally:
                os._exit(1)
        end = time.monotonic() + draws.uniform(0.0, 0.02)
        while time.monotonic() < end:
            ledger.sweep(folder)  # others sweep meanwhile
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "its owner lives until it is killed"
        ledger.sweep(folder)
        assert list(place.iterdir()) == [], f"after kill {kill}"
        assert list(folder.glob("*")) == []
