"""A process that reads datasets may be forked, as `multiprocessing` does by default: its children read them, too."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from virtlab.lazy import np
from virtlab.outputs.pattern import values
from virtlab.plan.blocks import BLOCKS
from virtlab.results import parquet

SCHEMA = BLOCKS["rtt/1"]
ROWS = 100_000
LONG_S = 60


def _reads(path: Path) -> None:
    found = parquet.read(path, SCHEMA, "a run", rows=ROWS)
    assert all(column.size == ROWS for column in found.values())


def _matches(_: Path) -> None:
    assert values("rate=1 rate=2", "rate=(?P<rate>[0-9]+)", "rate") == [1.0, 2.0]


@pytest.mark.parametrize("use", [_reads, _matches])
def test_a_forked_process_reads_as_its_parent_did(use: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "rtt.parquet"
    parquet.write(path, SCHEMA, [{name: np.arange(ROWS, dtype=kind) for name, kind in _columns()}])
    use(path)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            use(path)
            status = 0
        finally:
            os._exit(status)
    assert _status(child) == 0
    use(path)


def _columns() -> list[tuple[str, type]]:
    types = {"i64": np.int64, "i32": np.int32, "f64": np.float64, "name": str}
    return [(name, types[kind]) for name, kind in SCHEMA.columns.items()]


def _status(child: int) -> int | str:
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"not ended after {LONG_S} s"
