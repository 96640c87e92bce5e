"""How long whole studies take in virtual time: the switched network, 1000 probes a run, and over-allocation at full
size.

The whole campaign is measured, from the first Plan to the last run on disk, with one worker per processor; the report
is not. Goals, on two cores: 10 s, and two minutes.
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
from virtlab.simulator.profile import load_profile

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
OVER_ALLOCATION = EXPERIMENTS / "over-allocation"
# Name, file, profile and goal in s.
STUDIES = (
    ("simulator.full_study", EXPERIMENTS / "switched-network" / "full.yaml", None, 10.0),
    ("simulator.over_allocation_study", OVER_ALLOCATION / "published.yaml",
     OVER_ALLOCATION / "virtual-machines.profile.toml", 120.0),
)  # fmt: skip


def bench() -> Iterator[dict[str, Any]]:
    """Seconds for each study, and of the processors' time."""
    for name, file, profile, goal_s in STUDIES:
        yield {"name": name, "unit": "s", "goal": f"<= {goal_s}", **_played(file, profile)}


def _played(file: Path, profile: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="virtlab-bench-") as folder:
        before = os.times()
        begun = time.monotonic()
        experiment = load(file)
        backend = Simulator(load_profile(str(profile))) if profile else Simulator()
        assert not refused(experiment, backend)
        text = file.read_text(encoding="utf-8")
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
        return {
            "value": round(value, 2), "runs": ending.made, "jobs": pool.size,
            "cpu_s": round(sum(after[:4]) - sum(before[:4]), 2),
        }  # fmt: skip
