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
