"""Claims along a factor of numbers: growth, linearity, constancy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.analysis.claims.levels import ordered
from virtlab.analysis.claims.nouns import (
    Constant,
    Linear,
    Trend,
)
from virtlab.analysis.judging.case import Case
from virtlab.analysis.judging.hypotheses import Test, inside
from virtlab.analysis.judging.pairs import pair_test, within_margin
from virtlab.lazy import np
from virtlab.stats.contrasts import contrast
from virtlab.units import level_number

if TYPE_CHECKING:
    pass


def trend(case: Case, relation: Trend) -> list[Test]:
    """Ends of the factor, and its steps: each has to go up, or (not steadily) only must not go down."""
    found = []
    for rest, cells in sorted(case.cells.groups(relation.factor).items()):
        comparator = ">" if relation.direction == "grows" else "<"
        levels = ordered([key[0] for key in cells]) or []
        if len(levels) < 2:
            continue
        steps = list(zip(levels[1:], levels, strict=False))
        if not relation.steadily:
            found.append(
                pair_test(case, rest, relation.factor, (levels[-1], levels[0]), cells, comparator=comparator)
            )
            steps = steps if len(levels) > 2 else []
            comparator += "="  # a step that stays level does not go the other way
        for step in steps:
            found.append(
                pair_test(
                    case, rest, relation.factor, step, cells, comparator=comparator, decides=relation.steadily
                )
            )
    return found


def linear(case: Case, relation: Linear) -> list[Test]:
    """Each level's mean against the least-squares line through all run values; deviation and rise are both
    weighted sums of the cells' means, so |deviation| <= share * |rise| is a pair of such sums."""
    found = []
    for rest, cells in sorted(case.cells.groups(relation.factor).items()):
        levels = ordered([key[0] for key in cells]) or []
        if len(levels) < 3:
            continue
        values = [cells[level,] for level in levels]
        x = np.array([level_number(level) or 0.0 for level in levels])
        runs = np.array([cell.size for cell in values], dtype=np.float64)
        centre = float((runs * x).sum() / runs.sum())
        slope = runs * (x - centre) / float((runs * (x - centre) ** 2).sum())  # weights of the fitted slope
        rise = slope * (x[-1] - x[0])
        sign = 1.0 if contrast(values, rise.tolist()).value >= 0 else -1.0
        for index, level in enumerate(levels):
            fitted = runs / runs.sum() + slope * (x[index] - centre)
            deviation = np.eye(len(levels))[index] - fitted
            reach = relation.margin_ratio * sign * rise
            label = case.label(rest, f"{relation.factor} {level} against the line")
            subject = case.subject(label)
            shown = subject.estimate(contrast(values, deviation.tolist()))
            room = relation.margin_ratio * abs(contrast(values, rise.tolist()).value)
            above, below = (deviation + reach).tolist(), (deviation - reach).tolist()
            found.append(
                inside(subject, values, above, below, limits=(0.0, 0.0), shown=shown, required=(-room, room))
            )
    return found


def constant(case: Case, relation: Constant) -> list[Test]:
    """Every level against the first."""
    found = []
    for rest, cells in sorted(case.cells.groups(relation.factor).items()):
        levels = [level for level in case.cells.levels(relation.factor) if (level,) in cells]
        for level in levels[1:]:
            label = case.label(rest, f"{relation.factor} {level} - {levels[0]}")
            subject = case.subject(label, note=case.note(rest, relation.factor, (level, levels[0])))
            found.append(within_margin(subject, cells[level,], cells[levels[0],], relation.margin))
    return found
