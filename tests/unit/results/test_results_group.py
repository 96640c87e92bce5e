"""Runs that are committed together appear together, whole, and not before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from virtlab.plan import Outcome, Plan, Realised
from virtlab.plan.model import World
from virtlab.results import Dataset, RunKey, RunRecord, files, group
from virtlab.results.group import Group

PLAN = Plan(world=World(hosts={}, guests={}))


def written(dataset: Dataset, repetition: int, together: Group) -> RunRecord:
    with dataset.begin_run(RunKey(0, repetition, 0), PLAN.repeated(repetition, 7 + repetition)) as writer:
        writer.group = together
        columns = {name: np.arange(3) for name in ("seq", "intended_ns", "sent_ns")}
        columns |= {name: np.arange(3, dtype=np.int32) for name in ("flow", "payload_bytes")}
        writer.block("probe", "sent/1", columns)
        return writer.commit(Outcome("ok"), Realised({}))


def names(dataset: Dataset) -> list[str]:
    return [record.name for record in dataset.runs()]


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["the file system at once", "file by file"])
def test_runs_of_a_group_are_there_when_it_is_committed_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: str
) -> None:
    if flush == "file by file":
        monkeypatch.setattr(files.ctypes, "CDLL", lambda *_args, **_named: object())
    with Dataset.create(tmp_path / "d", "", name="d") as dataset:
        together = Group()
        records = [written(dataset, repetition, together) for repetition in range(3)]
        assert names(dataset) == []
        together.commit()
        assert names(dataset) == [record.name for record in records]
        assert [record.plan.repetition for record in dataset.runs()] == [0, 1, 2]
        assert dataset.runs()[2].samples("probe", "sent/1")["seq"].tolist() == [0, 1, 2]
        assert not list((tmp_path / "d" / "runs").glob(".partial-*"))
        together.commit()  # nothing waits


def test_what_waits_too_long_is_committed_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Dataset.create(tmp_path / "d", "", name="d") as dataset:
        together = Group()
        written(dataset, 0, together)
        monkeypatch.setattr(group, "MOST_S", -1.0)
        written(dataset, 1, together)
        assert names(dataset) == ["p0000-r00-a0", "p0000-r01-a0"]


def test_what_a_killed_writer_left_waiting_is_swept(tmp_path: Path) -> None:
    with Dataset.create(tmp_path / "d", "", name="d") as dataset:
        written(dataset, 0, Group())  # never committed
    with Dataset.open(tmp_path / "d", writing=True) as dataset:
        assert names(dataset) == []
        assert not list((tmp_path / "d" / "runs").iterdir())


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    together = Group()
    for name in ("partial", "final"):
        (tmp_path / name).mkdir()
    with pytest.raises(FileExistsError):
        together.add(tmp_path / "partial", tmp_path / "final")
