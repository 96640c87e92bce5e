"""A whole experiment: what the backend refuses, then every run that is left, until precise enough."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from virtlab.campaign.dispatch.work import Pool
from virtlab.campaign.execution.trial import as_tested
from virtlab.campaign.loop.campaign import Campaign, Ending
from virtlab.campaign.loop.parallel import Ahead
from virtlab.campaign.loop.precision import Precision
from virtlab.campaign.loop.resumption import check_identities
from virtlab.campaign.loop.schedule import Schedule
from virtlab.campaign.progress import CampaignObserver
from virtlab.errors import ExperimentError
from virtlab.experiment import DesignPoint, Experiment
from virtlab.plan.backend import Backend, Refusal
from virtlab.plan.model import Plan
from virtlab.plan.seeds import run_seed
from virtlab.planner import plan_run
from virtlab.planner.queues.default_pushback import default_pushback, keep_pushback
from virtlab.results import Dataset


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that the backend cannot play, and at which of the design points."""

    refusal: Refusal
    points: tuple[int, ...]

    def text(self, of: int) -> str:
        """`world.links.l1: reason; cure (2 of 6 points)`."""
        share = "" if len(self.points) == of else f" ({len(self.points)} of {of} points)"
        return f"{self.refusal.path}: {self.refusal.reason}; {self.refusal.cure}{share}"


_first_plans: WeakKeyDictionary[Experiment, dict[tuple[object, ...], Plan]] = WeakKeyDictionary()


def first_plan(experiment: Experiment, point: DesignPoint) -> Plan:
    """The Plan of a point's first run; kept, because what is to be refused is asked before anything is run."""
    plans = _first_plans.setdefault(experiment, {})
    key = point.index, experiment.seed, default_pushback(experiment)
    if key not in plans:
        plans[key] = plan_run(experiment, point, 0)
    return plans[key]


def refused(experiment: Experiment, backend: Backend, points: Collection[int] | None = None) -> list[Refused]:
    """Everything that the backend refuses of the experiment, each once, before anything is built."""
    found: dict[Refusal, list[int]] = {}
    for point in experiment.points():
        if points is None or point.index in points:
            plan, search = first_plan(experiment, point), experiment.study(point).search
            told = [refusal for played in as_tested(search, plan) for refusal in backend.check(played)]
            for refusal in dict.fromkeys(told):
                found.setdefault(refusal, []).append(point.index)
    return [Refused(refusal, tuple(where)) for refusal, where in found.items()]


def select_points(points: Sequence[DesignPoint], *texts: str) -> frozenset[int]:
    """Points by number (`0,3-5`) or by levels (`load=30 kB,switches=2`; of one factor named twice, either); of several
    texts, what any of them means. ExperimentError when one means none."""
    return frozenset().union(*(_selected(points, text) for text in texts))


def _selected(points: Sequence[DesignPoint], text: str) -> frozenset[int]:
    if "=" in text:
        wanted = _levels(points, text)
        chosen = frozenset(
            point.index
            for point in points
            if all(point.levels[factor] in levels for factor, levels in wanted.items())
        )
    else:
        chosen = frozenset(number for part in text.split(",") for number in _range(part.strip()))
    known = {point.index for point in points}
    if not chosen or not chosen <= known:
        unknown = ", ".join(str(number) for number in sorted(chosen - known)) or text
        raise ExperimentError(
            "--points", f"there is no point {unknown}", f"points are 0 to {len(points) - 1}"
        )
    return chosen


def _levels(points: Sequence[DesignPoint], text: str) -> dict[str, set[str]]:
    """Factor -> the levels of it that are meant."""
    factors = points[0].levels if points else {}
    wanted: dict[str, set[str]] = {}
    for part in text.split(","):
        factor, is_level, level = part.strip().partition("=")
        if not is_level:
            what = f"'{part.strip()}' is not a level, and beside levels there are no numbers"
            again = next((name for name in reversed(wanted) if _has(points, name, factor)), None)
            cure = f"write '{again}={factor}' for another level of {again}" if again else ""
            raise ExperimentError("--points", what, cure or "write either 0,3-5 or 'load=30 kB,switches=2'")
        if factor not in factors:
            known = ", ".join(factors) or "none"
            raise ExperimentError("--points", f"'{factor}' is not a factor", f"use one of {known}")
        levels = list(dict.fromkeys(point.levels[factor] for point in points))
        if level not in levels:
            what = f"'{level}' is not a level of {factor}"
            parts = [one.strip() for one in level.split("|")]
            either = ",".join(f"{factor}={one}" for one in parts)
            cure = f"write '{either}'" if set(parts) <= set(levels) else f"use one of {', '.join(levels)}"
            raise ExperimentError("--points", what, cure)
        wanted.setdefault(factor, set()).add(level)
    return wanted


def _has(points: Sequence[DesignPoint], factor: str, level: str) -> bool:
    return any(point.levels[factor] == level for point in points)


def _range(part: str) -> range:
    first, dash, last = part.partition("-")
    try:
        return range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise ExperimentError(
            "--points", f"'{part}' is not a point", "write e.g. 0,3-5 or 'load=30 kB'"
        ) from None


def run_campaign(
    experiment: Experiment,
    dataset: Dataset,
    backend: Backend,
    observer: CampaignObserver | None = None,
    *,
    points: frozenset[int] | None = None,
    run_limit: int | None = None,
    pool: Pool | None = None,
    retry: bool = False,
) -> Ending:
    """Makes every run that is left of the experiment; each is on disk before the next begins.

    `points` restricts the design points, `run_limit` the runs of this call. With a `pool` many runs are made at once;
    for backends whose sessions do not disturb each other only. `retry`: runs that failed before are no
    attempts. DatasetError when a finished run was planned
    differently.
    """
    design = experiment.points()

    @functools.lru_cache(maxsize=4096)
    def plan_of(point: int, repetition: int) -> Plan:
        if repetition == 0:
            return first_plan(experiment, design[point])
        seed = run_seed(experiment.seed, design[point].levels, repetition)
        return plan_of(point, 0).repeated(repetition, seed)

    keep_pushback(experiment, ((record.point, record.plan) for record in dataset.runs()))
    check_identities(dataset, plan_of)
    repeat = experiment.repeat
    precision = Precision.of(dataset, repeat)
    schedule = Schedule(
        experiment.seed,
        [point.levels for point in design],
        repeat.minimum,
        repeat.maximum,
        looks=precision.rule.planned if precision else (),
        precise=precision.precise if precision else lambda _point, _n: False,
        selected=points,
    )
    campaign = Campaign(
        dataset,
        backend,
        schedule,
        plan_of,
        observer or CampaignObserver(),
        width=precision.width if precision else lambda _point: "",
        precision_path=str(precision.path) if precision else "",
        budget_ns=repeat.time_ns,
        run_limit=run_limit,
        retry=retry,
        search_of=lambda point: experiment.study(design[point]).search,
        **({"learnt": precision.learn} if precision else {}),
    )
    searching = any(experiment.study(point).search is not None for point in design)
    if pool is None or searching:  # a search asks for one trial after the other
        return campaign.run()
    return Ahead(campaign, pool).run()
