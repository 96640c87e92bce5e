"""How long the full switched-network study takes in virtual time: all design points, 1000 probes a run, to its precision.

The whole campaign is measured, from the first Plan to the last run on disk, with one worker per processor; the report is
not. Goal: 10 s on two cores.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtlab.campaign import run_campaign
from virtlab.campaign.dispatch import LocalPool
from virtlab.campaign.run import refused
from virtlab.experiment import load
from virtlab.results import Dataset
from virtlab.simulator import Simulator

FILE = Path(__file__).parents[1] / "experiments" / "switched-network" / "full.yaml"
GOAL_S = 10.0


def bench() -> Iterator[dict[str, Any]]:
    """Seconds for the study, and of the processors' time."""
    with tempfile.TemporaryDirectory(prefix="virtlab-bench-") as folder:
        before = os.times()
        begun = time.monotonic()
        experiment = load(FILE)
        backend = Simulator()
        assert not refused(experiment, backend)
        text = FILE.read_text(encoding="utf-8")
        path = Path(folder) / "study.results"
        with Dataset.create(
            path, text, name=experiment.name, seed=experiment.seed, backend="simulator"
        ) as dataset:
            pool = LocalPool(dataset, backend, len(os.sched_getaffinity(0)))
            try:
                ending = run_campaign(experiment, dataset, backend, pool=pool)
            finally:
                pool.close()
            if ending.why != "complete" or ending.lacking:
                raise AssertionError(
                    f"the study ended with {ending.why}, {len(ending.lacking)} points lack runs"
                )
        value = time.monotonic() - begun
        after = os.times()
        cpu_s = sum(after[:4]) - sum(before[:4])
        yield {
            "name": "simulator.full_study",
            "unit": "s",
            "value": round(value, 2),
            "goal": f"<= {GOAL_S}",
            "runs": ending.made,
            "jobs": pool.size,
            "cpu_s": round(cpu_s, 2),
        }
