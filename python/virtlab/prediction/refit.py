"""A platform profile from any results with echoes: what an ideal world lacks, fitted by costs, at part of the design points.

Each design point with a role `rtt` gives two numbers: the median path delay, and the median of what the process sees beyond
it. What they are beyond an ideal world is laid to costs by non-negative least squares (`fit`); what one ns of a cost adds is
found by simulating the point's own Plan with that cost alone. All of that is simulated once; fits that leave points out
take the rows of the others. Spread comes from the runs themselves: of wake-ups from `rtt - path_rtt`, of lateness from path
delays where nothing else made traffic.

`virtlab calibrate` measures a profile with designed runs, and tells more costs apart. This is the poorer, general form
that validation needs: fitted to nothing but the results in question.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from virtlab.errors import ExperimentError
from virtlab.prediction.fit import fit
from virtlab.prediction.simulate import Job, play_records
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, Quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from virtlab.plan import Plan
    from virtlab.results import RunRecord
    from virtlab.results.trial import TrialRecord

UNIT_NS = 1000.0  # of a cost in the worlds that give the design
PROBABILITIES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
POINTS_MAX = 16  # of a fit: costs are constants, so points spread over the design are enough
RUNS_MAX = 8  # of a point whose samples are read
WAKE = "wakeup.sleep"


@dataclass(frozen=True, slots=True)
class Row:
    """One number of one design point: measured beyond ideal, and what one ns of each cost adds."""

    point: int
    excess_ns: float
    design: tuple[float, ...]
    alone: bool = True  # nothing else made traffic


@dataclass
class Rows:
    """All rows of a dataset, and the spreads by design point, deviations in ns."""

    names: tuple[str, ...]
    processors: int
    rows: list[Row] = field(default_factory=list)
    process: dict[int, list[NDArray[Any]]] = field(default_factory=dict)
    path: dict[int, list[NDArray[Any]]] = field(default_factory=dict)  # of points without other traffic

    @property
    def points(self) -> set[int]:
        """Design points that have rows."""
        return {row.point for row in self.rows}

    def profile(self, leave_out: Collection[int], name: str = "refit") -> Profile | None:
        """Fitted to all points but those; None when no row is left."""
        import numpy as np

        rows = [row for row in self.rows if row.point not in leave_out]
        if not rows:
            return None
        rows = [row for row in rows if row.alone] or rows  # queueing scatters more than costs come to
        found = fit(
            self.names,
            np.array([row.design for row in rows]),
            np.array([row.excess_ns for row in rows]),
            seed=1,
        )
        parameters, wake = {}, 0.0
        for one in found.costs:
            if one.name == WAKE:
                wake = one.value
            else:
                parameters[one.name] = Parameter(one.value, one.low, one.high, one.identified)
        tables = {WAKE: _table(_kept(self.process, leave_out), wake)}
        late = _kept(self.path, leave_out)
        departure = parameters.get("links.departure_ns")
        if len(late) and departure is not None:
            table = _table(late / 2**0.5, departure.value)  # two independent passages make an echo
            steady = min(table.ns[0], departure.value)
            parameters["links.departure_ns"] = Parameter(steady, 0.0, departure.high, departure.identified)
            tables["links.lateness"] = Quantiles(table.probability, tuple(ns - steady for ns in table.ns))
        about = {"rows": len(rows), "residual_median_ns": round(found.residual_median, 1), "rank": found.rank}
        return Profile(name, self.processors, parameters, tables, {}, about)


def rows_of(records: Sequence[RunRecord], processors: int) -> Rows:
    """Rows of good runs of one realisation. ExperimentError when no role of them is an echo."""
    by_point: dict[int, list[RunRecord]] = {}
    for record in records:
        by_point.setdefault(record.point, []).append(record)
    if not any(_echoes(runs[0].plan) for runs in by_point.values()):
        raise ExperimentError(
            "validate", "no role measures 'rtt', so nothing can be fitted", "hold a profile: --profile local"
        )
    chosen = _spread([point for point in sorted(by_point) if _echoes(by_point[point][0].plan)], POINTS_MAX)
    names = _names([by_point[point][0].plan for point in chosen])
    found = Rows(names, processors)
    jobs: list[Job] = []
    for point in chosen:
        plan = by_point[point][0].plan
        jobs += [Job(plan, IDEAL_PROFILE), *(Job(plan, _only(names, name)) for name in (None, *names))]
    played = iter(_features_of(jobs))
    for point in chosen:
        runs = by_point[point][:RUNS_MAX]
        echoes = _echoes(runs[0].plan)
        ideal, nothing, *each = (next(played) for _ in range(len(names) + 2))
        for role in echoes:
            measured = [numbers for run in runs if (numbers := _numbers(run, role)) is not None]
            for at in range(2):
                if not measured or role not in ideal or any(role not in one for one in (nothing, *each)):
                    continue
                excess = sorted(one[at] for one in measured)[len(measured) // 2] - ideal[role][at]
                design = tuple((one[role][at] - nothing[role][at]) / UNIT_NS for one in each)
                found.rows.append(Row(point, excess, design, not _others(runs[0].plan, role)))
            for run in runs:
                _add_spread(run, role, point, found)
    return found


def _names(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Costs that these worlds can pay. All get a value, so that a profile knows the kinds that occur."""
    platforms = sorted({guest.platform for plan in plans for guest in plan.world.guests.values()})
    vswitches = sorted({each.kind for plan in plans for each in plan.world.vswitches.values()})
    found = [
        f"platform.{kind}.{part}"
        for kind in platforms
        for part in ("send_ns", "crossing_ns", "crossing_byte_ns")
    ]
    found += [f"vswitch.{kind}.{part}" for kind in vswitches for part in ("packet_ns", "byte_ns")]
    if any(plan.world.links for plan in plans):
        found.append("links.departure_ns")
    return (*found, WAKE)


def _only(names: Sequence[str], paid: str | None) -> Profile:
    """A profile that knows all costs and pays one (none when None)."""
    known = {name: Parameter(UNIT_NS if name == paid else 0.0) for name in names if name != WAKE}
    tables = {WAKE: Quantiles((0.0, 1.0), (UNIT_NS, UNIT_NS))} if paid == WAKE else {}
    return Profile("one", 64, known, tables)


def _echoes(plan: Plan) -> list[str]:
    return [
        name for name, role in plan.roles.items() if role.workload == "rtt" and name in plan.collect.packets
    ]


def _others(plan: Plan, role: str) -> bool:
    """Whether other roles run beside this one: they were started before it ran, or with it."""
    return any(action.do == "start" and action.role not in {None, role} for action in plan.timeline)


def _numbers(record: RunRecord | TrialRecord, role: str) -> tuple[float, float] | None:
    """Median path delay, and median of what the process sees beyond it; None with fewer than 5 replies."""
    import numpy as np

    columns = record.samples(role, "rtt/1", ["rtt_ns", "path_rtt_ns"])
    path, rtt = columns["path_rtt_ns"], columns["rtt_ns"]
    known = path >= 0
    if int(known.sum()) < 5:
        return None
    return float(np.median(path[known])), float(np.median((rtt - path)[known]))


def _features_of(jobs: Sequence[Job]) -> list[dict[str, tuple[float, float]]]:
    """Role -> its two numbers, of each job in order; few runs are held at a time."""
    found = []
    for at in range(0, len(jobs), 8):
        for record in play_records(jobs[at : at + 8]):
            numbers = {role: _numbers(record, role) for role in _echoes(record.plan)}
            found.append({role: one for role, one in numbers.items() if one is not None})
    return found


def _add_spread(record: RunRecord, role: str, point: int, found: Rows) -> None:
    import numpy as np

    columns = record.samples(role, "rtt/1", ["rtt_ns", "path_rtt_ns"])
    known = columns["path_rtt_ns"] >= 0
    path = columns["path_rtt_ns"][known].astype(np.float64)
    if path.size < 5:
        return
    process = columns["rtt_ns"][known] - path
    found.process.setdefault(point, []).append(process - np.median(process))
    others = [
        each for name, each in record.plan.roles.items() if name != role and each.workload == "burst_load"
    ]
    if record.plan.world.links and not others:
        found.path.setdefault(point, []).append(path - np.median(path))


def _kept(parts: dict[int, list[NDArray[Any]]], leave_out: Collection[int]) -> NDArray[Any]:
    import numpy as np

    chosen = [part for point, found in parts.items() if point not in leave_out for part in found]
    return np.concatenate(chosen) if chosen else np.empty(0)


def _table(deviations: NDArray[Any], median: float) -> Quantiles:
    """Quantiles of deviations about a median; none below zero."""
    import numpy as np

    if not len(deviations):
        return Quantiles((0.0, 1.0), (median, median))
    values = np.maximum.accumulate(np.maximum(np.quantile(deviations, PROBABILITIES) + median, 0.0))
    return Quantiles(PROBABILITIES, tuple(float(value) for value in values))


def _spread(points: list[int], most: int) -> list[int]:
    """At most so many of them, evenly from the first to the last."""
    if len(points) <= most:
        return points
    return sorted({points[round(at * (len(points) - 1) / (most - 1))] for at in range(most)})
