"""`virtlab run FILE --backend simulator`: from the file to a dataset and verdicts, without a testbed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from virtlab.cli.main import app
from virtlab.results import Dataset

QUICK = Path(__file__).parents[3] / "experiments/switched-network/quick.yaml"


@pytest.mark.slow
def test_the_quick_study_is_simulated_from_file_to_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "quick.results"
    options = [
        "--backend",
        "simulator",
        "--dataset",
        str(path),
        "--max-runs",
        "6",
        "--jobs",
        "1",
        "--no-report",
        "--json",
    ]
    result = CliRunner().invoke(app, ["run", str(QUICK), *options])
    assert result.exit_code in {0, 1, 4}, result.output
    said = json.loads(result.stdout)
    assert said["runs_made"] == 6
    runs = Dataset.open(path).runs("ok")
    assert len(runs) == 6
    rtt_ns = {
        record.plan.point["switches"]: set(record.samples("probe", "rtt/1")["rtt_ns"].tolist())
        for record in runs
        if record.plan.point["load"] == "0 B"
    }
    assert rtt_ns == {"1": {488_320}, "2": {732_480}}


@pytest.mark.slow
def test_predict_answers_every_metric_that_is_named(tmp_path: Path) -> None:
    from virtlab.cli.prediction.predict import app

    file = tmp_path / "two.yaml"
    file.write_text(
        "version: 1\nname: two\nhosts: 2\ntopology: line\nlink: {rate: 100 Mbit/s}\nroles:\n"
        "  probe: {workload: rtt, from: h1.g1, to: h2.g1, count: 10, interval: 10 ms}\n"
    )
    metrics = ["probe.rtt.median", "probe.loss.ratio"]
    asked = [word for one in metrics for word in ("--metric", one)]
    run = CliRunner().invoke(app, [str(file), *asked, "--repetitions", "2", "--draws", "0", "--json"])
    assert run.exit_code == 0, run.output
    assert [one["metric"] for one in json.loads(run.stdout)["predictions"]] == metrics


@pytest.mark.slow
def test_predict_answers_where_a_load_is_there_and_says_where_it_is_not(tmp_path: Path) -> None:
    from virtlab.cli.prediction.predict import app

    file = tmp_path / "loads.yaml"
    file.write_text(
        "version: 1\nname: loads\nhosts: 2\ntopology: line\nlink: {rate: 100 Mbit/s}\n"
        "factors: {rate: [0 bit/s, 20 Mbit/s]}\nroles:\n"
        "  probe: {workload: rtt, from: h1.g1, to: h2.g1, count: 10, interval: 10 ms}\n"
        '  load: {workload: udp_stream, as: load, from: h1.g1, to: h2.g1, rate: "${rate}"}\n'
    )

    def told(*more: str) -> tuple[int, list[str]]:
        run = CliRunner().invoke(app, [str(file), *more, "--repetitions", "2", "--draws", "0"])
        return run.exit_code, run.output.splitlines()[1:]

    code, lines = told()
    assert code == 0
    assert [line.partition(": ")[0] for line in lines if "load.goodput" not in line] == [
        "rate = 0 bit/s", "rate = 20 Mbit/s",
    ]  # fmt: skip
    assert ["20 Mbit/s: load.goodput.mean" in line for line in lines if "load.goodput" in line] == [True]
    code, lines = told("--metric", "load.goodput.mean")
    assert code == 0
    assert lines[0] == "rate = 0 bit/s: load.goodput.mean: no value"
    code, _ = told("--metric", "load.goodput.mean", "--points", "rate=0 bit/s")
    assert code != 0
