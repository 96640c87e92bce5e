"""Runs that become durable together: what is flushed to a disk by one is flushed for all that were written before it.

A run that is played in milliseconds takes longer to be flushed, file by file, than to be played. So runs of one worker
wait in their partial folders, one flush makes them all durable, and then each gets its name. No run is reported before
that. A worker that is killed loses what waits, at most about `MOST_S` of work, as it loses the run that it plays.
"""

from __future__ import annotations

import time
from pathlib import Path

from virtlab.results import files

MOST_S = 0.5  # that the first of a group waits


class Group:
    """Runs written and not yet part of their dataset; `commit` makes them so."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Path, Path]] = []
        self._since_s = 0.0

    def add(self, partial: Path, final: Path) -> None:
        """Takes a written run; once the first has waited long enough all are committed.

        FileExistsError when the name is taken.
        """
        if final.exists():
            raise FileExistsError(final)
        if not self._waiting:
            self._since_s = time.monotonic()
        self._waiting.append((partial, final))
        if time.monotonic() - self._since_s > MOST_S:
            self.commit()

    def commit(self) -> None:
        """Makes the runs durable and part of their dataset; on return they survive a power loss."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            files.move_in(waiting)
