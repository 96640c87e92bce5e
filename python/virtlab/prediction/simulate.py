"""Plans simulated for a prediction: run-level values, from samples that are not kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from virtlab.campaign import CampaignObserver
from virtlab.campaign.execute import execute
from virtlab.errors import ExperimentError
from virtlab.planner import plan_run
from virtlab.results import Dataset, RunKey, RunRecord
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Profile

if TYPE_CHECKING:
    from virtlab.analysis import RunTable
    from virtlab.experiment import Experiment
    from virtlab.plan import Plan


def simulate(
    experiment: Experiment,
    profile: Profile,
    *,
    points: Iterable[int] | None = None,
    repetitions: int = 5,
    change: Callable[[Plan], Plan] | None = None,
) -> RunTable:
    """Values of the design points (all when None), each repeated; `change` alters every Plan before it is played.

    ExperimentError when the simulator refuses one, or a run fails.
    """
    from virtlab.analysis import run_values

    backend = Simulator(profile)
    able = backend.capabilities()
    with tempfile.TemporaryDirectory(prefix="virtlab-predict-") as folder:
        place = Path(folder) / "simulated.results"
        with Dataset.create(
            place, experiment.text, name=experiment.name, seed=experiment.seed, backend=able.backend,
            fingerprint=able.fingerprint, anonymise=True,
        ) as dataset:  # fmt: skip
            for point in experiment.points():
                if points is not None and point.index not in points:
                    continue
                for repetition in range(repetitions):
                    plan = plan_run(experiment, point, repetition)
                    plan = change(plan) if change else plan
                    if found := backend.check(plan):
                        raise ExperimentError(found[0].path, found[0].reason, found[0].cure)
                    record = execute(
                        dataset, RunKey(point.index, repetition, 0), plan, backend, CampaignObserver()
                    )
                    _refuse_failure(record)
            return run_values(dataset)


def _refuse_failure(record: RunRecord | None) -> None:
    if record is None or record.status != "ok":
        reasons = "cancelled" if record is None else "; ".join(record.reasons)
        raise ExperimentError("simulation", f"a run did not end well ({reasons})", "mend the file")
