"""A prediction as a sum of terms that adds up.

Each term is the difference between two worlds that follow each other, simulated with the same seeds: the measured role
alone on wires without propagation and processing, then with propagation, with processing, with the other traffic
(queueing), and with one group of the profile's costs after the other. What a guest that moves is measured by has other
worlds before those groups: memory that nothing writes to is copied, then it is written to. So the terms add up to the
prediction exactly, for any statistic; the order is part of their meaning. Intervals are those of the paired
differences over replications, and of what the profile's parameters may be where they have intervals of their own
(`uncertainty`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from virtlab.errors import ExperimentError
from virtlab.experiment import DesignPoint, Experiment
from virtlab.metrics import MetricPath
from virtlab.metrics.migration import OF_CLIENTS
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.planner.mobility.moves import moves
from virtlab.prediction.simulation.simulate import simulate
from virtlab.prediction.simulation.uncertainty import combined, drawn_values, has_intervals
from virtlab.prediction.simulation.worlds import alone, unwritten, without_processing, without_propagation
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile
from virtlab.simulator.shares import working
from virtlab.stats import Estimate

GROUPS = (
    ("virtual switches", ("vswitch.",)),
    ("links: departures and lateness", ("links.", ".frame_ns")),
    ("guests: vNICs", ("qdisc.", ".crossing")),
    ("pools: idle vCPUs, contention and turns", ("pool.", ".idle_vcpu", ".request_ns")),
    ("guests: processes and wake-ups", ("platform.", "wakeup.", "flow.", "flood.", "busy.")),
)
OF_MOVES = ("moves: times beside memory", ("migration.",))
# What it has more than the one before, its costs, and what is changed in the Plan.
World = tuple[str, Profile, Callable[[Plan], Plan] | None]


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the total, in the metric's unit."""

    name: str
    estimate: Estimate


def explain(
    experiment: Experiment,
    profile: Profile,
    path: MetricPath,
    point: int,
    *,
    repetitions: int,
    level: float = 0.95,
    draws: int = 0,
) -> tuple[list[Term], Estimate]:
    """Terms in order, and the total, with `draws` worlds of drawn parameters each. ExperimentError when the simulation
    has no value of the path.
    """

    def values(used: Profile, change: Callable[[Plan], Plan] | None) -> list[float]:
        table = simulate(experiment, used, points=[point], repetitions=repetitions, change=change)
        found = [row.value for row in sorted(table.of(path).values(), key=lambda row: row.repetition)]
        if len(found) != repetitions or any(value is None for value in found):
            raise ExperimentError(
                str(path), "has no value in the simulation", "name a role's metric that runs have"
            )
        return [value for value in found if value is not None]

    worlds = _ideal_worlds(experiment, point, path)
    kept_of: dict[int, list[str]] = {}
    if not profile.is_ideal:
        kept: list[str] = []
        moving = bool(moves(plan_run(experiment, _at(experiment, point), 0)))
        for name, starts in (OF_MOVES, *GROUPS) if moving else GROUPS:
            kept += [
                key
                for key in (*profile.parameters, *profile.tables)
                if _in_group(key, starts) and key not in kept
            ]
            kept_of[len(worlds)] = list(kept)
            worlds.append((name, _only(profile, kept), None))
    if not has_intervals(profile):
        draws = 0
    one = _at(experiment, point)
    terms: list[Term] = []
    before = [0.0] * repetitions
    drawn_before = [0.0] * draws
    for number, (name, used, change) in enumerate(worlds):
        after = values(used, change)
        drawn_after = [after[at % repetitions] for at in range(draws)]
        if draws and not used.is_ideal:
            names = kept_of[number]
            found = drawn_values(
                experiment, one, profile, draws=draws, repetitions=repetitions, change=change,
                restrict=lambda each, names=names: _only(each, names),  # type: ignore[misc]
            )  # fmt: skip
            drawn_after = [each.get(path, after[at % repetitions]) for at, each in enumerate(found)]
        nominal = [b - a for a, b in zip(before, after, strict=True)]
        shifts = [(drawn_after[at] - drawn_before[at]) - nominal[at % repetitions] for at in range(draws)]
        terms.append(Term(name, _interval(nominal, shifts, path, level)))
        before, drawn_before = after, drawn_after
    shifts = [drawn_before[at] - before[at % repetitions] for at in range(draws)]
    return terms, _interval(before, shifts, path, level)


def _at(experiment: Experiment, point: int) -> DesignPoint:
    return next(each for each in experiment.points() if each.index == point)


def _ideal_worlds(experiment: Experiment, point: int, path: MetricPath) -> list[World]:
    """The worlds without costs, each with what it has more than the one before. ExperimentError without any."""
    plan, role = plan_run(experiment, _at(experiment, point), 0), path.role
    entities = {f"guests.{guest}" for guest in moves(plan)}
    if role in entities or (path.metric in OF_CLIENTS and plan.roles[role].to in moves(plan)):
        return [
            ("copy of memory that is not written", IDEAL_PROFILE, unwritten),
            ("writes during the copy", IDEAL_PROFILE, None),
        ]
    if role not in plan.roles:
        reason = "is of no role and of no guest that moves, so no world has it alone"
        raise ExperimentError(str(path), reason, f"name a metric of {', '.join(plan.roles)}")
    return [
        (
            _first_name(plan, role),
            IDEAL_PROFILE,
            lambda plan: without_propagation(without_processing(alone(plan, role))),
        ),
        ("propagation", IDEAL_PROFILE, lambda plan: without_processing(alone(plan, role))),
        ("switches: processing", IDEAL_PROFILE, lambda plan: alone(plan, role)),
        ("queueing behind other traffic", IDEAL_PROFILE, None),
    ]


def _first_name(plan: Plan, role: str) -> str:
    """What takes time in the first world: of a role whose server works, its work and the waits for it, too."""
    served = working(plan.model_copy(update={"roles": {role: plan.roles[role]}}))
    return "service and serialisation" if served else "serialisation"


def _in_group(key: str, starts: Sequence[str]) -> bool:
    return any(key.startswith(start) or (start.startswith(".") and start in key) for start in starts)


def _only(profile: Profile, names: Sequence[str]) -> Profile:
    return replace(
        profile,
        parameters={
            name: each if name in names else Parameter(0.0) for name, each in profile.parameters.items()
        },
        tables={name: each for name, each in profile.tables.items() if name in names},
    )


def _interval(values: Sequence[float], shifts: Sequence[float], path: MetricPath, level: float) -> Estimate:
    return combined(values, shifts, level=level, metric=path.metric, unit=path.unit).estimate
