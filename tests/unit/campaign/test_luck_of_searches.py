"""A search whose goal lies in the range of a coin toss says so: in the report, in its JSON, and in the run's own
trials.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.campaign.search_specimen import Losing

from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import load_text
from virtlab.plan import Plan, Trial
from virtlab.plan.backend import Observer, Outcome, Session, Sink
from virtlab.report import as_json
from virtlab.report.gather.goals import luck_notes
from virtlab.results import Dataset
from virtlab.simulator import Simulator

FILE = """
version: 1
name: tossed
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 1 Gbit/s}
links: {s1-h2: {rate: 100 Mbit/s}}
roles:
  load: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 1518 B frame}
search:
  variable: load.rate
  low: 100 packet/s
  high: 16 kpacket/s
  goals: [{loss: 0 %, trial: 50 ms, initial_trial: 50 ms, duration_sum: 1050 ms}]
  warmup: 0 s
repeat: {minimum: 4}
timing: {warmup: 0 ms, drain: 20 ms}
"""


class Tossing:
    """A session in which every other trial, by a coin, loses packets whatever the load."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session, self.coin = session, random.Random(seed)
        self.realised = session.realised

    def __enter__(self) -> Tossing:
        self.session.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self.session.__exit__(*ended)

    def run(self, trial: Trial, sink: Sink) -> Outcome:
        lost = self.coin.random() < 0.45 and trial.id != "kept"
        return self.session.run(trial, Losing(sink) if lost else sink)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)


class Stalled(Simulator):
    """The simulator with such sessions."""

    def open(self, plan: Plan, observe: Observer) -> Session:
        return Tossing(super().open(plan, observe), plan.seed)  # type: ignore[return-value]


def searched(folder: Path, backend: Simulator) -> Dataset:
    experiment, able = load_text(FILE), backend.capabilities()
    with open_dataset(folder, FILE, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend)
    return Dataset.open(folder)


def said(dataset: Dataset) -> list[str]:
    whole: Mapping[str, Any] = json.loads(json.dumps(as_json(dataset)))
    return [note for note in whole["notes"] if "luck decides" in note]


@pytest.mark.slow
def test_the_report_and_its_json_warn_of_searches_that_luck_decided(tmp_path: Path) -> None:
    dataset = searched(tmp_path / "d", Stalled())
    (note,) = luck_notes(dataset.runs("ok"))
    assert note.startswith("load.ndr: about ")
    assert "a shorter 'trial'" in note
    assert said(dataset) == [note]
    lasts = [
        json.loads((run.folder / "artefacts" / "trials.jsonl").read_text().splitlines()[-1])
        for run in dataset.runs("ok")
    ]
    assert all(one["found"][0]["luck"]["trials"] > 8 for one in lasts)


@pytest.mark.slow
def test_the_same_searches_without_stalls_say_nothing(tmp_path: Path) -> None:
    assert said(searched(tmp_path / "d", Simulator())) == []
