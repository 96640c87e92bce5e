"""`virtlab demo`: no file is needed, nothing is overwritten, every claim of its own file is decided."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from virtlab import testbed
from virtlab.cli.main import main
from virtlab.plan.backend import Capabilities, Outcome, Realised, Session, Sink, Trial
from virtlab.plan.model import Plan
from virtlab.results import Dataset
from virtlab.simulator import Simulator


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


class BusySession:
    """A session on a machine that is too busy for every run, or for those with two switches only."""

    def __init__(self, session: Session, *, always: bool, switches: int) -> None:
        self.session, self.spoilt = session, always or switches == 2
        self.realised: Realised = session.realised

    def run(self, trial: Trial, sink: Sink) -> Outcome:
        outcome = self.session.run(trial, sink)
        return replace(outcome, status="tainted", reasons=("soft switch: late",)) if self.spoilt else outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def __enter__(self) -> Self:
        self.session.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.session.__exit__(*error)


class BusyMachine(Simulator):
    """Plays as the simulator does, on a machine that has no time to measure."""

    always = True

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), backend="testbed")

    def open(self, plan: Plan, *arguments: Any, **named: Any) -> Any:
        opened = super().open(plan, *arguments, **named)
        return BusySession(opened, always=self.always, switches=int(str(plan.point["switches"])))


@pytest.mark.slow
@pytest.mark.parametrize("always", [True, False], ids=["no-run-is-good", "only-one-switch"])
def test_a_machine_that_is_too_busy_leaves_claims_undecided(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    monkeypatch.setattr(testbed, "Testbed", BusyMachine)
    monkeypatch.setattr(BusyMachine, "always", always)
    assert virtlab("demo", "--real") == 4
    said = capsys.readouterr().out
    assert said.count("undecided") == (3 if always else 2)
    assert ("report: " in said) is not always
