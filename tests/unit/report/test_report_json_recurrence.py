"""How well single values recur stands in the report's JSON as in its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import load_text
from virtlab.report import as_json
from virtlab.report.gather.dataset import gather
from virtlab.results import Dataset
from virtlab.simulator import Simulator

FILE = """
version: 1
name: recurring
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s}
roles:
  probe: {workload: psping, test: latency, from: h1.g1, to: h2.g1, size: 1000 B, count: 60}
  load: {workload: udp_stream, from: h1.g1, to: h2.g1, rate: 40 Mbit/s, arrivals: poisson, size: 1 kB payload, duration: 2 s}
timeline:
  - {id: load, do: start, role: load}
  - {id: probe, do: run, role: probe, after: load.started + 100 ms}
  - {id: stop, do: stop, role: load, after: probe.finished}
repeat: 3
"""


@pytest.mark.slow
def test_within_and_between_runs_stand_in_the_json(tmp_path: Path) -> None:
    experiment, backend = load_text(FILE), Simulator()
    able = backend.capabilities()
    with open_dataset(
        tmp_path / "d", FILE, name=experiment.name, seed=experiment.seed, backend=able
    ) as dataset:
        run_campaign(experiment, dataset, backend)
    made = Dataset.open(tmp_path / "d")
    rows = [row for row in as_json(made, None, gather(made))["recurrence"] if row["role"] == "probe"]
    (row,) = [row for row in rows if row["metric"] == "rtt"]
    assert (row["runs"], row["samples"], row["unit"]) == (3, 180, "ns")
    assert row["mean"] > 0
    assert row["within_sd"] > 0
    assert 0.0 <= row["low"] <= row["share_between"] <= row["high"] <= 1.0
    assert row["share_between"] == pytest.approx(
        row["between_sd"] ** 2 / (row["between_sd"] ** 2 + row["within_sd"] ** 2), abs=1e-6
    )
