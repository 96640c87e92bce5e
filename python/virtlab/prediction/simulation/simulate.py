"""Plans simulated for a prediction: run-level values, from samples that are held in memory and not kept.

Runs are independent, so many are played at once: the core gives the interpreter's lock away while it plays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from virtlab.analysis import RunTable, table_of
from virtlab.analysis.runs import values_of_run
from virtlab.analysis.values import RunValue
from virtlab.campaign import CampaignObserver
from virtlab.campaign.dispatch.local import processors
from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment
from virtlab.plan import Event, Observer, Plan, Trial
from virtlab.plan.backend import Columns
from virtlab.planner import plan_run
from virtlab.results import RunKey
from virtlab.results.record import Stream
from virtlab.results.trial import TrialRecord
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Profile


@dataclass(frozen=True, slots=True)
class Job:
    """A run to play: its Plan, with what costs, and the place of its design point."""

    plan: Plan
    profile: Profile
    point: int = 0


class _Memory:
    """Holds what one run measures."""

    def __init__(self) -> None:
        self.blocks: dict[Stream, list[Columns]] = {}

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        """Rows of a stream."""
        self.blocks.setdefault(Stream(stream, schema), []).append(dict(columns))

    def event(self, event: Event) -> None:
        """Events say nothing that is predicted."""

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """A simulated run leaves none."""


def play(job: Job, observer: Observer | None = None) -> TrialRecord:
    """One run. ExperimentError when the simulator refuses it or it fails; KeyboardInterrupt when it was cancelled."""
    backend = Simulator(job.profile)
    if found := backend.check(job.plan):
        raise ExperimentError(found[0].path, found[0].reason, found[0].cure)
    sink = _Memory()
    with backend.open(job.plan, observer or CampaignObserver()) as session:
        outcome = session.run(Trial("t0", job.plan.seed), sink)
    if outcome.status == "cancelled":
        raise KeyboardInterrupt
    if outcome.status != "ok":
        reasons = "; ".join(outcome.reasons)
        raise ExperimentError("simulation", f"a run did not end well ({reasons})", "mend the file")
    record = TrialRecord.of(job.plan, outcome, sink.blocks, {})
    named = dataclasses.replace(record, key=RunKey(job.point, job.plan.repetition, 0))
    named.__dict__["plan"] = job.plan
    return named


def values(record: TrialRecord) -> list[RunValue]:
    """Values of a run that `play` gave."""
    return values_of_run(record)


def play_records(jobs: Sequence[Job], observer: Observer | None = None) -> list[TrialRecord]:
    """Many runs, in the order given, with all their samples: for few jobs at once."""
    with ThreadPoolExecutor(min(processors(), max(len(jobs), 1)), "virtlab-predict") as pool:
        return list(pool.map(lambda job: play(job, observer), jobs))


def play_all(jobs: Sequence[Job], observer: Observer | None = None) -> list[list[RunValue]]:
    """Values of many runs, in the order given."""
    with ThreadPoolExecutor(min(processors(), max(len(jobs), 1)), "virtlab-predict") as pool:
        return list(pool.map(lambda job: values(play(job, observer)), jobs))


def simulate(
    experiment: Experiment,
    profile: Profile,
    *,
    points: Iterable[int] | None = None,
    repetitions: int = 5,
    change: Callable[[Plan], Plan] | None = None,
    profile_of: Callable[[int], Profile] | None = None,
    observer: Observer | None = None,
) -> RunTable:
    """Values of the design points (all when None), each repeated; `change` alters every Plan before it is played.

    `profile_of(repetition)` gives another profile to each repetition. ExperimentError when the simulator refuses a run,
    or it fails.
    """
    wanted = None if points is None else set(points)
    jobs = []
    for point in experiment.points():
        if wanted is not None and point.index not in wanted:
            continue
        for repetition in range(repetitions):
            plan = plan_run(experiment, point, repetition)
            used = profile_of(repetition) if profile_of is not None else profile
            jobs.append(Job(change(plan) if change else plan, used, point.index))
    return table_of(row for rows in play_all(jobs, observer) for row in rows)
