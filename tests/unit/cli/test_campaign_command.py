"""`virtlab run`: refusals before anything is built, verdicts and report at the end, exit codes that a CI can
lean on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from virtlab.cli.experiment import run as command
from virtlab.cli.main import main
from virtlab.errors import ExperimentError
from virtlab.results import Dataset
from virtlab.settings import Settings, load_settings

TEXT = """
# Echoes across one and two switches.
version: 1
name: two-switches
title: What a second switch adds
seed: 5
factors: {switches: [1, 2]}
hosts: 2
topology: {shape: line, switches: "${switches}"}
link: {rate: 100 Mbit/s}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10 ms, count: 60}
repeat: 3
"""
HOLDS = """claims:
  - "probe.rtt.min: switches 2 - 1 within 244.16 us +- 10 %"
"""
REFUTED = """claims:
  - "probe.rtt.mean: switches 2 < 1"
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, without the settings of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("BACKEND", "RESULTS", "WAIT", "REPORT", "ANONYMISE"):
        monkeypatch.delenv(f"VIRTLAB_{name}", raising=False)
    monkeypatch.setitem(command.BACKENDS, "closed_form", "tests.contract.closed_form:ClosedForm")
    return tmp_path


def virtlab(*arguments: object) -> int:
    """The command in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def experiment(place: Path, text: str = TEXT, name: str = "two.yaml") -> Path:
    file = place / name
    file.write_text(text)
    return file


def run(file: Path, *more: object) -> int:
    return virtlab("run", file, "--backend", "closed_form", *more)


@pytest.mark.slow
def test_a_claim_that_holds_ends_in_0_with_dataset_and_report(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(experiment(place, TEXT + HOLDS)) == 0
    said = capsys.readouterr()
    assert "report: two-switches.results/report/report.html" in said.out
    assert (place / "two-switches.results/report/report.html").is_file()
    assert "holds" in said.out
    assert len(said.err.splitlines()) == 6
    assert "6 runs done, 0 left" in said.err


@pytest.mark.slow
def test_a_refuted_claim_ends_in_1(place: Path) -> None:
    assert run(experiment(place, TEXT + REFUTED), "--no-report") == 1
    assert not (place / "two-switches.results/report").exists()


@pytest.mark.slow
def test_points_without_enough_runs_end_in_4_and_the_same_command_goes_on(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = experiment(place, TEXT + HOLDS)
    assert run(file, "--max-runs", 3, "--no-report") == 4
    assert "the same command resumes" in capsys.readouterr().out
    assert run(file, "--no-report") == 0
    assert [record.name for record in Dataset.open("two-switches.results").runs()] == [
        f"p000{point}-r0{repetition}-a0" for point in range(2) for repetition in range(3)
    ]


@pytest.mark.slow
def test_the_outcome_is_there_for_programs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(experiment(place, TEXT + HOLDS), "--json", "--no-report") == 0
    said = capsys.readouterr()
    assert said.err == ""
    outcome: dict[str, Any] = json.loads(said.out)
    assert outcome["exit_code"] == 0
    assert (outcome["runs_made"], outcome["ended"], outcome["lacking"]) == (6, "complete", {})
    assert [verdict["verdict"] for verdict in outcome["verdicts"]] == ["holds"]


@pytest.mark.slow
def test_a_file_with_mistakes_ends_in_2_and_builds_nothing(place: Path) -> None:
    assert run(experiment(place, TEXT.replace("100 Mbit/s", "100"))) == 2
    assert not (place / "two-switches.results").exists()


@pytest.mark.slow
def test_what_the_machine_cannot_is_listed_and_ends_in_3(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXT.replace(
        "roles:\n", "roles:\n  bulk: {workload: tcp_stream, from: h1.g1, to: h2.g1, duration: 1 s}\n"
    )
    assert run(experiment(place, text)) == 3
    said = capsys.readouterr().err
    assert "roles.bulk.workload: 'tcp_stream' has no closed form; use workload rtt" in said
    assert "cannot be run here: 1 reason above" in said
    assert not (place / "two-switches.results").exists()


@pytest.mark.slow
def test_a_changed_file_ends_in_2_and_a_fresh_name_begins_anew(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(experiment(place), "--no-report") == 0
    changed = experiment(place, TEXT.replace("count: 60", "count: 61"))
    assert run(changed, "--no-report") == 2
    assert "roles.probe.count: 60 -> 61" in capsys.readouterr().err
    assert run(changed, "--no-report", "--fresh-name") == 0
    assert Dataset.open("two-switches-2.results").runs()[0].samples("probe", "rtt/1")["seq"].size == 61


@pytest.mark.slow
@pytest.mark.parametrize(("points", "levels"), [("1", {"2"}), ("0-1", {"1", "2"}), ("switches=2", {"2"})])
def test_some_points_can_be_run_alone(place: Path, points: str, levels: set[str]) -> None:
    run(experiment(place), "--points", points, "--no-report")
    assert {record.levels["switches"] for record in Dataset.open("two-switches.results").runs()} == levels


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--points", "7"], "no point 7"),
        (["--points", "x"], "'x' is not a point"),
        (["--points", "switches=3"], "not a level of switches"),
        (["--points", "colour=red"], "not a factor"),
        (["--backend", "abacus"], "not a backend"),
    ],
)
def test_an_option_that_means_nothing_ends_in_2(
    place: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(experiment(place), *arguments) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.slow
def test_repetition_ends_when_the_interval_is_as_narrow_as_asked(place: Path) -> None:
    until = "repeat: {minimum: 4, maximum: 40, until: {metric: probe.rtt.mean, relative_interval: 3 %}}"
    assert run(experiment(place, TEXT.replace("repeat: 3", until)), "--no-report") == 0
    counts = {
        record.levels["switches"]: record.repetition + 1
        for record in Dataset.open("two-switches.results").runs()
    }
    from virtlab.stats import planned_sizes

    assert set(counts.values()) <= set(planned_sizes(4, 40))
    assert max(counts.values()) < 40


@pytest.mark.slow
def test_no_run_begins_after_the_time_is_over(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(experiment(place, TEXT.replace("repeat: 3", "repeat: {minimum: 3, time: 1 ns}")), "--no-report")
        == 4
    )
    assert "time budget" in capsys.readouterr().out


def test_a_flag_wins_over_the_environment_and_that_over_the_file(place: Path) -> None:
    file = place / "config/virtlab/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text('backend = "simulator"\nwait = false\n')
    environment = {"XDG_CONFIG_HOME": str(place / "config")}
    assert load_settings(environment) == Settings(backend="simulator", wait=False)
    environment["VIRTLAB_WAIT"] = "yes"
    environment["VIRTLAB_RESULTS"] = "/data"
    assert load_settings(environment) == Settings(backend="simulator", results="/data", wait=True)
    assert load_settings(environment, wait=False, backend=None).wait is False


@pytest.mark.parametrize(
    ("content", "problem"),
    [("colour = 1", "not a setting"), ("wait = 1", "wrong kind"), ("wait", "cannot be read")],
)
def test_a_wrong_settings_file_is_told_with_its_cure(place: Path, content: str, problem: str) -> None:
    file = place / "config/virtlab/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    with pytest.raises(ExperimentError, match=problem):
        load_settings({"XDG_CONFIG_HOME": str(place / "config")})
    with pytest.raises(ExperimentError, match="neither true nor false"):
        load_settings({"VIRTLAB_WAIT": "perhaps"})


@pytest.mark.slow
def test_results_go_into_the_folder_that_is_set(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTLAB_RESULTS", str(place / "elsewhere"))
    monkeypatch.setenv("VIRTLAB_BACKEND", "closed_form")
    monkeypatch.setenv("VIRTLAB_ANONYMISE", "1")
    assert virtlab("run", experiment(place), "--no-report") == 0
    manifest = Dataset.open(place / "elsewhere/two-switches.results").manifest
    assert manifest.anonymous
    assert "host_name" not in manifest.machine


@pytest.mark.slow
def test_the_data_of_a_report_are_gathered_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from virtlab.report.gather import dataset as gathering

    times: list[bool] = []
    real = gathering.gather

    def counted(*arguments: Any, **named: Any) -> Any:
        times.append(bool(named.get("curves", True)))
        return real(*arguments, **named)

    for module in ("gather.dataset", "page.writer", "page.terminal"):
        monkeypatch.setattr(f"virtlab.report.{module}.gather", counted)
    assert run(experiment(place), "--json") == 0
    assert times == [True]
    assert list(place.rglob("report.html"))
