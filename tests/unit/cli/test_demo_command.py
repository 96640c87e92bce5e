"""`virtlab demo`: no file is needed, nothing is overwritten, every claim of its own file is decided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from virtlab.cli.main import main
from virtlab.results import Dataset


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, without the settings of the user who runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def virtlab(*arguments: object) -> int:
    """The command in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_the_simulator_answers_and_leaves_file_dataset_and_report(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert virtlab("demo") == 0
    said = capsys.readouterr().out
    assert said.count("holds") == 3
    assert "2.442 ms" in said  # 2 x 1526 B x 8 / 10 Mbit/s
    folder = place / "virtlab-demo"
    assert f"report: {folder.relative_to(place)}/report/report.html" in said
    assert (folder / "report" / "report.html").is_file()
    assert len(Dataset.open(folder / "simulator.results").runs("ok")) == 8
    assert virtlab("check", folder / "experiment.yaml") == 0


@pytest.mark.slow
def test_a_second_demonstration_overwrites_nothing_and_speaks_json(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "virtlab-demo").mkdir()
    (place / "virtlab-demo" / "experiment.yaml").write_text("precious")
    assert virtlab("demo", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == "virtlab-demo-2"
    assert told["exit_code"] == 0
    assert [one["verdict"] for one in told["answers"]["simulator"]["verdicts"]] == ["holds"] * 3
    assert (place / "virtlab-demo" / "experiment.yaml").read_text() == "precious"


def test_a_folder_that_exists_is_refused_in_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "mine").mkdir()
    assert virtlab("demo", "--directory", "mine") == 2
    assert capsys.readouterr().err == (
        "virtlab: mine: exists already, and nothing is overwritten; name another --directory\n"
    )
    assert list((place / "mine").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_told_in_one_line(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "file").write_text("")
    assert virtlab("demo", "--directory", "file/below") == 2
    assert capsys.readouterr().err.count("\n") == 1
