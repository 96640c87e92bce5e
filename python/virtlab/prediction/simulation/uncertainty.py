"""What not knowing the profile exactly adds to a prediction.

Every parameter of a profile has a 95 % interval. Worlds with parameters drawn from it (a normal distribution on either
side of the value, as wide as that side of the interval says, none below zero) are simulated with the seeds of the
worlds at the values themselves; the paired differences are what the parameters do, freed of most of what the seeds do.
Their root mean square is a standard uncertainty, combined with that of the mean over runs as independent ones are (GUM,
JCGM 100:2008, 5.1):

    half^2 = (t s / sqrt(n))^2 + t_K^2 mean(d_k^2)

A calibrated profile keeps some resamples of its fit, and a draw is one of them, all costs together: two that the data
could tell as a sum only move against each other, so the sum is as sure as it was measured. Parameters without resamples
are drawn independently, which overstates how unsure a sum of them is. A table whose median is unsure is moved as a
whole; its shape is taken as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from virtlab.experiment import DesignPoint, Experiment
from virtlab.lazy import np
from virtlab.metrics import MetricPath
from virtlab.plan import Plan
from virtlab.plan.seeds import draw_seed
from virtlab.planner import plan_run
from virtlab.prediction.simulation.simulate import Job, play_all
from virtlab.simulator.profile import Parameter, Profile, Quantiles
from virtlab.stats import Estimate, mean_interval
from virtlab.stats.means import t_quantile

NORMAL_95 = 1.959964
DRAWS = 20


@dataclass(frozen=True, slots=True)
class Uncertain:
    """An estimate that holds both, and half of the interval that each would give alone; None where it is not
    estimable.
    """

    estimate: Estimate
    runs_half: float | None
    parameters_half: float | None


def has_intervals(profile: Profile) -> bool:
    """Whether some parameter is not known exactly."""
    return any(
        (one.low is not None and one.low < one.value) or (one.high is not None and one.high > one.value)
        for one in profile.parameters.values()
    ) or any(table.low is not None or table.high is not None for table in profile.tables.values())


def drawn(profile: Profile, seed: int, draw: int) -> Profile:
    """The profile with every parameter drawn; equal seed and draw give equal parameters, whatever the others are."""
    resample = draw_seed(seed, draw, "resample")

    def drawn_of(parameter: Parameter, name: str) -> float:
        moved = profile.draws.get(name)
        if not moved:
            return _draw(parameter, name, seed, draw)
        return max(0.0, parameter.value + moved[resample % len(moved)])

    parameters = {name: Parameter(drawn_of(one, name)) for name, one in profile.parameters.items()}
    tables = {}
    for name, table in profile.tables.items():
        middle = Parameter(_median(table), table.low, table.high)
        moved = drawn_of(middle, name) - middle.value
        tables[name] = table.shifted(moved) if moved else table
    return replace(profile, parameters=parameters, tables=tables)


def _median(table: Quantiles) -> float:
    return float(np.interp(0.5, table.probability, table.ns))


def _draw(parameter: Parameter, name: str, seed: int, draw: int) -> float:
    z = float(np.random.default_rng(draw_seed(seed, draw, name)).standard_normal())
    end = parameter.high if z > 0 else parameter.low
    width = abs((parameter.value if end is None else end) - parameter.value) / NORMAL_95
    return max(0.0, parameter.value + z * width)


def drawn_values(
    experiment: Experiment,
    point: DesignPoint,
    profile: Profile,
    *,
    draws: int,
    repetitions: int,
    change: Callable[[Plan], Plan] | None = None,
    restrict: Callable[[Profile], Profile] = lambda profile: profile,
) -> list[Mapping[MetricPath, float]]:
    """Values by path of each draw, played with the seed of repetition `draw mod repetitions`.

    `restrict` keeps some costs of a drawn profile.
    """
    jobs = drawn_jobs(experiment, point, profile, draws, repetitions, change, restrict)
    return [{row.path: row.value for row in rows if row.value is not None} for rows in play_all(jobs)]


def drawn_jobs(
    experiment: Experiment,
    point: DesignPoint,
    profile: Profile,
    draws: int,
    repetitions: int,
    change: Callable[[Plan], Plan] | None = None,
    restrict: Callable[[Profile], Profile] = lambda profile: profile,
) -> list[Job]:
    """Runs of a design point with drawn parameters; draw k has the seed of repetition `k mod repetitions`."""
    jobs = []
    for draw in range(draws):
        plan = plan_run(experiment, point, draw % repetitions)
        used = restrict(drawn(profile, experiment.seed, draw))
        jobs.append(Job(change(plan) if change else plan, used, point.index))
    return jobs


def combined(
    nominal: Sequence[float], differences: Sequence[float], *, level: float, metric: str, unit: str
) -> Uncertain:
    """The mean of the nominal runs with an interval that holds what the parameters do too; `differences` are d_k."""
    plain = mean_interval(nominal, level=level, metric=metric, unit=unit)
    assert plain is not None, "there is a nominal run"
    half = plain.half_width
    if len(differences) < 2 or half is None:
        return Uncertain(plain, half, None)
    spread = math.sqrt(float(np.mean(np.square(differences))))
    own = float(t_quantile(level, len(differences))) * spread
    whole = math.hypot(half, own)
    estimate = replace(
        plain, low=plain.point - whole, high=plain.point + whole,
        method=f"t over runs and {len(differences)} draws of the profile's parameters",
    )  # fmt: skip
    return Uncertain(estimate, half, own)
