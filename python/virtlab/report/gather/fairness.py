"""Jain's index as an axis: where a factor decides how a load is split over flows, plots stand against J too.

A file names how many flows are strong (`split: {strong: "${strong}", weak_share: 1 %}`); what a reader compares with
published figures is J(k). So each plot over such a factor is drawn once more with the index of each level in its
place. A factor whose levels are the index already needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from virtlab.experiment import Experiment
from virtlab.report.gather.model import Factor, Result

NAME = "J"


@dataclass(frozen=True, slots=True)
class FairnessAxis:
    """`factor` decides J; `levels` says how much of it each of its levels is, as text of four digits."""

    factor: str
    levels: Mapping[str, str]

    def factors(self, factors: Sequence[Factor]) -> tuple[Factor, ...]:
        """The factors with J in the place of the one that decides it, from the least fair level up."""
        ordered = tuple(sorted(self.levels.values(), key=float))
        return tuple(Factor(NAME, ordered) if one.name == self.factor else one for one in factors)

    def names(self, factors: Sequence[str]) -> list[str]:
        """The same of names alone."""
        return [NAME if name == self.factor else name for name in factors]

    def result(self, result: Result) -> Result:
        """The result with J among the levels of its design points."""
        return replace(
            result, cells=tuple(replace(one, point=self._point(one.point)) for one in result.cells)
        )

    def _point(self, point: Mapping[str, str]) -> dict[str, str]:
        return {
            NAME if name == self.factor else name: self.levels[level] if name == self.factor else level
            for name, level in point.items()
        }


def axis_of(
    indices: Iterable[tuple[Mapping[str, str], float | None]], varying: Sequence[str]
) -> FairnessAxis | None:
    """The axis of design points with the J of their load; None where no single factor decides J, or says it itself.

    >>> axis = axis_of([({"k": "1", "size": "64 B"}, 0.25), ({"k": "4", "size": "64 B"}, 1.0)], ["k", "size"])
    >>> axis.factor, dict(axis.levels)
    ('k', {'1': '0.2500', '4': '1.0000'})
    """
    found = [(point, f"{index:.4f}") for point, index in indices if index is not None]
    if NAME in varying or not found:
        return None
    for factor in varying:
        levels: dict[str, str] = {}
        alone = all(levels.setdefault(point[factor], text) == text for point, text in found)
        if alone and len(levels) > 1 and len(set(levels.values())) == len(levels):
            return FairnessAxis(factor, levels)
    return None


def index_of(roles: Iterable[Mapping[str, Any]]) -> float | None:
    """J of a design point's load, from its roles' parameters; None where none is split, or two are split differently.

    >>> index_of([{"shares": [0.5, 0.5]}, {}]), index_of([{}])
    (1.0, None)
    """
    found = {
        round(1.0 / (len(shares) * sum(share * share for share in shares)), 6)
        for parameters in roles
        if (shares := parameters.get("shares"))
    }
    return found.pop() if len(found) == 1 else None


def axis_of_experiment(experiment: Experiment, varying: Sequence[str]) -> FairnessAxis | None:
    """The axis that reports of a file will have."""
    return axis_of(
        (
            (point.levels, index_of(role.parameters for role in experiment.study(point).roles.values()))
            for point in experiment.points()
        ),
        varying,
    )
