"""The effect of one more switch, and of one more guest on every host, on delay, jitter and throughput.

Two design points whose levels differ in one factor only, and whose worlds differ in the number of switches (or of
guests) only, give an effect: the difference of their means per switch (or guest), with Welch's interval over
independent runs. Only neighbours are taken, at every combination of the other factors; where there are several, their
average too. What else the factor changed along with the number, it changed in the file, and is part of the effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from virtlab.analysis.table import RunTable
from virtlab.catalogue import WORKLOADS
from virtlab.lazy import np
from virtlab.metrics import MetricPath
from virtlab.plan import Plan
from virtlab.stats import Estimate, contrast

Added = Literal["switch", "guest"]
CHOSEN = (
    ("rtt", "mean"), ("rtt", "mdev"), ("jitter_rfc3550", "final"), ("goodput", "mean"), ("response_time", "mean"),
    ("transaction_time", "mean"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effect:
    """What one more switch, or guest on every host, does to a path; `estimate` is in the path's unit.

    `levels` are those of the other factors; empty with `average` for the average over all of them. `before` and `after`
    are the factor's levels.
    """

    added: Added
    factor: str
    before: str
    after: str
    levels: Mapping[str, str]
    path: MetricPath
    realisation: str
    estimate: Estimate
    average: bool = False


def paths_of(table: RunTable, plans: Sequence[Plan]) -> list[MetricPath]:
    """Delay, jitter and throughput of the roles that measure, as far as there are values; jitter of echoes only."""
    roles = {name: role.workload for plan in plans for name, role in plan.roles.items()}
    return [
        path
        for path in table.paths()
        if (path.metric, path.statistic) in CHOSEN
        and roles.get(path.role) in WORKLOADS
        and WORKLOADS[roles[path.role]].part == "measure"
        and (path.metric != "jitter_rfc3550" or WORKLOADS[roles[path.role]].echoes)
    ]


def counts_of(plan: Plan) -> tuple[int, float]:
    """Switches, and guests per host that has any."""
    hosts = {guest.host for guest in plan.world.guests.values()}
    return len(plan.world.switches), len(plan.world.guests) / max(len(hosts), 1)


def effects_of(table: RunTable, plans: Mapping[int, Plan], level: float = 0.95) -> tuple[Effect, ...]:
    """Every effect that the design points have; `plans` are those of design points with runs."""
    points = {row.point: row.levels for row in table.runs.values() if row.point in plans}
    paths = paths_of(table, list(plans.values()))
    found: list[Effect] = []
    for realisation in table.realisations:
        part = table.only(realisation=realisation)
        for added, at in (("switch", 0), ("guest", 1)):
            found += _effects(part, points, plans, paths, realisation, added, at, level)  # type: ignore[arg-type]
    return tuple(found)


def _effects(
    table: RunTable, points: Mapping[int, Mapping[str, str]], plans: Mapping[int, Plan], paths: Sequence[MetricPath],
    realisation: str, added: Added, at: int, level: float,
) -> list[Effect]:  # fmt: skip
    steps = _steps(points, {point: counts_of(plans[point]) for point in points}, at)
    found = []
    for path in paths:
        mine: dict[tuple[str, str, str], list[tuple[list[float], list[float], float]]] = {}
        for factor, before, after, width in steps:
            low, high = table.values(path, points[before]), table.values(path, points[after])
            if not low or not high:
                continue
            key = (factor, points[before][factor], points[after][factor])
            mine.setdefault(key, []).append((low, high, width))
            others = {name: text for name, text in points[before].items() if name != factor}
            estimate = _estimate(path, [(low, high, width)], level)
            found.append(Effect(added, *key, others, path, realisation, estimate))
        for key, cells in mine.items():
            if len(cells) > 1:
                estimate = _estimate(path, cells, level)
                found.append(Effect(added, *key, {}, path, realisation, estimate, average=True))
    return found


def _steps(
    points: Mapping[int, Mapping[str, str]], counts: Mapping[int, tuple[int, float]], at: int
) -> list[tuple[str, int, int, float]]:
    """(factor, point before, point after, how many more) of neighbours in one number, the other one equal."""
    found = []
    for before, levels in points.items():
        nearest: dict[str, tuple[float, int]] = {}
        for after, others in points.items():
            differ = [name for name in levels if levels[name] != others.get(name)]
            width = counts[after][at] - counts[before][at]
            if len(differ) == 1 and width > 0 and counts[after][1 - at] == counts[before][1 - at]:
                best = nearest.get(differ[0])
                if best is None or width < best[0]:
                    nearest[differ[0]] = (width, after)
        found += [(factor, before, after, width) for factor, (width, after) in nearest.items()]
    return found


def _estimate(
    path: MetricPath, cells: Sequence[tuple[list[float], list[float], float]], level: float
) -> Estimate:
    """The mean over cells of (high - low) / width."""
    arrays, weights = [], []
    for low, high, width in cells:
        arrays += [np.array(high), np.array(low)]
        weights += [1.0 / (width * len(cells)), -1.0 / (width * len(cells))]
    one = contrast(arrays, weights)
    ends = one.interval(level)
    why = "" if ends[0] is not None else "a cell has one run"
    return Estimate(path.metric, path.unit, one.value, *ends, level, sum(one.runs), "Welch t", why)
