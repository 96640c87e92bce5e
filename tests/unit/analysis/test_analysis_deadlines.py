"""Jobs and supply of hard-deadline tasks become values, held against exact bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.analysis.test_analysis_values import (
    START,
    counters,
    plan_with,
    reason_of,
    record_of,
    values_of,
)

MS = 1_000_000
# The example with R = 7 and 14 at P = 6, B = 3; a unit is 1 ms here.
ROLE = {
    "workload": "rt_tasks", "from": "a", "policy": "rm", "server": "deadline", "competitors": [], "phases": 1,
    "tasks": [
        {"name": "one", "period_ns": 8 * MS, "wcet_ns": MS, "deadline_ns": 8 * MS},
        {"name": "two", "period_ns": 15 * MS, "wcet_ns": 3 * MS, "deadline_ns": 15 * MS},
    ],
    "period_ns": 6 * MS, "budget_ns": 3 * MS, "overhead_ns": 0, "duration_ns": 1000 * MS,
}  # fmt: skip


def jobs(*rows: tuple[int, int]) -> dict[str, Any]:
    """Rows of (task, response in ns; -1: did not end)."""
    task = np.array([task for task, _ in rows], dtype=np.int32)
    response = np.array([response for _, response in rows], dtype=np.int64)
    release = START + 20 * MS * np.arange(len(rows), dtype=np.int64)
    deadline = np.array([8 * MS, 15 * MS])[task]
    ended = response >= 0
    return {
        "task": task, "episode": np.arange(len(rows), dtype=np.int32), "release_ns": release,
        "start_ns": release, "finish_ns": np.where(ended, release + response, -1), "response_ns": response,
        "executed_ns": np.where(ended, MS, 0), "missed": ((response > deadline) | ~ended).astype(np.int32),
    }  # fmt: skip


def record(tmp_path: Path, role: dict[str, Any], *rows: tuple[int, int], short: int = 0) -> Any:
    begin = START + 6 * MS * np.arange(5, dtype=np.int64)
    supply = {
        "begin_ns": begin, "end_ns": begin + 3 * MS, "served_ns": np.full(5, 2_900_000), "charged_ns": np.full(5, 2_950_000),
    }  # fmt: skip
    blocks = {
        ("r", "rt_job/1"): jobs(*rows),
        ("r", "rt_supply/1"): supply,
        ("c", "counter/1"): counters("r/client", shortfall_ns=short),
    }
    return record_of(tmp_path, plan_with(role), blocks)


@pytest.mark.slow
def test_the_bound_is_the_exact_one_and_slack_counts_from_it(tmp_path: Path) -> None:
    kept = record(tmp_path, ROLE, (0, 5 * MS), (0, 7 * MS), (1, 13 * MS))
    found = values_of(kept)
    assert (found["response_bound.min"], found["response_bound.max"]) == (7 * MS, 14 * MS)
    assert found["response_time.max"] == 13 * MS
    assert found["bound_slack.min"] == 0
    assert found["deadline_slack.min"] == MS
    assert found["beyond_bound.count"] == found["deadline_misses.count"] == 0
    assert found["supply.mean"] == 2_900_000
    assert found["start_loss.max"] == 50_000
    assert found["supply_shortfall.max"] == 0
    assert values_of(kept, "r.two")["bound_slack.min"] == MS
    assert values_of(kept, "r.one")["response_time.max"] == 7 * MS


@pytest.mark.slow
def test_a_job_beyond_its_bound_refutes_though_it_keeps_its_deadline(tmp_path: Path) -> None:
    found = values_of(record(tmp_path, ROLE, (0, 7 * MS + 1), (1, 14 * MS)))
    assert found["beyond_bound.count"] == 1
    assert found["bound_slack.min"] == -1
    assert found["deadline_misses.ratio"] == 0


@pytest.mark.slow
def test_a_job_that_did_not_end_is_missed_and_beyond_its_bound(tmp_path: Path) -> None:
    found = values_of(record(tmp_path, ROLE, (0, 5 * MS), (1, -1)))
    assert found["deadline_misses.ratio"] == found["beyond_bound.ratio"] == 0.5


@pytest.mark.slow
def test_without_a_bound_there_is_no_slack_and_never_a_zero(tmp_path: Path) -> None:
    kept = record(tmp_path, ROLE | {"budget_ns": MS}, (0, 5 * MS), (1, -1), short=7)
    found = values_of(kept)
    assert found["response_bound.max"] is None
    assert found["deadline_slack.min"] is None
    assert "no bound" in reason_of(kept, "r.response_bound.max")
    assert found["deadline_misses.ratio"] == pytest.approx(0.5)
    assert found["supply_shortfall.max"] == 7
