"""`split` in a file: how many flows are strong, lowered to shares, and the index J that a report draws against."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fairness import fairness
from tools.drawable import names_of_experiment

from virtlab.analysis import run_values
from virtlab.campaign import open_dataset, run_campaign
from virtlab.catalogue.split import shares
from virtlab.experiment import FileMistakesError, load_text
from virtlab.metrics import MetricPath
from virtlab.planner import plan_run
from virtlab.report.figures.plots import figures_of
from virtlab.report.gather.dataset import gather
from virtlab.results import Dataset
from virtlab.simulator import Simulator

FILE = """
version: 1
name: split
factors: {strong: {from: 1, to: 4, step: 1}}
hosts: 2
topology: line
link: {rate: 100 Mbit/s}
roles:
  load:
    {workload: raw_stream, from: h1.g1, to: h2.g1, size: 128 B frame, rate: 4 kpacket/s, duration: 500 ms,
     flows: 4, split: {strong: "${strong}", weak_share: 1 %}}
repeat: 1
timing: {warmup: 0 s, drain: 10 ms}
"""


def test_a_split_becomes_the_shares_of_the_plan_and_can_be_a_factor() -> None:
    experiment = load_text(FILE)
    for point in experiment.points():
        parameters = plan_run(experiment, point, 0).roles["load"].parameters
        assert parameters["shares"] == pytest.approx(shares(4, int(point.levels["strong"]), 0.01))
        assert "split" not in parameters


def test_a_split_takes_its_number_of_flows_from_the_guests_of_via() -> None:
    text = FILE.replace("topology: line\nlink: {rate: 100 Mbit/s}\n", "").replace(
        "hosts: 2",
        "hosts: {h1: {vswitches: [br0, br1], guests: {g1: {vswitches: [br0]}, g2: {vswitches: [br1]}, "
        "r: {count: 3, vswitches: [br0, br1], forwarding: layer3}}}}",
    )
    text = text.replace("to: h2.g1", "to: h1.g2").replace("flows: 4", "via: [h1.r1, h1.r2, h1.r3]")
    experiment = load_text(text.replace("to: 4, step", "to: 3, step"))
    assert [
        len(plan_run(experiment, one, 0).roles["load"].parameters["shares"]) for one in experiment.points()
    ] == [3] * 3


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("flows: 4", "flows: 3", r"4 of 3 flows cannot be strong; write between 1 and 3"),
        ("flows: 4, ", "", r"one flow cannot share its load; say how many there are by 'via' or 'flows'"),
        ("flows: 4", "shares: [50 %, 50 %]", r"by 'shares' or by 'split'; keep one"),
        ("weak_share: 1 %", "weak_share: 1", r"'1' has no unit"),
        ("weak_share: 1 %", "weak_share: 0 %", r"between 0 % and 100 %"),
        (", weak_share: 1 %", "", r"a split without 'weak_share'"),
        ("weak_share: 1 %", "weak_part: 1 %", r"did you mean 'weak_share'\?"),
        ('{strong: "${strong}", weak_share: 1 %}', "4", r"is not a split of a load; write e.g."),
    ],
)  # fmt: skip
def test_a_wrong_split_is_a_mistake_with_its_cure(old: str, new: str, says: str) -> None:
    assert old in FILE
    with pytest.raises(FileMistakesError, match=says):
        load_text(FILE.replace(old, new))


@pytest.mark.slow
def test_a_report_draws_against_the_index_of_the_offered_load(tmp_path: Path) -> None:
    experiment, backend, folder = load_text(FILE), Simulator(), tmp_path / "split.results"
    with open_dataset(folder, FILE, name="split", seed=1, backend=backend.capabilities()) as dataset:
        run_campaign(experiment, dataset, backend, None)
    dataset = Dataset.open(folder)
    table = run_values(dataset)
    for strong in range(1, 5):
        where = {"strong": str(strong)}
        offered = table.values(MetricPath("load", "offered_fairness", "jain"), where)
        arrived = table.values(MetricPath("load", "fairness", "jain"), where)
        assert offered == pytest.approx([fairness(4, strong, 0.01)])
        assert arrived == pytest.approx(offered, rel=0.02)
    data = gather(dataset)
    drawn = {figure.name: figure for figure in figures_of(data)}
    assert "load-fairness-jain-by-strong" in drawn
    plot = drawn["load-fairness-jain-by-j"]
    places = {row["x"] for layer in plot.spec["layer"] for row in layer["data"]["values"]}
    assert sorted(places) == pytest.approx(
        sorted(round(fairness(4, strong, 0.01), 4) for strong in range(1, 5))
    )
    file = tmp_path / "split.yaml"
    file.write_text(FILE)
    assert {"load-fairness-jain-by-strong", "load-fairness-jain-by-j"} <= set(names_of_experiment(file))
