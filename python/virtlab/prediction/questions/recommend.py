"""Which level is best, which are as good, and which are out of the question, by simulation.

Candidates are all combinations of the levels that are varied. The choice (`campaign.search.selection`) says which of
them still need runs; here those are played and judged. The goal is the mean over independent runs of one statistic;
constraints are limits as capacity has them. Where the profile's parameters have intervals, every candidate is played
with the same few drawn profiles too: a cost that all candidates pay alike does not blur which of them is best.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from virtlab.analysis.values import RunValue
from virtlab.campaign.search.selection import Constraint, Selection, Standing
from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment
from virtlab.experiment.overrides import Input, at_level, find_input
from virtlab.lazy import np
from virtlab.metrics import METRICS, MetricPath
from virtlab.plan import Observer
from virtlab.planner import plan_run
from virtlab.prediction.questions.capacity import DRAWS, sizes
from virtlab.prediction.questions.limits import Judged, Limit, judge_runs, measuring_path, row_of, shifts_of
from virtlab.prediction.simulation.simulate import Job, play_all
from virtlab.prediction.simulation.uncertainty import combined, drawn_jobs, has_intervals
from virtlab.simulator.profile import Profile
from virtlab.stats import Estimate

CANDIDATES_MAX = 500


@dataclass(frozen=True, slots=True)
class Goal:
    """The statistic to minimise or maximise."""

    path: MetricPath
    better: Literal["lower", "higher"]

    def __str__(self) -> str:
        return f"{'least' if self.better == 'lower' else 'most'} {self.path}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A combination of levels and what is known of it; `difference` is its mean less that of the best one.

    `broken` are constraints that it is shown to break; `missing` says why a run had no value.
    """

    levels: Mapping[str, str]
    standing: Standing
    runs: int
    estimate: Estimate | None
    difference: Estimate | None
    constraints: tuple[Estimate | None, ...]
    broken: tuple[Limit, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Recommendation:
    """The answer at one combination of the other factors; candidates in the order of their standing, best first."""

    others: Mapping[str, str]
    goal: Goal
    limits: tuple[Limit, ...]
    confidence: float
    margin: float
    candidates: tuple[Candidate, ...]
    simulations: int  # at the profile's values
    drawn: int = 0  # with drawn parameters

    @property
    def best(self) -> Candidate | None:
        """The leading candidate; None where none is shown to keep the constraints."""
        return next((one for one in self.candidates if one.standing == "best"), None)


ORDER: tuple[Standing, ...] = (
    "best",
    "equivalent",
    "undecided",
    "not shown feasible",
    "worse",
    "infeasible",
)


def parse_goal(text: str, roles: Mapping[str, str], where: str) -> Goal:
    """`rtt.mean`, or with `min` or `max` before it. ExperimentError when neither way is better by itself."""
    word, _, rest = text.strip().partition(" ")
    ways: dict[str, Literal["lower", "higher"]] = {"min": "lower", "max": "higher"}
    path = measuring_path(rest.strip() if word in ways else text.strip(), roles, where)
    if word in ways:
        return Goal(path, ways[word])
    better = METRICS[path.metric].better
    if better == "neither":
        raise ExperimentError(
            where, f"neither more nor less of {path.metric} is better", f"write 'min {path}' or 'max {path}'"
        )
    return Goal(path, better)


@dataclass
class Choice:
    """What is asked: the best of the combinations of `varied` (input -> its levels) at one combination of the
    others.
    """

    experiment: Experiment
    profile: Profile
    varied: Mapping[Input, Sequence[str]]
    others: Mapping[str, str]
    goal: Goal
    limits: Sequence[Limit]
    confidence: float = 0.95
    margin: float = 0.05
    runs_max: int = 30
    draws: int = DRAWS
    observer: Observer | None = None
    say: Callable[[str], None] = lambda _text: None
    _runs: dict[int, list[list[RunValue]]] = field(default_factory=dict, init=False)
    _drawn: dict[int, list[list[RunValue]]] = field(default_factory=dict, init=False)
    _combinations: list[dict[Input, str]] = field(init=False)

    def __post_init__(self) -> None:
        if not has_intervals(self.profile):
            self.draws = 0
        fixed = {find_input(self.experiment, name): level for name, level in self.others.items()}
        inputs = list(self.varied)
        self._combinations = [
            {**fixed, **dict(zip(inputs, levels, strict=True))}
            for levels in itertools.product(*self.varied.values())
            if self._is_wanted(dict(zip(inputs, levels, strict=True)))
        ]
        count = len(self._combinations)
        if not count:
            raise ExperimentError("--vary", "the exclusions leave no combination", "exclude less")
        if count > CANDIDATES_MAX:
            raise ExperimentError(
                "--vary",
                f"{count} combinations are more than {CANDIDATES_MAX}",
                "vary fewer factors, or --points",
            )

    def _is_wanted(self, chosen: Mapping[Input, str]) -> bool:
        """Whether the file does not exclude it. What the file lacks is not excluded: a level of another input, or
        another level of a factor.
        """
        levels = dict(self.others) | {one.name: level for one, level in chosen.items() if one.place is None}
        known = {name: level for name, level in levels.items() if level in self.experiment.factors[name]}
        return any(
            all(point.levels.get(name) == level for name, level in known.items())
            for point in self.experiment.points()
        )

    def answer(self) -> Recommendation:
        """Chooses. ExperimentError when a combination cannot be simulated."""
        search = Selection(
            len(self._combinations), self.goal.better, len(self.limits), self.confidence, self.margin,
            sizes(self.runs_max),
        )  # fmt: skip
        while (asked := search.ask()) is not None:
            who, runs = asked
            self._play(who, runs)
            search.tell(
                {at: self._values(at) for at in who},
                {at: [Constraint(one.p_broken, one.p_kept) for one in self._judged(at)] for at in who},
                {at: self._shifts(at) for at in who},
            )
            self.say(f"{runs} runs of {len(who)} candidates; {search.standing().count('worse')} fell behind")
        standing, lead = search.standing(), search.leading()
        found = [self._candidate(at, one, search, lead) for at, one in enumerate(standing)]
        sign = 1.0 if self.goal.better == "lower" else -1.0
        found.sort(
            key=lambda each: (
                ORDER.index(each.standing),
                sign * each.estimate.point if each.estimate is not None else 0.0,
            )
        )
        return Recommendation(
            dict(self.others), self.goal, tuple(self.limits), self.confidence, self.margin, tuple(found),
            sum(map(len, self._runs.values())), sum(map(len, self._drawn.values())),
        )  # fmt: skip

    def _play(self, who: Sequence[int], runs: int) -> None:
        jobs, owners = [], []
        for at in who:
            have = len(self._runs.setdefault(at, []))
            if have < runs:
                experiment = at_level(self._combinations[at])
                point = experiment.points()[0]
                jobs += [Job(plan_run(experiment, point, each), self.profile) for each in range(have, runs)]
                owners += [at] * (runs - have)
        for at, rows in zip(owners, play_all(jobs, self.observer), strict=True):
            self._runs[at].append(rows)
        new = [at for at in who if self.draws and at not in self._drawn]
        jobs = []
        for at in new:
            experiment = at_level(self._combinations[at])
            jobs += drawn_jobs(experiment, experiment.points()[0], self.profile, self.draws, self._paired)
        played = iter(play_all(jobs, self.observer))
        for at in new:
            self._drawn[at] = [next(played) for _ in range(self.draws)]

    @property
    def _paired(self) -> int:
        """Seeds that drawn worlds share with runs."""
        return sizes(self.runs_max)[0]

    def _shifts(self, at: int) -> list[float]:
        path = self.goal.path
        return shifts_of(self._rows(at, path), self._drawn.get(at, ()), self._paired, path)

    def _rows(self, at: int, path: MetricPath) -> list[RunValue]:
        return [row_of(rows, path) for rows in self._runs[at]]

    def _values(self, at: int):  # type: ignore[no-untyped-def]
        """Values of all runs; None when some run had none."""
        found = [row.value for row in self._rows(at, self.goal.path)]
        return None if any(value is None for value in found) else np.array(found, dtype=np.float64)

    def _judged(self, at: int) -> list[Judged]:
        drawn = self._drawn.get(at, ())
        return [
            judge_runs(limit, self._runs[at], self.confidence, drawn, self._paired) for limit in self.limits
        ]

    def _candidate(self, at: int, standing: Standing, search: Selection, lead: int | None) -> Candidate:
        path = self.goal.path
        rows = self._rows(at, path)
        values = [row.value for row in rows if row.value is not None]
        missing = next((row.reason for row in rows if row.value is None), "")
        judged = self._judged(at)
        shifts = [] if missing else [each for each in self._shifts(at) if not math.isnan(each)]
        estimate = None
        if not missing:
            whole = combined(values, shifts, level=self.confidence, metric=path.metric, unit=path.unit)
            estimate = whole.estimate
        difference = None
        if lead is not None and lead != at and not missing:
            found = search.difference(at, lead)
            if found is not None:
                low, high = found.interval(1.0 - 2.0 * search.pair_alpha)
                difference = Estimate(
                    path.metric, path.unit, found.value, low, high, self.confidence, sum(found.runs),
                    "Welch t, corrected for all pairs and looks",
                )  # fmt: skip
        broken = tuple(
            limit
            for limit, one in zip(self.limits, judged, strict=True)
            if standing == "infeasible" and one.p_kept <= search.constraint_alpha
        )
        levels = {one.label: level for one, level in self._combinations[at].items() if one in self.varied}
        return Candidate(
            levels, standing, search.runs(at), estimate, difference,
            tuple(one.estimate for one in judged), broken, missing,
        )  # fmt: skip
