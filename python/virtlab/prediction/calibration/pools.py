"""What a service under load costs in a pool of processors, fitted to any results with pools.

| cost | it shows in |
|---|---|
| `platform.KIND.idle_vcpu_ratio` (c0) | use of the pool beyond the work; and the more vCPUs, the sooner the pool is full |
| `pool.contention_ratio` (e) | response times and highest loads where more vCPUs work than there are processors |
| `platform.KIND.request_ns` | use per request, and response times at all loads |
| `platform.KIND.crossing_ns` | response times alone; fitted where the profile beneath has no such cost |

Each run is simulated with its own seed, so the same requests come at the same instants and take the same work in both;
what is left between the two is the model's. A *cell* is one number at one design point: the mean over runs of the
logarithm of simulated over measured, of a mean or 95 % quantile of response times, a rate of answers, or a pool's use.
All costs are at least 0 and fit all cells together: least squares of the cells' errors, robust against few that are far
off (soft L1), each cell weighed by what its runs scatter and by `MODEL_ERROR`, below which no model of two numbers
should be pressed. The model is not linear, so the simulator is asked again after each step (Levenberg and Marquardt's
method within bounds).

The model knows no work but that of guests. Where other processes had much of a pool's processors, its servers waited
for more than each other, and quantiles of response times are longer than any fit makes them: how many runs that is of,
is told with the fit (`disturbed`).

Intervals are of fits to resampled design points, by the derivatives at the solution. A cost is identified if some cell
depends on it, and not only on a sum of it and others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from virtlab.analysis.runs import values_of_run
from virtlab.analysis.values import RunValue
from virtlab.catalogue.workloads.request_response import NAME as ASKING
from virtlab.errors import ExperimentError, MachineError
from virtlab.lazy import NDArray, np, optimize
from virtlab.metrics import MetricPath
from virtlab.plan import Plan
from virtlab.planner.guests.clusters import serving
from virtlab.planner.mobility.moves import pools_of_guests
from virtlab.prediction.simulation.simulate import Job, play_all
from virtlab.results import Dataset, RunRecord
from virtlab.simulator.pools import CONTENTION, IDLE, REQUEST, in_pool, sharing_processors, vcpus
from virtlab.simulator.profile import Parameter, Profile
from virtlab.simulator.shares import own_vcpus

CROSSING = "platform.{}.crossing_ns"
OF_ROLES = (("response_time", "mean"), ("response_time", "p95"), ("answer_rate", "mean"))
OF_POOLS = ("cpu", "mean")
POINTS_MAX = 32
RUNS_MAX = 4  # of a point
MODEL_ERROR = 0.03  # of a cell, beside what its runs scatter
STEP = {CONTENTION: 0.05, "idle_vcpu_ratio": 0.004, "request_ns": 20_000.0, "crossing_ns": 10_000.0}
IDLE_MOST = 0.9  # of a pool that idle vCPUs may take
REQUEST_MOST_NS, CROSSING_MOST_NS = 1e9, 1e8
OTHERS_MAX = (
    0.1  # of a pool's processors, that processes of no guest may have before a run counts as disturbed
)
STEPS_MAX = 40
RESAMPLES = 400
DRAWS_KEPT = 40
TOGETHER = 0.99  # correlation of two costs from which on only their sum is known
NOTHING = 1e-3  # of a cell per step of a cost: it does not depend on it


@dataclass(frozen=True, slots=True)
class Cell:
    """One number at one design point: `error` is the mean logarithm of simulated over measured."""

    point: int
    path: MetricPath
    error: float


@dataclass(frozen=True)
class Pooled:
    """The profile, what the fit left of each cell, and how much was played for it."""

    profile: Profile
    fitted: tuple[str, ...]
    cells: tuple[Cell, ...]
    runs: int
    simulations: int
    disturbed: int = 0  # of all runs: in how many other work had the pool's processors

    def residuals(self) -> Iterator[tuple[str, int, float, float]]:
        """Metric and statistic, number of cells, median and 90 % quantile of their relative errors."""
        groups: dict[str, list[float]] = {}
        for cell in self.cells:
            groups.setdefault(f"{cell.path.metric}.{cell.path.statistic}", []).append(
                abs(np.expm1(cell.error))
            )
        for name, found in groups.items():
            yield name, len(found), float(np.median(found)), float(np.quantile(found, 0.9))


@dataclass
class Loads:
    """Runs with services in pools, and what each measured; `simulations` counts what was played."""

    runs: list[RunRecord]
    measured: list[Mapping[MetricPath, float]]
    disturbed: int = 0
    simulations: int = 0
    _played: dict[tuple[str, int], Mapping[MetricPath, float]] = field(default_factory=dict)
    _last: dict[tuple[str, ...], NDArray[Any]] = field(default_factory=dict)  # costs by their names, in steps

    @classmethod
    def of(cls, records: Sequence[RunRecord]) -> Loads:
        """The loads of good runs: at most so many points, spread over the design, and runs of each."""
        by_point: dict[int, list[RunRecord]] = {}
        for record in records:
            if in_pool(record.plan) and _requesting_roles(record.plan):
                by_point.setdefault(record.point, []).append(record)
        points = sorted(by_point)
        if len(points) > POINTS_MAX:
            points = [points[round(at * (len(points) - 1) / (POINTS_MAX - 1))] for at in range(POINTS_MAX)]
        runs = [record for point in points for record in by_point[point][:RUNS_MAX]]
        rows = [values_of_run(record) for record in runs]
        told: list[Mapping[MetricPath, float]] = [
            _pool_values(record.plan, own) for record, own in zip(runs, rows, strict=True)
        ]
        disturbed = sum(others(record, own) > OTHERS_MAX for record, own in zip(runs, rows, strict=True))
        return cls(runs, told, disturbed)

    def said_of_disturbance(self) -> str | None:
        """A sentence that other work had the processors of pools in some runs, and what helps; None where it had none
        in any.
        """
        if not self.disturbed:
            return None
        return (
            f"in {self.disturbed} of {len(self.runs)} runs other processes had more than {OTHERS_MAX:.0%} of a pool's "
            "processors, which the model does not include; if errors are large, stop them or give the run more weight"
        )

    def fitted(
        self, base: Profile, *, processors: int, name: str, leave_out: Collection[int] = (),
        provenance: Mapping[str, Any] | None = None,
    ) -> Pooled | None:  # fmt: skip
        """The profile `base` with the costs that fit all points but those; None without a run.

        Each fit begins where the one before ended. MachineError where no run has a number to fit to.
        """
        places = [at for at, run in enumerate(self.runs) if run.point not in leave_out]
        if not places:
            return None
        plans = [self.runs[at].plan for at in places]
        beneath = _beneath(base, plans, processors)
        return _Fit(self, places, beneath, _names(beneath, plans), _most(plans)).pooled(
            name, provenance or {}
        )

    def play(self, places: Sequence[int], profile: Profile) -> list[Mapping[MetricPath, float]]:
        """What runs at these places are with a profile, each with its own seed."""
        identity = profile.identity
        new = [at for at in places if (identity, at) not in self._played]
        rows = play_all([Job(self.runs[at].plan, profile, self.runs[at].point) for at in new])
        for at, row in zip(new, rows, strict=True):
            self._played[identity, at] = _pool_values(self.runs[at].plan, row)
        self.simulations += len(new)
        return [self._played[identity, at] for at in places]


def of_dataset(dataset: Dataset, base: Profile, *, processors: int, name: str) -> Pooled:
    """The profile `base` with what services cost in the pools of a dataset, by all its good runs.

    ExperimentError where no such run is there, or runs of several link realisations are.
    """
    records = dataset.runs("ok")
    loads = Loads.of(records)
    if len(kinds := sorted({run.link_realisation for run in loads.runs})) > 1:
        what = f"has runs with links by {' and '.join(kinds)}, which are different worlds"
        raise ExperimentError(dataset.path.name, what, "calibrate to a dataset of one of them")
    origin = {"dataset": dataset.path.name, "runs": len(records), "backend": dataset.manifest.backend}
    found = loads.fitted(base, processors=processors, name=name, provenance=origin)
    if found is None:
        what = "has no good run in which servers of request_response work in a pool"
        raise ExperimentError(dataset.path.name, what, "measure a file with 'pools' and a demand_server")
    return found


@dataclass
class _Fit:
    """One fit. `most` are the upper ends of costs."""

    loads: Loads
    places: Sequence[int]
    beneath: Profile
    names: tuple[str, ...]
    most: Mapping[str, float]

    def pooled(self, name: str, provenance: Mapping[str, Any]) -> Pooled:
        """The solution, with intervals."""
        steps = np.array([_of_kind(STEP, each) for each in self.names])
        most = np.array([self._most(each) for each in self.names]) / steps
        keys, errors = self.cells(np.zeros(len(self.names)))
        weight = 1.0 / errors[1]

        def residuals(values: NDArray[Any]) -> NDArray[Any]:
            found, told = self.cells(values * steps)
            assert found == keys, "a seed and a Plan say which numbers a run has"
            weighed: NDArray[Any] = told[0] * weight
            return weighed

        def derivatives(values: NDArray[Any]) -> NDArray[Any]:
            here = residuals(values)
            columns = []
            for at in range(len(values)):
                by = -1.0 if values[at] + 1.0 > most[at] else 1.0
                columns.append((residuals(values + by * np.eye(len(values))[at]) - here) / by)
            return np.array(columns).T

        begin = self.loads._last.get(self.names, np.ones(len(most)))
        solved = optimize.least_squares(
            residuals, np.clip(begin, 1e-3, most - 1e-3), jac=derivatives, bounds=(np.zeros(len(most)), most),
            loss="soft_l1", max_nfev=STEPS_MAX, xtol=1e-3, ftol=1e-4,
        )  # fmt: skip
        self.loads._last[self.names] = solved.x
        slopes = derivatives(solved.x)
        left = residuals(solved.x)
        drawn = _resampled([key[0] for key in keys], left, slopes, solved.x, most)
        sums = _sums(self.names, slopes / weight[:, None])
        profile = self._profile(name, provenance, solved.x * steps, drawn * steps, sums)
        cells = tuple(
            Cell(point, path, float(each)) for (point, path), each in zip(keys, left / weight, strict=True)
        )
        found = Pooled(
            profile, self.names, cells, len(self.places), self.loads.simulations, self.loads.disturbed
        )
        about = {
            f"pool_{of.replace('.', '_')}_{what}": round(value, 5)
            for of, _, median, p90 in found.residuals()
            for what, value in (("error_median", median), ("error_p90", p90))
        }
        return replace(
            found, profile=replace(profile, fit={**profile.fit, "pool_runs": len(self.places), **about})
        )

    def cells(self, values: NDArray[Any]) -> tuple[list[tuple[int, MetricPath]], NDArray[Any]]:
        """Design point and path of each cell; errors, and how sure each is, as an array of shape (2, cell)."""
        played = self.loads.play(self.places, self._with(values))
        by_cell: dict[tuple[int, MetricPath], list[float]] = {}
        for at, simulated in zip(self.places, played, strict=True):
            measured = self.loads.measured[at]
            for path, value in measured.items():
                if value > 0:
                    ratio = max(simulated.get(path, 0.0), 1e-3 * value) / value
                    by_cell.setdefault((self.loads.runs[at].point, path), []).append(float(np.log(ratio)))
        if not by_cell:
            raise MachineError("calibrate", "no run in a pool has response times", "measure more requests")
        found = [
            (float(np.mean(each)), float(np.hypot(MODEL_ERROR, np.std(each) / np.sqrt(len(each)))))
            for each in by_cell.values()
        ]
        return list(by_cell), np.array(found).T

    def _with(self, values: NDArray[Any]) -> Profile:
        costs = {name: Parameter(float(value)) for name, value in zip(self.names, values, strict=True)}
        return replace(self.beneath, name="fit", parameters={**self.beneath.parameters, **costs})

    def _most(self, name: str) -> float:
        return _of_kind(self.most, name)

    def _profile(
        self, name: str, provenance: Mapping[str, Any], values: NDArray[Any], drawn: NDArray[Any],
        sums: Mapping[str, str],
    ) -> Profile:  # fmt: skip
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        parameters, draws = {}, {}
        for at, each in enumerate(self.names):
            value, why = float(values[at]), sums.get(each, "")
            ends = (float(min(low[at], value)), float(max(high[at], value)))
            parameters[each] = Parameter(value, *ends, not why, why)
            draws[each] = tuple(float(one) - value for one in drawn[:DRAWS_KEPT, at])
        # Draws of the profile beneath and these are of different resamples: of each kind a list is one.
        kept = {each: moved for each, moved in self.beneath.draws.items() if len(moved) == DRAWS_KEPT}
        return replace(
            self.beneath, name=name, parameters={**self.beneath.parameters, **parameters},
            provenance={**self.beneath.provenance, **provenance}, draws={**kept, **draws},
        )  # fmt: skip


def _requesting_roles(plan: Plan) -> list[str]:
    """Roles whose requests servers in pools work for."""
    inside = in_pool(plan)
    return [
        name
        for name, role in plan.roles.items()
        if role.workload == ASKING and any(guest in inside for guest in serving(plan, role))
    ]


def _pool_values(plan: Plan, rows: Sequence[RunValue]) -> dict[MetricPath, float]:
    """What a run says of services in pools."""
    roles, inside = set(_requesting_roles(plan)), in_pool(plan)
    pools = {each.path for each in sharing_processors(plan) if any(guest in inside for guest in each.guests)}
    return {
        row.path: row.value
        for row in rows
        if row.value is not None
        and (
            (row.role in roles and (row.metric, row.statistic) in OF_ROLES)
            or (row.role in pools and (row.metric, row.statistic) == OF_POOLS)
        )
    }


def others(record: RunRecord, rows: Sequence[RunValue]) -> float:
    """The largest share of a pool's processors that other processes had in a run, where servers work; 0 if not sampled.

    Of pools by affinity alone: those are known by their processors, as read back.
    """
    used = {row.role: row.value for row in rows if (row.metric, row.statistic) == OF_POOLS}
    inside = in_pool(record.plan)
    pools = pools_of_guests(record.plan)
    working = {pool for name in inside for pool in pools.get(name, ())}
    found = [0.0]
    for name, pool in record.plan.world.pools.items():
        built = record.realised.objects.get(f"pools.{name}")
        processors = built.applied.get("processors") if built is not None else None
        if not isinstance(processors, list):
            continue  # in the simulator a pool has a number of processors, and there is no other work
        own, each = used.get(f"pools.{name}"), [used.get(f"host.cpu{number}") for number in processors]
        busy = [share for share in each if share is not None]
        if name in working and pool.by == "affinity" and own is not None and busy and len(busy) == len(each):
            found.append((sum(busy) - own) / len(busy))
    return max(found)


def _kinds(plans: Sequence[Plan]) -> list[str]:
    """Platforms of guests in which servers in pools work."""
    return list(dict.fromkeys(plan.world.guests[name].platform for plan in plans for name in in_pool(plan)))


def _names(beneath: Profile, plans: Sequence[Plan]) -> tuple[str, ...]:
    """Costs to be fitted."""
    kinds = _kinds(plans)
    own = [form.format(kind) for kind in kinds for form in (IDLE, REQUEST)]
    missing = [name for kind in kinds if not beneath.value(name := CROSSING.format(kind))]
    return (*own, CONTENTION, *missing)


def _most(plans: Sequence[Plan]) -> dict[str, float]:
    """Upper ends of costs, by the last part of their names or the whole."""
    shares = [
        each.cpus / count
        for plan in plans
        for working in [vcpus(plan)]
        for each in sharing_processors(plan)
        if (
            count := sum(own_vcpus(plan.world.guests[name]) or working.get(name, 0.0) for name in each.guests)
        )
    ]
    idle = IDLE_MOST * min(shares, default=1.0)
    return {
        CONTENTION: 1.0,
        "idle_vcpu_ratio": idle,
        "request_ns": REQUEST_MOST_NS,
        "crossing_ns": CROSSING_MOST_NS,
    }


def _of_kind(values: Mapping[str, float], name: str) -> float:
    return values[name] if name in values else values[name.rpartition(".")[2]]


def _beneath(base: Profile, plans: Sequence[Plan], processors: int) -> Profile:
    """The profile beneath the fit. Where it is ideal, it knows these worlds, in which all else costs nothing."""
    if not base.is_ideal:
        return base
    worlds = [plan.world for plan in plans]
    names = [CROSSING.format(guest.platform) for world in worlds for guest in world.guests.values()]
    names += [f"vswitch.{each.kind}.packet_ns" for world in worlds for each in world.vswitches.values()]
    names += ["links.departure_ns" for world in worlds if world.links]
    why = "not measured: all of it is in what was fitted"
    return Profile("none", processors, {name: Parameter(0.0, identified=False, why=why) for name in names})


def _resampled(
    points: Sequence[int], left: NDArray[Any], slopes: NDArray[Any], values: NDArray[Any], most: NDArray[Any]
) -> NDArray[Any]:
    """Costs of fits to resampled design points, in steps: shape (resample, cost)."""
    generator = np.random.default_rng(1)
    robust = 1.0 / np.sqrt(np.sqrt(1.0 + np.square(left)))  # weights of soft L1 at the solution
    every = sorted(set(points))
    places = {point: [at for at, own in enumerate(points) if own == point] for point in every}
    drawn = []
    for chosen in generator.integers(0, len(every), size=(RESAMPLES, len(every))):
        rows = [at for which in chosen for at in places[every[which]]]
        matrix, target = slopes[rows] * robust[rows, None], -left[rows] * robust[rows]
        bounds = (-values - 1e-9, most - values + 1e-9)
        drawn.append(np.clip(values + optimize.lsq_linear(matrix, target, bounds).x, 0.0, most))
    return np.array(drawn)


def _sums(names: Sequence[str], slopes: NDArray[Any]) -> dict[str, str]:
    """Why a cost is not identified, of those that are not."""
    found = {}
    size = np.linalg.norm(slopes, axis=0)
    for at, name in enumerate(names):
        if np.abs(slopes[:, at]).max() < NOTHING:
            found[name] = "no run depends on it"
            continue
        unit = slopes / np.where(size > 0, size, 1.0)
        alike = [
            other for index, other in enumerate(names)
            if index != at and size[index] > 0 and abs(float(unit[:, at] @ unit[:, index])) > TOGETHER
        ]  # fmt: skip
        if alike:
            found[name] = f"only as a sum with {', '.join(alike)}"
    return found
