"""A number that hangs on a search stands nowhere without the goal of the search: files, pictures, JSON, progress."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.campaign.test_benchmark_tests import FILE, run
from typer.testing import CliRunner

from virtlab.campaign.progress import CampaignObserver, Standing
from virtlab.cli.dataset.export import app as export_app
from virtlab.cli.dataset.report import app as report_app
from virtlab.cli.experiment.check import app as check_app
from virtlab.metrics import METRICS
from virtlab.report.figures.grammar.vega import SUBTITLE_COLUMNS, TITLE_COLUMNS, svg
from virtlab.report.figures.plots import figures_of
from virtlab.report.gather.dataset import gather
from virtlab.report.page.terminal import as_json
from virtlab.report.tables import benchmarks
from virtlab.report.tables.searches import trials_table
from virtlab.results import Dataset, RunRecord

GOAL = "loss of every flow ≤ 0 % in one trial of 1 s, width 0.5 %, RFC 2544"
SEARCHED = ("ndr", "ndr_rate")
LIMIT = """
version: 1
name: limit
hosts: 2
topology: line
link: {rate: 10 Mbit/s}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, interval: 20 ms, count: 4, size: 100 B ip_packet}}
search:
  variable: probe.size
  low: 64 B ip_packet
  high: 1400 B ip_packet
  resolution: 50 B ip_packet
  until: probe.rtt.max > 2 ms
repeat: {minimum: 2, maximum: 3, until: {metric: probe.limit_size.found, relative_interval: 5 %}}
timing: {warmup: 0 ms, drain: 20 ms}
"""


class Heard(CampaignObserver):
    """Keeps what a campaign says."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.standings: list[Standing] = []

    def progress(self, what: str, done_ratio: float | None = None) -> None:
        self.said.append(what)

    def run_ended(self, record: RunRecord, standing: Standing) -> None:
        self.standings.append(standing)


@pytest.fixture(scope="module")
def heard() -> Heard:
    return Heard()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, heard: Heard) -> Dataset:
    text = FILE.replace("claims:\n", "claims:\n  - {id: enough, text: load.ndr.found >= 1 Mbit/s}\n")
    return run(text, tmp_path_factory.mktemp("goals") / "b.results", heard)


def hangs(path: str) -> bool:
    """Whether a path of the file is of what was found, of a share of it, or measured by it."""
    parts = path.split(".")
    role, part, metric = parts[0], parts[1], parts[-2]
    measured_by_it = metric in {"corrected_buffer_time", "recovery_time", "reset_time"}
    return role == "load" and (metric in SEARCHED or part in {"at10", "at100"} or measured_by_it)


@pytest.mark.slow
def test_every_estimate_and_verdict_in_json_has_its_goal_and_no_other_has_one(dataset: Dataset) -> None:
    told = as_json(dataset)
    goals = {row["path"]: row["goal"] for row in told["estimates"]}
    assert {"load.ndr.found", "load.at10.latency.mean", "load.at100.flow0.latency.mean"} <= set(goals)
    assert {"load.rate200.latency.mean", "load.max100.frame_loss.ratio", "load.packet_rate.mean"} <= set(
        goals
    )
    for path, goal in goals.items():
        assert (goal is not None) == hangs(path), path
        assert goal is None or GOAL in goal
    assert goals["load.ndr.found"] == f"load.rate: {GOAL}"
    verdicts = {one["id"]: one for one in told["verdicts"]}
    assert set(verdicts) == {"enough", "quiet", "recovers"}
    assert all(GOAL in one["goal"] and GOAL in one["sentence"] for one in verdicts.values())
    assert any(GOAL in note and "last trial" in note for note in told["notes"])


@pytest.mark.slow
def test_every_picture_of_such_a_number_has_the_goal_in_its_title(dataset: Dataset) -> None:
    data = gather(dataset)
    drawn = {figure.name: figure for figure in figures_of(data)}
    searched = {"search-of-load", "latency-of-load-by-load", "latency-quantiles-of-load-by-load"}
    assert searched <= set(drawn)
    found = {name for name, one in drawn.items() if one.group.rpartition(".")[2] in SEARCHED}
    assert found
    for name in searched | found:
        assert GOAL in drawn[name].title, name
    assert (
        GOAL not in drawn["frame-loss-of-load-by-load"].title
    )  # from the highest load down, whatever was found
    assert GOAL in trials_table("load", data.searches, data.design.varying)["caption"]
    tested = benchmarks.tests_table(data, "load")
    assert tested is not None
    assert GOAL in tested["caption"]


@pytest.mark.slow
def test_a_long_title_is_broken_into_lines_that_fit_above_the_plot(dataset: Dataset) -> None:
    figure = next(one for one in figures_of(gather(dataset)) if one.name == "search-of-load")
    assert len(figure.title) > TITLE_COLUMNS
    picture = svg(figure, titled=True)
    lines = [part.partition("<")[0] for part in picture.split(">") if part.partition("<")[0].strip()]
    assert any("Search of load.rate" in line for line in lines)
    assert max(len(line) for line in lines) <= SUBTITLE_COLUMNS
    assert not any(len(line) > TITLE_COLUMNS and "Search of" in line for line in lines)


@pytest.mark.slow
def test_progress_says_the_goal_with_every_load(heard: Heard, dataset: Dataset) -> None:
    assert dataset.runs("ok")
    trials = [text for text in heard.said if text.startswith(("trial ", "a last trial"))]
    assert len(trials) > 10
    assert all(GOAL in text for text in trials)


@pytest.mark.slow
def test_how_closely_a_searched_number_is_known_is_told_with_its_goal(tmp_path: Path) -> None:
    heard = Heard()
    run(LIMIT, tmp_path / "l.results", heard)
    widths = [standing.width for standing in heard.standings if standing.width]
    assert widths
    assert all("not probe.rtt.max > 2 ms, by bisection" in width for width in widths)


@pytest.mark.slow
def test_exported_values_have_a_column_of_goals(dataset: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "values.csv"
    assert CliRunner().invoke(export_app, [str(dataset.path), "-o", str(file)]).exit_code == 0
    rows = list(csv.DictReader(file.open()))
    of = {f"{row['role']}.{row['metric']}.{row['statistic']}": row["goal"] for row in rows}
    assert of["load.ndr.found"] == f"load.rate: {GOAL}"
    assert of["load.at10.latency.mean"] == f"of what was found by load.rate: {GOAL}"
    assert of["load.rate200.latency.mean"] == ""


@pytest.mark.slow
def test_a_check_of_a_file_says_what_is_searched_and_by_which_goal(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text(FILE)
    told = CliRunner().invoke(check_app, [str(file)])
    assert f"search    load.rate: {GOAL}" in told.output
    values: dict[str, Any] = json.loads(CliRunner().invoke(check_app, [str(file), "--json"]).output)
    assert values["searches"] == [f"load.rate: {GOAL}"]


@pytest.mark.slow
def test_what_was_found_by_another_goal_is_not_set_beside(dataset: Dataset, tmp_path: Path) -> None:
    other = run(FILE.replace("trial: 1 s", "trial: 500 ms"), tmp_path / "o.results")
    told = CliRunner().invoke(
        report_app, [str(dataset.path), "--with", str(other.path), "--json", "--figures", "none", "--directory",
        str(tmp_path / "r")],
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    values = json.loads(told.output)
    beside = {row["path"] for row in values["beside"]}
    assert "load.rate200.latency.mean" in beside
    assert not {path for path in beside if hangs(path)}
    assert any(
        "is not set beside" in note and GOAL in note and "trial of 0.5 s" in note for note in values["notes"]
    )


def test_only_metrics_of_streams_hang_on_a_search() -> None:
    from virtlab.analysis.searches.goals import BY_FOUND

    assert set(METRICS) >= BY_FOUND
