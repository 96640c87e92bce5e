"""Combinations of levels: of the factors that a question leaves as they are, and of those that it varies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from virtlab.campaign import select_points
from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment


def other_levels(
    experiment: Experiment, varied: Collection[str], points: Sequence[str]
) -> list[dict[str, str]]:
    """Combinations of the factors that are not varied, in the file's order; `points` pick some as `--points` does.

    ExperimentError when it picks by a factor that is varied, or by none.
    """
    for name in varied:
        if any(part.strip().startswith(f"{name}=") for text in points for part in text.split(",")):
            raise ExperimentError(
                "--points", f"'{name}' is what is varied", "name levels of the other factors"
            )
    chosen = select_points(experiment.points(), *points) if points else None
    found = {}
    for point in experiment.points():
        if chosen is None or point.index in chosen:
            rest = {name: level for name, level in point.levels.items() if name not in varied}
            found[tuple(rest.items())] = rest
    return list(found.values())


def present(
    experiment: Experiment, factor: str, levels: Sequence[str], others: Mapping[str, str]
) -> list[str]:
    """Those levels of a factor that some design point has together with the others: exclusions leave some out.

    ExperimentError when none is left.
    """
    known = {
        point.levels[factor]
        for point in experiment.points()
        if all(point.levels[name] == level for name, level in others.items())
    }
    found = [level for level in levels if level in known]
    if not found:
        where = ", ".join(f"{name} = {level}" for name, level in others.items())
        raise ExperimentError(where, f"has no design point with a level of {factor}", "exclude less")
    return found
