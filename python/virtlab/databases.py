"""A database in memory that is opened once: of each thread of each process one, as opening costs more than a query.

A forked process opens its own. That of its parent waits for threads that were not forked, for ever; it is kept, unused,
since closing it would wait for them, too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class OwnDatabase(threading.local):
    """A thread's database: `get` opens it at its first call, `drop` closes one that is of no use any more."""

    def __init__(self) -> None:
        self._by_process: dict[int, DuckDBPyConnection] = {}

    def get(self, connect: Callable[[], DuckDBPyConnection]) -> DuckDBPyConnection:
        """The database of this thread in this process. `connect` is not kept: what it refers to would stay with it."""
        process = os.getpid()
        if process not in self._by_process:
            self._by_process[process] = connect()
        return self._by_process[process]

    def drop(self) -> None:
        """Lets the next call open a new one."""
        self._by_process.pop(os.getpid(), None)
