"""Searches repeated until what they found is known closely enough: one whole search in a world of its own is one
run.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.unit.campaign.search_specimen import Losing

from virtlab.analysis import run_values
from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import load_text
from virtlab.metrics import MetricPath
from virtlab.plan import Plan, Trial
from virtlab.plan.backend import Observer, Outcome, Session, Sink
from virtlab.results import Dataset
from virtlab.simulator import Simulator
from virtlab.stats import mean_interval

FILE = """
version: 1
name: repeated
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 1 Gbit/s}
roles:
  load: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 1518 B frame, duration: 20 ms}
search:
  variable: load.rate
  low: 1 kpacket/s
  high: 16 kpacket/s
  SEARCH
repeat: {minimum: 3, maximum: 12, until: {metric: load.METRIC.found, relative_interval: ASKED %}}
timing: {warmup: 0 ms, drain: 20 ms}
"""
BY_GOAL = "goals: [{loss: 0 %, trial: 20 ms, initial_trial: 20 ms, duration_sum: 60 ms, width: 0.5 %}]\n  warmup: 0 s"
BY_CONDITION = "until: load.loss.ratio > 0 %\n  resolution: 20 packet/s"
MIDDLE_PPS, SCATTER = 6000.0, 0.04


class Limited:
    """A session of a device that loses above a limit, which is another one in each world."""

    def __init__(self, session: Session, seed: int, scatter: float) -> None:
        self.session = session
        self.limit_pps = MIDDLE_PPS * (1.0 + random.Random(seed).gauss(0.0, scatter))
        self.realised = session.realised

    def __enter__(self) -> Limited:
        self.session.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self.session.__exit__(*ended)

    def run(self, trial: Trial, sink: Sink) -> Outcome:
        over = float(trial.overrides["load.rate_pps"]) > self.limit_pps
        return self.session.run(trial, Losing(sink) if over else sink)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)


class Scattered(Simulator):
    """The simulator with such devices."""

    scatter = SCATTER

    def open(self, plan: Plan, observe: Observer) -> Session:
        return Limited(super().open(plan, observe), plan.seed, self.scatter)  # type: ignore[return-value]


class Equal(Scattered):
    """Devices that are all alike."""

    scatter = 0.0


def searched(folder: Path, backend: Simulator, search: str, metric: str, asked: float) -> Dataset:
    text = FILE.replace("SEARCH", search).replace("METRIC", metric).replace("ASKED", f"{asked:g}")
    experiment, able = load_text(text), backend.capabilities()
    with open_dataset(folder, text, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend)
    return Dataset.open(folder)


KINDS = [("ndr_rate", BY_GOAL), ("limit_packet_rate", BY_CONDITION)]


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "search"), KINDS)
def test_searches_that_agree_stop_at_the_least_number(metric: str, search: str, tmp_path: Path) -> None:
    found = run_values(searched(tmp_path / "d", Equal(), search, metric, 2)).values(
        MetricPath("load", metric, "found")
    )
    assert len(found) == 3
    assert found == pytest.approx([MIDDLE_PPS] * 3, rel=0.006)


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "search"), KINDS)
def test_searches_that_scatter_are_repeated_until_their_interval_is_as_narrow_as_asked(
    metric: str, search: str, tmp_path: Path
) -> None:
    dataset = searched(tmp_path / "d", Scattered(), search, metric, 4)
    found = run_values(dataset).values(MetricPath("load", metric, "found"))
    assert 3 < len(found) < 12  # three searches that scatter by 4 % leave an interval of about 10 %
    interval = mean_interval(found, metric=metric, unit="1/s")
    assert interval is not None
    assert interval.relative_half_width is not None
    assert interval.relative_half_width <= 0.04
    seeds = {record.plan.seed for record in dataset.runs("ok")}
    assert len(seeds) == len(found)  # each a world of its own
    # The same command repeats nothing and adds nothing.
    again = searched(tmp_path / "d", Scattered(), search, metric, 4)
    assert [record.name for record in again.runs("ok")] == [record.name for record in dataset.runs("ok")]


@pytest.mark.slow
def test_searches_that_scatter_too_much_end_at_the_greatest_number(tmp_path: Path) -> None:
    dataset = searched(tmp_path / "d", Scattered(), BY_GOAL, "ndr_rate", 0.2)
    assert len(dataset.runs("ok")) == 12
