"""A load is good when it is for every flow: the worst one's loss judges, and a condition can name one flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.analysis import run_values
from virtlab.analysis.searches.searched import trials_of
from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import FileMistakesError, load_text
from virtlab.metrics import MetricPath
from virtlab.results import Dataset
from virtlab.simulator import Simulator

FILE = """
version: 1
name: flows
hosts: 2
topology: line
link: {rate: 100 Mbit/s}
links: {s1-h2: {rate: 10 Mbit/s, queue: {kind: fifo, limit: 20 packets}}}
roles:
  load:
    {workload: raw_stream, from: h1.g1, to: h2.g1, size: 512 B frame, duration: 300 ms, flows: 3,
     split: {strong: 1, weak_share: 10 %}}
search:
  variable: load.rate
  low: 500 packet/s
  high: 8 kpacket/s
  GOAL
repeat: 1
timing: {warmup: 0 s, drain: 50 ms}
"""
GOALS = "goals: [{loss: 20 %, trial: 300 ms, initial_trial: 300 ms, duration_sum: 300 ms, width: 2 %}]\n  warmup: 0 s"


def run(goal: str, folder: Path) -> Dataset:
    text = FILE.replace("GOAL", goal)
    experiment, backend = load_text(text), Simulator()
    able = backend.capabilities()
    with open_dataset(folder, text, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend, None)
    return Dataset.open(folder)


@pytest.mark.slow
def test_the_worst_flow_judges_a_load_unless_the_file_says_the_stream(tmp_path: Path) -> None:
    found = {}
    for whose, more in (("flow", ""), ("stream", "\n  loss_per: stream")):
        dataset = run(GOALS + more, tmp_path / whose)
        held = trials_of(dataset.runs("ok")[0])
        assert held is not None
        header, trials, goals = held
        assert ("of every flow" in goals[0]["text"]) == (whose == "flow")
        assert header["loss_per"] == whose
        for trial in trials:
            stream = (trial["sent"] - trial["received"] + trial["unsent"]) / (trial["sent"] + trial["unsent"])
            if whose == "stream":
                assert trial["loss_ratio"] == pytest.approx(stream)
            else:
                assert trial["loss_ratio"] >= stream - 1e-12
        found[whose] = goals[0]["value"]
    assert found["flow"] < found["stream"]  # drop-tail hits flows unequally


@pytest.mark.slow
def test_without_any_loss_allowed_the_worst_flow_and_the_stream_agree(tmp_path: Path) -> None:
    goal = GOALS.replace("loss: 20 %", "loss: 0 %")
    both = [run(goal + more, tmp_path / str(at)) for at, more in enumerate(("", "\n  loss_per: stream"))]
    values = [run_values(each).values(MetricPath("load", "ndr", "found"))[0] for each in both]
    assert values[0] == values[1]


@pytest.mark.slow
def test_a_condition_can_be_of_one_flow_or_of_any(tmp_path: Path) -> None:
    limits = {}
    for path in ("load.flow1.loss.ratio", "load.flow_loss.max", "load.flow_loss.min"):
        table = run_values(run(f"until: {path} > 0 %", tmp_path / path))
        limits[path] = table.values(MetricPath("load", "limit_packet_rate", "found"))[0]
    assert limits["load.flow_loss.max"] <= limits["load.flow1.loss.ratio"] <= limits["load.flow_loss.min"]
    assert limits["load.flow_loss.max"] < limits["load.flow_loss.min"]


@pytest.mark.slow
def test_a_flow_that_is_none_is_a_mistake_with_its_cure() -> None:
    with pytest.raises(FileMistakesError, match=r"load has no flow 'flow7'; did you mean 'flow"):
        load_text(FILE.replace("GOAL", "until: load.flow7.loss.ratio > 0 %"))
    with pytest.raises(FileMistakesError, match=r"not one of flow, stream"):
        load_text(FILE.replace("GOAL", "loss_per: guest"))
    with pytest.raises(
        FileMistakesError,
        match=r"65 flows are more than are counted separately, 64; write 'loss_per: stream'",
    ):
        load_text(FILE.replace("GOAL", "loss_per: flow").replace("flows: 3", "flows: 65"))
    load_text(FILE.replace("GOAL", "goals: [{loss: 0 %}]").replace("flows: 3", "flows: 65"))
