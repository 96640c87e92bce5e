"""What was left of guests that moved is drawn over time, of one run for each of up to three settings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.unit.analysis.test_analysis_values import RTT, START, plan_with, record_of

from virtlab.report.gather.migrations import moves_of
from virtlab.report.tables.moves import rounds_table
from virtlab.results import Dataset

MS = 1_000_000


@pytest.mark.slow
def test_bytes_left_are_told_by_guest_from_the_beginning_of_the_first_move(tmp_path: Path) -> None:
    at = START + MS * np.array([50, 100, 150, 60, 200])
    rows = {
        "t_ns": at,
        "entity": np.array(["guests.v", "guests.v", "guests.v", "guests.w", "guests.v"], dtype=object),
        "metric": np.array(["migration_remaining"] * 4 + ["migration_time"], dtype=object),
        "value": np.array([9e6, 4e6, 0.0, 7e6, 150e6]),
    }
    record_of(tmp_path, plan_with(RTT), {("migration", "series/1"): rows})
    dataset = Dataset.open(tmp_path / "d.results")
    with dataset.database() as db:
        found = moves_of(db, dataset.runs(), {0: {"dirty": "2 MB/s"}})
    assert [(one.entity, one.x, one.y) for one in found] == [
        ("guests.v", (0.0, 0.05, 0.1), (9e6, 4e6, 0.0)),
        ("guests.w", (0.01,), (7e6,)),
    ]
    assert {tuple(one.point.items()) for one in found} == {(("dirty", "2 MB/s"),)}


@pytest.mark.slow
def test_a_round_is_a_row_with_what_its_guest_wrote(tmp_path: Path) -> None:
    at = START + MS * np.array([50, 100, 100, 150, 200])
    metrics = [
        "migration_remaining",
        "migration_remaining",
        "migration_dirtied",
        "migration_dirtied",
        "migration_time",
    ]
    rows = {
        "t_ns": at,
        "entity": np.array(["guests.v"] * 5, dtype=object),
        "metric": np.array(metrics, dtype=object),
        "value": np.array([9e6, 4e6, 3e6, 1e6, 150e6]),
    }
    record_of(tmp_path, plan_with(RTT), {("migration", "series/1"): rows})
    dataset = Dataset.open(tmp_path / "d.results")
    with dataset.database() as db:
        (one,) = moves_of(db, dataset.runs(), {0: {"dirty": "2 MB/s"}})
    assert one.y == (9e6, 4e6)
    assert one.rounds == ((0.05, 3e6), (0.1, 1e6))
    found = rounds_table(SimpleNamespace(samples=SimpleNamespace(moves=(one,))))  # type: ignore[arg-type]
    assert found is not None
    assert [one["text"] for one in found["head"]][2:] == ["round", "over after (s)", "dirtied in it (MB)"]
    assert [[cell["text"] for cell in row["cells"]][1:] for row in found["rows"]] == [
        ["v", "1", "0.05", "3"],
        ["v", "2", "0.1", "1"],
    ]
    assert rounds_table(SimpleNamespace(samples=SimpleNamespace(moves=()))) is None  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_dataset_without_moves_has_none(tmp_path: Path) -> None:
    record_of(tmp_path, plan_with(RTT), {})
    dataset = Dataset.open(tmp_path / "d.results")
    with dataset.database() as db:
        assert moves_of(db, dataset.runs(), {0: {}}) == ()
