"""Claims about each design point by itself: thresholds, nearness to a constant, the onset of something.

A share that is the same in every run (mostly: nothing was lost at all) has no spread between runs. What was
counted then says how far it may be from the truth: nothing lost among 400 packets does not show a loss below
0.1 %.
"""

from __future__ import annotations

from typing import Any

from virtlab.analysis.claims.levels import ordered
from virtlab.analysis.claims.nouns import Near, Onset, Threshold
from virtlab.analysis.judging.case import Case, bounds_of
from virtlab.analysis.judging.hypotheses import MATTERS, Subject, Test, counted, inside, sided
from virtlab.analysis.table import Levels
from virtlab.lazy import NDArray
from virtlab.stats.contrasts import contrast
from virtlab.units import level_number


def one_sided(
    case: Case, subject: Subject, point: Levels, values: NDArray[Any], *, comparator: str, limit: float
) -> Test:
    """The mean at a design point against a limit; by counts where no run differs and counts are known."""
    count = case.cells.counts.get(point, 0)
    if count and values.size > 1 and float(values.min()) == float(values.max()) and 0 < limit < 1:
        return counted(subject, float(values[0]), count, int(values.size), comparator=comparator, limit=limit)
    matters = MATTERS * case.cells.sizes.get(point, 0.0) if limit == 0 and comparator in "<>" else 0.0
    return sided(subject, [values], [1.0], comparator, limit, matters=matters)


def threshold(case: Case, relation: Threshold) -> list[Test]:
    """One test per design point."""
    comparator, limit = relation.comparator, relation.limit
    return [
        one_sided(case, case.subject(case.label(point)), point, values, comparator=comparator, limit=limit)
        for point, values in sorted(case.cells.of.items())
    ]


def near(case: Case, relation: Near) -> list[Test]:
    """Equivalence with a constant, per design point."""
    limits = bounds_of(case, relation.target, case.claim.expression.unit)
    found = []
    for point, values in sorted(case.cells.of.items()):
        subject = case.subject(case.label(point))
        shown = subject.estimate(contrast([values], [1.0]))
        found.append(inside(subject, [values], [1.0], [1.0], limits=limits, shown=shown, required=limits))
    return found


def onset(case: Case, relation: Onset) -> list[Test]:
    """Not above the limit below the first level, above it from the last on."""
    first, last = level_number(relation.first), level_number(relation.last)
    assert first is not None
    assert last is not None
    found = []
    for rest, cells in sorted(case.cells.groups(relation.factor).items()):
        for level in ordered([key[0] for key in cells]) or []:
            number = level_number(level) or 0.0
            if first <= number < last:
                continue
            comparator = "<=" if number < first else ">"
            label = case.label(rest, f"{relation.factor} {level}")
            point = tuple(sorted((*rest, (relation.factor, level))))
            found.append(
                one_sided(
                    case,
                    case.subject(label),
                    point,
                    cells[level,],
                    comparator=comparator,
                    limit=relation.limit,
                )
            )
    return found
