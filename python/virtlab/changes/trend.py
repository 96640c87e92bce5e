"""Many datasets in the order in which they were made: a series per quantity and setting, and the steps in each.

All series are searched together: each at alpha divided by their number (Bonferroni), so that between equal datasets
the chance of any false step is alpha in all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from virtlab.changes.baseline import Baseline, Measured, Setting, heading
from virtlab.changes.steps import LEAST, Step, steps_of
from virtlab.errors import ExperimentError
from virtlab.stats import Estimate, mean_interval
from virtlab.units import did_you_mean, level_number


@dataclass(frozen=True, slots=True)
class Point:
    """One dataset's value of a series."""

    name: str
    created: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Series(Setting):
    """One quantity at one setting over time."""

    points: tuple[Point, ...]
    steps: tuple[Step, ...]

    def word(self, step: Step) -> str:
        """Whether a step was for the better."""
        return self.direction(step.after - step.before)


_Key = tuple[str, tuple[tuple[str, object], ...], str]


def trend(baselines: Sequence[Baseline], *, paths: Collection[str] = (), level: float = 0.95) -> list[Series]:
    """Every series of the datasets. ExperimentError where no dataset has a value, or a path is in no dataset."""
    ordered = sorted(baselines, key=lambda each: each.created)
    known = list(dict.fromkeys(each.path for one in ordered for each in one.quantities))
    for path in paths:
        if path not in known:
            raise ExperimentError(
                "--quantity", f"'{path}' is not a quantity of these datasets", did_you_mean(path, known)
            )
    kinds = _kinds(ordered)
    gathered: dict[tuple[_Key, str], list[Point]] = {}
    heads: dict[tuple[_Key, str], tuple[str, str, str, str, Mapping[str, str], str]] = {}
    for one in ordered:
        for each in one.quantities:
            if paths and each.path not in paths:
                continue
            for measured in each.measured:
                found = mean_interval(measured.values, level=level, metric=each.path, unit=each.unit)
                if found is not None:
                    setting = _key(each.path, measured)
                    kind = measured.share_of if len(kinds[setting]) > 1 else ""
                    path, title, unit, better, levels, links = heading(each, measured)
                    title = f"{title} of {kind}" if kind else title
                    key = setting, kind
                    heads.setdefault(key, (path, title, unit, better, levels, links))
                    gathered.setdefault(key, []).append(Point(one.name, one.created, found))
    if not gathered:
        raise ExperimentError("trend", "no dataset has a value", "name datasets with good runs")
    searched = sum(len(points) >= LEAST for points in gathered.values())
    return [
        Series(*heads[key], tuple(points), tuple(_steps(points, (1 - level) / max(1, searched))))
        for key, points in gathered.items()
    ]


def _kinds(baselines: Sequence[Baseline]) -> dict[_Key, set[str]]:
    """What the values of a setting are shares of; two of them are two series."""
    found: dict[_Key, set[str]] = {}
    for one in baselines:
        for each in one.quantities:
            for measured in each.measured:
                found.setdefault(_key(each.path, measured), set()).update({measured.share_of} - {""})
    return found


def _key(path: str, measured: Measured) -> _Key:
    """Levels count by what they say: `30000 B` and `30 kB` are one."""
    numbers = ((name, level, level_number(level)) for name, level in sorted(measured.levels.items()))
    levels = tuple((name, level if number is None else number) for name, level, number in numbers)
    return path, levels, measured.links


def _steps(points: Sequence[Point], alpha: float) -> list[Step]:
    return steps_of([point.estimate.point for point in points], alpha=alpha)
