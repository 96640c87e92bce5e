"""A simulated store at a requested rate: what of it is achieved, where its knee is, and a role with too many errors.

One node keeps objects on a disk, which reads at most as many of them per second as its rate allows. Below that all that
is due is done; above it the store does what it can, and the rest waits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parity.test_searched_inputs import found
from tests.theory.simulated import simulated
from tests.theory.test_simulated_stores import DISK_BYTE_PER_S, MS, RECORD_BYTES, SECTOR_BYTES, then, world

FILE = """
version: 1
name: knee
hosts:
  a: {guests: {load: {}}}
  s: {guests: {n: {platform: qemu, disk: {size: 1 GB, rate: 10 MB/s, latency: 1 ms}}}}
topology: direct
link: {rate: 1 Gbit/s}
services:
  depot: {kind: store, on: [s.n], copies: 1, timeout: 60 s, question: 50 ms, ready: {port: 7100}}
roles:
  fill: {workload: objects, from: a.load, to: depot, folder: f, operations: create, count: 100, size: 10 kB}
  load:
    {workload: objects, from: a.load, to: depot, folder: f, operations: read, rate: 100 request/s, duration: 4 s}
timeline:
  - {id: fill, do: run, role: fill}
  - {id: load, do: run, role: load, after: fill.finished}
search:
  {variable: load.rate, low: 100 request/s, high: 8000 request/s, resolution: 10 request/s,
   until: load.achieved_share.ratio < 95 %}
repeat: 1
"""


def reads_per_s(object_bytes: int, byte_per_s: int) -> float:
    """Of a disk that keeps whole sectors, and a record beside each object."""
    return byte_per_s / (-(-(object_bytes + RECORD_BYTES) // SECTOR_BYTES) * SECTOR_BYTES)


@pytest.mark.slow
def test_the_knee_of_a_store_is_where_its_disk_has_no_time_left(tmp_path: Path) -> None:
    """95 % of what is due are achieved at up to 1 / 0.95 of what the disk can do."""
    knee, counts = found("simulator", FILE, tmp_path / "knee.results")
    assert counts
    assert knee == pytest.approx(reads_per_s(10_000, 10_000_000) / 0.95, rel=0.02)


@pytest.mark.parametrize("share", [0.5, 0.9, 2.0])
def test_of_a_rate_above_what_the_disk_can_do_only_that_is_achieved(share: float) -> None:
    size = {"object_bytes": 100_000}
    rate = round(share * reads_per_s(100_000, DISK_BYTE_PER_S))
    asked = {"operations": {"read": 1.0}, "threads": 0, "count": None, "duration_ns": 2000 * MS}
    values = then(world(1, **size), rate_per_s=rate, **size, **asked)
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    rows = columns(kept, "next")
    assert (rows["thread"] == -1).all()
    assert (rows["first_byte_ns"] == -1).all()
    done = rows["finished_ns"].size / (rows["finished_ns"].max() - rows["intended_ns"].min()) * 1e9
    assert done / rate == pytest.approx(min(1.0, 1 / share), rel=0.01)


def test_threads_in_turns_are_told_apart() -> None:
    outcome, kept = simulated(world(3, {"copies": 2}, threads=3, count=30))
    assert outcome.status == "ok", outcome.reasons
    rows = columns(kept, "probe")
    assert set(rows["thread"]) == {0, 1, 2}
    for thread in range(3):
        own = rows["thread"] == thread
        sent, finished = np.sort(rows["sent_ns"][own]), np.sort(rows["finished_ns"][own])
        assert (sent[1:] >= finished[:-1]).all(), "one after another"


@pytest.mark.parametrize(("budget", "fails"), [(None, False), (1.0, False), (0.5, True), (0.0, True)])
def test_a_role_of_which_no_operation_is_answered_in_time_fails_its_run_by_its_budget(
    budget: float | None, fails: bool
) -> None:
    values = world(1, {"timeout_ns": MS // 10, "question_ns": MS // 20}, count=10, error_budget_ratio=budget)
    outcome, _ = simulated(values)
    why = "roles.probe: 10 of 10 operations were not done, and the error budget is {:.0%} of them"
    assert outcome.status == ("failed" if fails else "ok")
    assert list(outcome.reasons) == ([why.format(budget).replace("%", " %")] if fails else [])


def columns(kept: Any, role: str) -> dict[str, Any]:
    blocks = kept.blocks[role, "operation/1"]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
