"""How far predictions are from measurements: one factor level left out at a time, the rest fitted, the left-out
predicted.

Whole levels, never random folds: a prediction is asked about set-ups that were never measured, and runs beside a
left-out one would give it away. The error is compared with that of the naive guess, the measured value at the
nearest other level of that factor: a model that is no better is not worth its name. A level between others is an
interpolation, one at an end an extrapolation; levels that are names are neither.

The error is |predicted - measured| / |measured|, of means over runs. Cells that were measured as zero have none.
Runs of different link realisations are never pooled: each has errors of its own.

Any dataset can be asked. What cannot be judged is said with its reason: a factor of one level, a level without
which nothing is left that shows a cost it pays, a world that the simulator refuses, a metric that a search makes.
Where no role tells any cost, the ideal platform is held, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from virtlab.analysis import RunTable, run_values
from virtlab.catalogue import WORKLOADS
from virtlab.errors import ExperimentError
from virtlab.experiment import DesignPoint, Experiment, load_text
from virtlab.lazy import np
from virtlab.metrics import MetricPath
from virtlab.planner import plan_run
from virtlab.planner.queues.default_pushback import keep_pushback
from virtlab.prediction.calibration.pools import Loads
from virtlab.prediction.calibration.refit import Rows, rows_of
from virtlab.prediction.simulation.simulate import Job, play_all
from virtlab.results import Dataset, RunRecord
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, Profile, missing
from virtlab.stats import mean_interval
from virtlab.units import level_number

Reach = Literal["interpolation", "extrapolation", "other name"]
MATCHED_MAX = 5  # simulated runs of a point unless said otherwise
GOAL = 0.10  # of the median error
CHOSEN = (
    ("rtt", "mean"), ("rtt", "mdev"), ("jitter_rfc3550", "mean"), ("jitter_rfc3550", "final"), ("goodput", "mean"),
    ("response_time", "mean"), ("response_time", "p95"), ("transaction_time", "mean"), ("bandwidth", "mean"),
    ("answer_rate", "mean"), ("operation_time", "mean"), ("operation_rate", "mean"),
)  # fmt: skip
RATES = {"answer_rate", "operation_rate"}
FULL = (
    0.95  # of the requests that were due: where fewer were answered, the rate of answers is the highest load
)


@dataclass(frozen=True, slots=True)
class Error:
    """One left-out design point and metric: values in the metric's unit; `nearest` is the naive guess."""

    factor: str
    level: str
    point: Mapping[str, str]
    path: MetricPath
    realisation: str
    reach: Reach
    measured: float
    measured_half: float | None  # half the width of its 95 % interval
    predicted: float
    nearest: float | None

    @property
    def ratio(self) -> float:
        """Relative error of the prediction."""
        return abs(self.predicted - self.measured) / abs(self.measured)

    @property
    def naive_ratio(self) -> float | None:
        """Relative error of the nearest level; None without one."""
        return None if self.nearest is None else abs(self.nearest - self.measured) / abs(self.measured)


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors of one factor and metric, or of one metric over all factors (`factor` empty): medians and 90th
    percentiles.

    `noise` is the median of the measured means' own relative half widths: no model can be closer than that.
    """

    factor: str
    path: MetricPath
    realisation: str
    reaches: Mapping[Reach, tuple[int, float]]  # number and median error of each kind
    median: float
    p90: float
    naive_median: float | None
    noise: float | None
    cells: int

    @property
    def reached(self) -> bool:
        """Whether the median error is within the goal."""
        return self.median <= GOAL


@dataclass(frozen=True)
class Validation:
    """All errors, and their summaries per factor and over all."""

    dataset: str
    backend: str
    how: str
    errors: tuple[Error, ...]
    per_factor: tuple[Summary, ...]
    overall: tuple[Summary, ...]
    notes: tuple[str, ...]
    simulations: int


def validate(
    dataset: Dataset,
    *,
    profile: Profile | None = None,
    paths: Sequence[MetricPath] = (),
    repetitions: int | None = None,
    per_level: int = 12,
    processors: int = 2,
    say: Callable[[str], None] = lambda _text: None,
) -> Validation:
    """Leaves one level of one factor out at a time. `profile` None: refitted each time; else that one is held.

    Each left-out point is simulated `repetitions` times (None: as often as it was measured, at most 5), with the
    seeds of its measured runs. At most `per_level` design points of a level are predicted, spread over the others.
    What cannot be judged is listed in `notes`, with the reason.
    """
    experiment = load_text(dataset.experiment_text, runs_max=None)
    table = run_values(dataset)
    roles = experiment.role_workloads()
    records = dataset.runs("ok")
    keep_pushback(experiment, ((record.point, record.plan) for record in records))
    notes: list[str] = []
    errors: list[Error] = []
    made = 0
    for realisation in table.realisations:
        part = table.only(realisation=realisation)
        mine = [record for record in records if record.link_realisation == realisation]
        one = _Part(
            experiment, part, mine, realisation, profile, list(paths) or _paths(part, roles), repetitions, per_level
        )  # fmt: skip
        found, count = one.errors(processors, say, notes)
        errors += found
        made += count
    if not records:
        notes.append("no run came out well, so nothing was measured")
    how = "refitted to the other levels" if profile is None else f"held profile {profile.identity}"
    return Validation(
        dataset.path.name, dataset.manifest.backend, how, tuple(errors), tuple(_summaries(errors, per_factor=True)),
        tuple(_summaries(errors, per_factor=False)), tuple(dict.fromkeys(notes)), made,
    )  # fmt: skip


@dataclass
class _Part:
    """Runs of one realisation."""

    experiment: Experiment
    table: RunTable
    records: list[RunRecord]
    realisation: str
    profile: Profile | None
    paths: list[MetricPath]
    repetitions: int | None
    per_level: int

    def errors(
        self, processors: int, say: Callable[[str], None], notes: list[str]
    ) -> tuple[list[Error], int]:
        measured = {record.point for record in self.records}
        points = [point for point in self.experiment.points() if point.index in measured]
        levels = {
            factor: list(dict.fromkeys(point.levels[factor] for point in points))
            for factor in self.experiment.factors
        }
        if not levels:
            notes.append("the experiment has no factor, so no level can be left out")
        for factor, known in levels.items():
            if len(known) < 2:
                notes.append(
                    f"{factor}: only {' and '.join(known) or 'no level'} has good runs, so none can be left out"
                )
        varying = {factor: found for factor, found in levels.items() if len(found) > 1}
        if varying and not self.paths:
            notes.append(
                "no role has delay, jitter or throughput that can be compared; --metric names another metric"
            )
            return [], 0
        rows: Rows | None = None
        loads = Loads([], [])
        ideal = False
        if self.profile is None and varying:
            say("simulating what each cost adds")
            rows = rows_of(self.records, processors)
            loads = Loads.of(self.records)
            notes.extend(rows.notes)
            ideal = not (rows.rows or rows.contended)
            if (disturbed := loads.said_of_disturbance()) is not None:
                notes.append(disturbed)
            if loads.runs:
                say("fitting what services cost in pools")
                beneath = self._base(rows, ideal=ideal)
                assert beneath is not None, "there are rows, or it is ideal"
                loads.fitted(beneath, processors=processors, name="refit")
            elif ideal:
                notes.append(
                    "no role tells what the platform costs, so the ideal platform is held, which costs nothing"
                )
        found: list[Error] = []
        made = 0 if rows is None else rows.simulations + loads.simulations
        for factor, known in varying.items():
            for level in known:
                out = {point.index for point in points if point.levels[factor] == level}
                used = self.profile or self._base(rows, out, ideal=ideal)
                if used is not None and loads.runs and self.profile is None:
                    before = loads.simulations
                    pooled = loads.fitted(used, processors=processors, name="refit", leave_out=out)
                    used = None if pooled is None else pooled.profile
                    made += loads.simulations - before
                if used is None:
                    notes.append(
                        f"{factor} = {level}: nothing is left to fit without it, so it is not predicted"
                    )
                    continue
                say(f"{factor} = {level} left out")
                chosen = _evenly([point for point in points if point.index in out], self.per_level)
                if len(chosen) < len(out):
                    notes.append(
                        f"at most {self.per_level} design points of a level are predicted; --per-level takes more"
                    )
                able, why = self._playable(chosen, used)
                if why:
                    notes.append(
                        f"{factor} = {level}: cannot be judged at {len(chosen) - len(able)} of "
                        f"{len(chosen)} design points: {why}"
                    )
                try:
                    some = self._predicted(factor, level, known, able, used)
                except ExperimentError as error:
                    notes.append(f"{factor} = {level}: cannot be judged: {error}")
                    continue
                if able and not some:
                    notes.append(
                        f"{factor} = {level}: no value other than zero was both measured and simulated"
                    )
                found += some
                made += sum(self._repetitions(point) for point in able)
        return found, made

    def _base(self, rows: Rows | None, leave_out: Collection[int] = (), *, ideal: bool) -> Profile | None:
        """Costs of all but services in pools."""
        if ideal:
            return IDEAL_PROFILE
        return None if rows is None else rows.profile(leave_out)

    def _playable(self, points: Sequence[DesignPoint], profile: Profile) -> tuple[list[DesignPoint], str]:
        """Those that the simulator plays with the profile, and why it does not play the first of the others."""
        backend = Simulator(profile)
        able, why = [], ""
        for point in points:
            plan = plan_run(self.experiment, point, 0)
            unknown = missing(profile, plan)
            if not unknown and not (refused := backend.check(plan)):
                able.append(point)
            elif not why:
                why = (
                    f"no other level tells what {' and '.join(sorted({what for _, what in unknown}))} costs"
                    if unknown
                    else f"{refused[0].path} {refused[0].reason}"
                )
        return able, why

    def _predicted(
        self, factor: str, level: str, known: list[str], points: Sequence[DesignPoint], profile: Profile
    ) -> list[Error]:
        jobs = [
            Job(plan_run(self.experiment, point, repetition), profile, point.index)
            for point in points
            for repetition in range(self._repetitions(point))
        ]
        played = iter(play_all(jobs))
        found = []
        for point in points:
            values: dict[MetricPath, list[float]] = {}
            for _ in range(self._repetitions(point)):
                for row in next(played):
                    if row.value is not None and row.path in self.paths:
                        values.setdefault(row.path, []).append(row.value)
            for path in self.paths:
                measured = mean_interval(
                    self.table.values(path, point.levels), metric=path.metric, unit=path.unit
                )
                if measured is None or measured.point == 0 or path not in values:
                    continue
                if path.metric in RATES and not self._full(path, point, measured.point):
                    continue
                predicted = sum(values[path]) / len(values[path])
                found.append(
                    Error(
                        factor, level, point.levels, path, self.realisation, reach(level, known), measured.point,
                        measured.half_width, predicted, self._nearest(path, point, factor, level, known),
                    )
                )  # fmt: skip
        return found

    def _full(self, path: MetricPath, point: DesignPoint, answered: float) -> bool:
        """Whether more could not have been answered; below, a rate of answers is that of the requests."""
        role = plan_run(self.experiment, point, 0).roles[path.role]
        if WORKLOADS[role.workload].turns(role.parameters):
            return True
        due = self.table.values(MetricPath(path.role, "request_rate", "mean"), point.levels)
        return bool(due) and answered < FULL * sum(due) / len(due)

    def _repetitions(self, point: DesignPoint) -> int:
        if self.repetitions is not None:
            return self.repetitions
        return min(sum(record.point == point.index for record in self.records), MATCHED_MAX)

    def _nearest(
        self, path: MetricPath, point: DesignPoint, factor: str, level: str, known: list[str]
    ) -> float | None:
        """The measured mean at the nearest other level of the factor, all else equal; None when none was measured."""
        for other in by_nearness(level, known):
            values = self.table.values(path, {**point.levels, factor: other})
            if values:
                return sum(values) / len(values)
        return None


def reach(level: str, known: Sequence[str]) -> Reach:
    """Whether a level lies between others.

    >>> reach("2", ["1", "2", "3"]), reach("3", ["1", "2", "3"]), reach("ovs", ["ovs", "bridge"])
    ('interpolation', 'extrapolation', 'other name')
    """
    own, numbers = level_number(level), [level_number(one) for one in known]
    present = [number for number in numbers if number is not None]
    if own is None or len(present) < len(numbers):
        return "other name"
    return "interpolation" if min(present) < own < max(present) else "extrapolation"


def by_nearness(level: str, known: Sequence[str]) -> list[str]:
    """The other levels, the nearest first: by number where all are, else by their places in the file.

    >>> by_nearness("30 kB", ["0 B", "20 kB", "30 kB", "60 kB"])
    ['20 kB', '0 B', '60 kB']
    """
    numbers = [level_number(one) for one in known]
    places: dict[str, float] = {
        one: float(number) if number is not None and None not in numbers else float(at)
        for at, (one, number) in enumerate(zip(known, numbers, strict=True))
    }
    return sorted(
        (one for one in known if one != level),
        key=lambda each: (abs(places[each] - places[level]), places[each]),
    )


def _paths(table: RunTable, roles: Mapping[str, str]) -> list[MetricPath]:
    """Delay, jitter and throughput of the roles that measure; jitter of echoes, where it is not next to nothing."""
    return [
        path
        for path in table.paths()
        if (path.metric, path.statistic) in CHOSEN
        and path.role in roles
        and WORKLOADS[roles[path.role]].part == "measure"
        and (path.metric != "jitter_rfc3550" or WORKLOADS[roles[path.role]].echoes)
    ]


def _evenly(points: list[DesignPoint], most: int) -> list[DesignPoint]:
    if len(points) <= most:
        return points
    if most == 1:
        return points[:1]
    return [points[at] for at in sorted({round(k * (len(points) - 1) / (most - 1)) for k in range(most)})]


def _summaries(errors: Sequence[Error], *, per_factor: bool) -> list[Summary]:
    groups: dict[tuple[str, MetricPath, str], list[Error]] = {}
    for one in errors:
        groups.setdefault((one.factor if per_factor else "", one.path, one.realisation), []).append(one)
    found = []
    for (factor, path, realisation), group in groups.items():
        ratios = np.array([one.ratio for one in group])
        naive = [one.naive_ratio for one in group if one.naive_ratio is not None]
        noise = [one.measured_half / abs(one.measured) for one in group if one.measured_half is not None]
        kinds: dict[Reach, list[float]] = {}
        for one in group:
            kinds.setdefault(one.reach, []).append(one.ratio)
        found.append(
            Summary(
                factor, path, realisation,
                {kind: (len(values), float(np.median(values))) for kind, values in sorted(kinds.items())},
                float(np.median(ratios)), float(np.quantile(ratios, 0.9)),
                float(np.median(naive)) if naive else None, float(np.median(noise)) if noise else None, len(group),
            )
        )  # fmt: skip
    return found
