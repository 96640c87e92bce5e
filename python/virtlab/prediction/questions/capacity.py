"""How far one can go: the largest level of an input that keeps limits, by simulation, and the bottleneck beyond it.

The search (`campaign.search.largest_level`) says which level to simulate and how often; here its runs are played and
judged. Each limit must be shown to be kept by itself, and one that is shown to be broken is enough. So the answer
is an interval: the largest level shown to keep all limits, and the smallest level above it shown to break one. In
between nothing was shown.

Where the profile's parameters have intervals, every level is played with a few drawn profiles too, the same at all
levels, and what they move widens each judgement: the answer holds for what the parameters may be (`uncertainty`).

What limits is found by two worlds, at the answer and at the level that breaks: which lines are full there, and which
term of the prediction (`explain`) grew most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from virtlab.analysis.values import RunValue
from virtlab.campaign.search.largest_level import LargestLevel, State
from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment
from virtlab.experiment.overrides import Input, at_level, find_input, grid
from virtlab.plan import Observer
from virtlab.planner import plan_run
from virtlab.prediction.questions.explain import explain
from virtlab.prediction.questions.limits import Judged, Limit, judge_runs
from virtlab.prediction.questions.resources import Resource, resources
from virtlab.prediction.simulation.simulate import Job, play_all, play_records, values
from virtlab.prediction.simulation.uncertainty import drawn_jobs, has_intervals
from virtlab.results.trial import TrialRecord
from virtlab.simulator.profile import Profile
from virtlab.stats import Estimate
from virtlab.units import level_number

EXPLAINED_RUNS = 3
DRAWS = 8  # of the profile's parameters, at every level that is tried


@dataclass(frozen=True, slots=True)
class Level:
    """A level that was simulated: `state` is good, bad or undecided; `estimates` by limit, None where a run had no
    value.
    """

    text: str
    runs: int
    state: State
    estimates: tuple[Estimate | None, ...]
    missing: str = ""  # why there is no value, or why there is no such world


@dataclass(frozen=True, slots=True)
class Growth:
    """How much a term of the prediction grew from the answer to the level that breaks, in the metric's unit."""

    name: str
    by: float
    share: float  # of the whole growth


@dataclass(frozen=True)
class Capacity:
    """The answer at one combination of the other factors. `largest` is None where no level keeps the limits.

    `violations` are levels that break a limit although a larger one keeps all: the order that the search relies on
    does not hold.
    """

    others: Mapping[str, str]
    input: str
    limits: tuple[Limit, ...]
    confidence: float
    levels: tuple[Level, ...]
    largest: str | None
    smallest_broken: str | None
    violations: tuple[str, ...]
    undecided: tuple[str, ...]
    broken: Limit | None
    at_answer: tuple[Resource, ...] = ()
    at_broken: tuple[Resource, ...] = ()
    growth: tuple[Growth, ...] = ()
    simulations: int = 0  # at the profile's values
    drawn: int = 0  # with drawn parameters
    explaining: int = 0  # simulations made to say what limits
    not_tried: int = 0
    level_count: int = 0

    @property
    def saturated(self) -> list[Resource]:
        """Lines that are full, or drop, at the level that breaks (at the answer when none does)."""
        return [one for one in (self.at_broken or self.at_answer) if one.saturated]


@dataclass
class Question:
    """What is asked: the largest level of `levels` (in order) of an input at one combination of the other factors.

    `carrying` are roles that each guest beyond those of the file carries once more, where guests vary.
    """

    experiment: Experiment
    profile: Profile
    input: Input
    levels: Sequence[str]
    others: Mapping[str, str]
    limits: Sequence[Limit]
    confidence: float = 0.95
    runs_max: int = 30
    open_end: bool = False
    carrying: Sequence[str] = ()
    draws: int = DRAWS
    observer: Observer | None = None
    say: Callable[[str], None] = lambda _text: None
    _fixed: dict[Input, str] = field(init=False)
    _runs: dict[int, list[list[RunValue]]] = field(default_factory=dict, init=False)
    _records: dict[int, list[TrialRecord]] = field(default_factory=dict, init=False)
    _drawn: dict[int, list[list[RunValue]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not has_intervals(self.profile):
            self.draws = 0
        self._fixed = {find_input(self.experiment, name): level for name, level in self.others.items()}

    def answer(self) -> Capacity:
        """Searches. ExperimentError when a level of the file cannot be simulated."""
        search = LargestLevel(
            len(self.levels), confidence=self.confidence, sizes=sizes(self.runs_max), open_end=self.open_end
        )
        judged: dict[int, list[Judged]] = {}
        refused: dict[int, str] = {}
        while (asked := search.ask()) is not None:
            try:
                found = self._judge(asked.place, asked.runs)
            except ExperimentError as error:
                if not self.open_end or not judged:
                    raise
                refused[asked.place] = str(error)
                search.refuse()
                continue
            judged[asked.place] = found
            margin = min(self._margin(limit, one) for limit, one in zip(self.limits, found, strict=True))
            state = search.tell(
                max(one.p_broken for one in found),
                min(1.0, len(found) * min(one.p_kept for one in found)),
                margin,
            )
            self.say(
                f"{self.input.label} = {self.levels[asked.place]}: {STATES[state]} after {asked.runs} runs"
            )
        answer = search.answer()
        top, above = answer.largest, answer.smallest_bad
        broken = self._broken(judged.get(above)) if above is not None else None
        simulations = sum(len(runs) for runs in self._runs.values())
        grown, explaining = self._growth(top, above, broken) if above not in refused else ((), 0)
        levels = [
            Level(
                self.levels[place],
                len(self._runs.get(place, ())),
                search.state(place) or "open",
                tuple(one.estimate for one in judged.get(place, ())),
                refused.get(place) or next((one.missing for one in judged.get(place, ()) if one.missing), ""),
            )
            for place in sorted({*judged, *refused})
        ]
        text = self.levels.__getitem__
        return Capacity(
            others=dict(self.others), input=self.input.label, limits=tuple(self.limits), confidence=self.confidence,
            levels=tuple(levels), largest=None if top is None else text(top),
            smallest_broken=None if above is None else text(above),
            violations=tuple(map(text, answer.violations)), undecided=tuple(map(text, answer.undecided)), broken=broken,
            at_answer=self._resources(top), at_broken=self._resources(above), growth=grown,
            simulations=simulations, drawn=sum(map(len, self._drawn.values())), explaining=explaining,
            not_tried=len(self.levels) - len(levels), level_count=len(self.levels),
        )  # fmt: skip

    def at(self, place: int) -> Experiment:
        """The experiment with one design point: this level, and the others as they are."""
        return at_level({**self._fixed, self.input: self.levels[place]}, self.carrying)

    def _judge(self, place: int, runs: int) -> list[Judged]:
        kept = self._runs.setdefault(place, [])
        if len(kept) < runs:
            experiment = self.at(place)
            point = experiment.points()[0]
            jobs = [Job(plan_run(experiment, point, each), self.profile) for each in range(len(kept), runs)]
            records = play_records(jobs, self.observer)
            kept += [values(record) for record in records]
            self._records.setdefault(place, []).extend(
                records[: EXPLAINED_RUNS - len(self._records.get(place, ()))]
            )
        first = sizes(self.runs_max)[0]
        if self.draws and place not in self._drawn:
            experiment = self.at(place)
            jobs = drawn_jobs(experiment, experiment.points()[0], self.profile, self.draws, first)
            self._drawn[place] = play_all(jobs, self.observer)
        drawn = self._drawn.get(place, ())
        return [judge_runs(limit, kept, self.confidence, drawn, first) for limit in self.limits]

    def _margin(self, limit: Limit, judged: Judged) -> float:
        """How far on the good side, as a share of the limit's size."""
        if judged.estimate is None:
            return 1.0 if judged.p_broken == 0 else -1e9
        scale = abs(limit.value) or 1.0
        gap = limit.value - judged.estimate.point
        return (gap if limit.below else -gap) / scale

    def _broken(self, judged: Sequence[Judged] | None) -> Limit | None:
        if judged is None:
            return None
        return min(zip(judged, self.limits, strict=True), key=lambda pair: pair[0].p_kept)[1]

    def _resources(self, place: int | None) -> tuple[Resource, ...]:
        records = self._records.get(place, ()) if place is not None else ()
        return tuple(resources(records, self.limits[0].path.role)[:6]) if records else ()

    def _growth(
        self, top: int | None, above: int | None, broken: Limit | None
    ) -> tuple[tuple[Growth, ...], int]:
        """Terms that grew, the largest first, and the simulations that it took; none where the metric is no delay."""
        if top is None or above is None or broken is None or broken.path.unit != "ns" or not broken.below:
            return (), 0
        if broken.path.role not in self.at(top).role_workloads():
            return (), 0  # of a host or a guest, which no role measures
        found, made = [], 0
        for place in (top, above):
            try:
                terms, _ = explain(self.at(place), self.profile, broken.path, 0, repetitions=EXPLAINED_RUNS)
            except (
                ExperimentError
            ):  # a run of this world, or of one of those it is explained by, has no value
                return (), made
            found.append({term.name: term.estimate.point for term in terms})
            made += EXPLAINED_RUNS * len(terms)
        grown = {name: value - found[0].get(name, 0.0) for name, value in found[1].items()}
        whole = sum(grown.values())
        if whole <= 0:
            return (), made
        order = sorted(grown.items(), key=lambda pair: -pair[1])
        return tuple(Growth(name, by, by / whole) for name, by in order if by > 0), made


STATES = {"good": "keeps", "bad": "breaks", "undecided": "undecided", "open": "open"}


def sizes(runs_max: int) -> tuple[int, ...]:
    """Planned numbers of runs of a level: from 4 up to the most, each about twice the one before.

    >>> sizes(30), sizes(4), sizes(2)
    ((4, 8, 16, 30), (4,), (2,))
    """
    found = [min(4, runs_max)]
    while found[-1] < runs_max:
        double = 2 * found[-1]
        found.append(double if double * 1.5 < runs_max else runs_max)
    return tuple(found)


def ordered_levels(
    target: Input, *, first: str | None, last: str | None, step: str | None
) -> tuple[list[str], bool]:
    """The levels to search, in rising order, and whether the end is open.

    Of a factor its own, unless a range is given. ExperimentError when there is no order or no first level.
    """
    if target.levels and first is None and last is None and step is None:
        numbers = [level_number(level) for level in target.levels]
        known = [number for number in numbers if number is not None]
        if len(known) == len(numbers):
            return [level for _, level in sorted(zip(known, target.levels, strict=True))], False
        return list(target.levels), False  # named levels are in the order of the file
    if target.named:
        raise ExperimentError(
            "--from, --to, --step", f"the levels of {target.label} are names", "leave the range out"
        )
    least = first or (target.levels[0] if target.levels else target.now)
    if not least or level_number(least) is None:
        raise ExperimentError("--from", f"{target.label} has no number to begin at", "write e.g. --from 1")
    unit = least.strip().partition(" ")[2]
    if last is not None:
        return grid(least, last, step), False
    if step is None and unit:
        raise ExperimentError(
            "--step", f"{target.label} has a unit", f"write e.g. --step '10 {unit}', or --to"
        )
    begin, wide = level_number(least), level_number(step) if step else 1.0
    if begin is None or not wide:
        raise ExperimentError("--step", f"'{step}' is not a step", "write a number with the level's unit")
    number = Decimal(least.split()[0])
    width = Decimal((step or "1").split()[0])
    if step and step.strip().partition(" ")[2] != unit:
        raise ExperimentError("--step", f"'{step}' is not in '{unit or 'plain numbers'}'", "use one unit")
    return [
        f"{format((number + at * width).normalize(), 'f')} {unit}".strip() for at in range(OPEN_LEVELS)
    ], True


OPEN_LEVELS = 1024  # of a search without an upper end
