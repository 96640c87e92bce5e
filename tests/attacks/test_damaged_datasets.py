"""A dataset that is damaged, or made up, is refused in one line with file and cure; what it copies counts once."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.unit.report.report_specimen import write_dataset

from virtlab.analysis import run_values
from virtlab.campaign.trials.journal import Journal, TrialLine
from virtlab.errors import DatasetError, VirtlabError
from virtlab.plan import Plan
from virtlab.plan.model import identity_of
from virtlab.report.gather.dataset import gather
from virtlab.results import Dataset

RUN = "runs/p0001-r00-a0"
LINE = TrialLine("t0", "search", 1.0, 1, 1.0, 0.0)


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("received") / "specimen.results"
    write_dataset(path, runs=3, samples=20).close()
    return path


@pytest.fixture
def copied(received: Path, tmp_path: Path) -> Path:
    return shutil.copytree(received, tmp_path / "specimen.results")


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_bytes()) | values))


def report(path: Path) -> None:
    dataset = Dataset.open(path)
    run_values(dataset)
    gather(dataset)


def as_it_is(run: Path) -> None:
    """Nothing is changed: only the folder has another name."""


def renamed(run: Path) -> None:
    change(run / "run.json", run=run.name, repetition=1)


def with_another_identity(run: Path) -> None:
    change(run / "run.json", run=run.name, repetition=1, plan_identity="f" * 64, seed=5)


def with_the_same_seed(run: Path) -> None:
    plan = json.loads((run / "plan.json").read_bytes()) | {"repetition": 1}
    text = Plan.parse(json.dumps(plan)).canonical()
    (run / "plan.json").write_text(text)
    change(run / "run.json", run=run.name, repetition=1, plan_identity=identity_of(text))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "what"),
    [
        (as_it_is, "is of run p0001-r00-a0, not of the run that its folder names"),
        (renamed, "has the Plan of p0001-r00-a0: a copy is no independent run"),
        (with_another_identity, "is not the Plan that run.json names"),
        (with_the_same_seed, "has the seed of p0001-r00-a0: a copy is no independent run"),
    ],
)
def test_a_copied_run_is_no_independent_run(copied: Path, how: Callable[[Path], None], what: str) -> None:
    how(shutil.copytree(copied / RUN, copied / "runs/p0001-r01-a0"))
    with pytest.raises(DatasetError, match=f"p0001-r01-a0.*{what}; move"):
        report(copied)


def test_a_repetition_has_one_good_attempt(copied: Path) -> None:
    run = shutil.copytree(copied / RUN, copied / "runs/p0001-r00-a1")
    change(run / "run.json", run=run.name, attempt=1)
    with pytest.raises(
        DatasetError, match="a1: is a second good attempt at the repetition that p0001-r00-a0 made"
    ):
        report(copied)


@pytest.mark.slow
def test_a_run_at_other_levels_than_its_point_is_refused(copied: Path) -> None:
    levels = json.loads((copied / RUN / "run.json").read_bytes())["levels"] | {"load": "65 kB"}
    change(copied / RUN / "run.json", levels=levels)
    with pytest.raises(DatasetError, match=r"is not the Plan that run\.json names"):
        report(copied)


@pytest.mark.slow
def test_a_run_of_a_point_that_the_experiment_has_not_is_refused(copied: Path) -> None:
    run = copied / RUN
    run.rename(other := copied / "runs/p0099-r00-a0")
    change(other / "run.json", run=other.name, point=99)
    with pytest.raises(DatasetError, match="p0099-r00-a0: has other levels than the experiment's point 99"):
        report(copied)


WRONG: dict[str, list[Any]] = {
    "manifest.json": [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"schema": 1}',
        {"seed": "x"}, {"name": None}, {"minor": -1}, {"experiment_sha256": "../../x"}, {"machine": []},
        {"seed": 10**400}, {"fingerprint": {"a": []}},
    ],
    f"{RUN}/run.json": [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"schema": 1}',
        {"point": -1}, {"point": 10**30}, {"point": None}, {"levels": []}, {"levels": {"load": 3}}, {"seed": 2**63},
        {"status": "fine"}, {"reasons": "x"}, {"marks": {"a": 3}}, {"marks": {"a": {"t_ns": 10**40}}},
        {"windows": {"measured": [1]}}, {"rows": {"probe.rtt-1": -3}}, {"realised": {"objects": {"a": {}}}},
        {"timings": {"total": 1e400}}, {"run": "p\n0"}, {"overrides": 3}, {"marks": {"a\nb": 3}},
    ],
    f"{RUN}/plan.json": [b"", b"{", b"[]", b"[" * 100_000, {"world": 3}, {"seed": 3}, {"roles": {}}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "content"),
    [(file, content) for file, contents in WRONG.items() for content in contents],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:40],
)
def test_a_file_of_the_wrong_shape_is_one_line(copied: Path, file: str, content: Any) -> None:
    if isinstance(content, bytes):
        (copied / file).write_bytes(content)
    else:
        change(copied / file, **content)
    with pytest.raises(VirtlabError) as told:
        report(copied)
    assert type(told.value) is DatasetError
    assert file in told.value.where
    assert told.value.cure
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500


def test_a_file_that_has_no_end_is_not_read(copied: Path) -> None:
    with (copied / RUN / "run.json").open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(DatasetError, match=r"run.json: is damaged \(it has 1099511627776 B, more than"):
        report(copied)


def journal_of(folder: Path, *lines: bytes) -> Path:
    journal = Journal.open(folder, "p0000-r00-a0", {"plan": "x"})
    journal.add(LINE)
    path = folder / "journal/p0000-r00-a0.jsonl"
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return path


def test_a_kill_at_the_start_of_a_search_loses_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = journal_of(tmp_path, b'{"id": "t1", "loa')
    before = path.read_bytes()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for step in ("rename", "fsync"):
        with monkeypatch.context() as moment:
            moment.setattr(os, step, killed)
            with pytest.raises(KeyboardInterrupt):
                Journal.open(tmp_path, "p0000-r00-a0", {"plan": "x"})
        assert path.read_bytes() == before
    assert Journal.open(tmp_path, "p0000-r00-a0", {"plan": "x"}).lines == [LINE]
    whole = path.stat()
    assert Journal.open(tmp_path, "p0000-r00-a0", {"plan": "x"}).lines == [LINE]
    assert path.stat() == whole  # a whole journal is not written again


@pytest.mark.parametrize(
    "line",
    [b"x\n", b"3\n", b"{}\n", b"[" * 100_000 + b"\n", json.dumps(asdict(LINE) | {"value": "x"}).encode() + b"\n",
     json.dumps(asdict(LINE) | {"loss_ratio": 7}).encode() + b"\n", b"\xff\n"],
    ids=range(7),
)  # fmt: skip
def test_a_journal_with_a_wrong_line_is_told_and_kept(tmp_path: Path, line: bytes) -> None:
    path = journal_of(tmp_path, line, json.dumps(asdict(LINE)).encode() + b"\n")
    before = path.read_bytes()
    with pytest.raises(
        DatasetError, match=r"jsonl, line 3: is not a .*; move it away and give the same command again"
    ):
        Journal.open(tmp_path, "p0000-r00-a0", {"plan": "x"})
    assert path.read_bytes() == before


def test_a_journal_that_stands_elsewhere_too_is_not_written_there(tmp_path: Path) -> None:
    path = journal_of(tmp_path)
    (tmp_path / "mine").hardlink_to(path)
    journal = Journal.open(tmp_path, "p0000-r00-a0", {"plan": "x"})
    with pytest.raises(DatasetError, match="is not a file of this folder alone"):
        journal.add(LINE)


def test_a_lock_that_stands_elsewhere_too_is_not_written_there(copied: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("my key\n")
    (copied / ".lock").unlink(missing_ok=True)
    (copied / ".lock").hardlink_to(mine)
    Dataset.open(copied, writing=True).close()
    assert mine.read_text() == "my key\n"


@pytest.mark.slow
def test_a_folder_with_the_name_of_a_half_written_file_is_swept_like_one(tmp_path: Path) -> None:
    path = tmp_path / "specimen.results"
    write_dataset(path, runs=1, samples=5).close()
    (path / ".run.json.partial-1").mkdir()
    (path / ".run.json.partial-1" / "more").touch()
    Dataset.open(path, writing=True).close()
    assert not list(path.glob(".*.partial-*"))
