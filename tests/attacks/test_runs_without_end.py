"""Simulated runs that no memory holds are refused before they begin, and those that kill their worker are failed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from virtlab.campaign import run_campaign
from virtlab.campaign.dispatch import LocalPool
from virtlab.campaign.loop.parallel import LOSSES_OF_ONE
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.results import Dataset
from virtlab.simulator import Simulator

STUDY = """
version: 1
name: without-end
hosts: 2
topology: direct
factors: {count: COUNTS}
repeat: 1
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, count: "${count}", interval: 1 us}
"""


class Killed(Simulator):
    """A backend that takes its process with it where a role makes seven samples, as the kernel does when memory is
    short.
    """

    def open(self, plan: Any, observe: Any) -> Any:
        with (Path(os.environ["KILLS"])).open("a") as kills:
            kills.write(f"{plan.roles['probe'].parameters['count']}\n")
        if plan.roles["probe"].parameters["count"] == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().open(plan, observe)


def test_a_thousand_million_samples_are_refused_before_they_take_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("virtlab.simulator.limits.memory_bytes", lambda: 24 << 30)
    experiment = load_text(STUDY.replace("COUNTS", "[1000000000]"))
    refused = Simulator().check(plan_run(experiment, experiment.points()[0], 0))
    assert [one.path for one in refused] == ["roles.probe"]
    assert "1,000,000,000 samples take about" in refused[0].reason
    assert refused[0].cure


@pytest.mark.process
def test_a_run_that_kills_its_worker_is_failed_after_three_times_and_the_others_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILLS", str(tmp_path / "kills"))
    text = STUDY.replace("COUNTS", "[5, 6, 7, 8, 9, 10]")
    experiment = load_text(text)
    with Dataset.create(
        tmp_path / "d", text, name=experiment.name, seed=experiment.seed, backend="simulator"
    ) as dataset:
        pool = LocalPool(dataset, Killed(), 2)
        try:
            ending = run_campaign(experiment, dataset, Killed(), pool=pool)
        finally:
            pool.close()
        good = {record.levels["count"] for record in dataset.runs("ok")}
        failed = dataset.runs("failed")
    assert good == {"5", "6", "8", "9", "10"}
    assert {record.levels["count"] for record in failed} == {"7"}
    assert all("its worker died 3 times, each time alone with it" in record.reasons[0] for record in failed)
    assert ending.lacking
    begun = (tmp_path / "kills").read_text().split().count("7")
    assert begun <= len(failed) * (LOSSES_OF_ONE + 1)
