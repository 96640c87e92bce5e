"""Claims between levels of a factor: orders, crossings, equivalence, differences and ratios.

A percentage of a reference that was itself measured becomes part of the weighted sum (A - 1.02 B < 0), so
that the reference's own uncertainty counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from virtlab.analysis.claims.levels import find_level
from virtlab.analysis.claims.nouns import (
    Difference,
    Equivalent,
    Margin,
    Ordering,
    Place,
    PublishedOrder,
    Threshold,
)
from virtlab.analysis.judging.case import Case, bounds_of
from virtlab.analysis.judging.hypotheses import Subject, Test, inside, sided, smallest
from virtlab.analysis.judging.worst import worst_ordering
from virtlab.analysis.table import Levels
from virtlab.lazy import NDArray, np
from virtlab.stats.comparison import ratio_interval
from virtlab.stats.contrasts import contrast
from virtlab.stats.estimate import Estimate


def pair_test(
    case: Case,
    rest: Levels,
    factor: str,
    pair: tuple[str, str],
    cells: Mapping[tuple[str, ...], NDArray[Any]],
    *,
    comparator: str,
    by: Margin | None = None,
    decides: bool = True,
) -> Test:
    """Sided test of a pair of levels."""
    left, right = cells[pair[0],], cells[pair[1],]
    label = case.label(rest, f"{factor} {pair[0]} - {pair[1]}")
    subject = case.subject(label, decides=decides, note=case.note(rest, factor, pair))
    shown = subject.estimate(contrast([left, right], [1.0, -1.0]))
    sign = -1.0 if comparator[0] == "<" else 1.0
    if by is not None and by.relative is not None:
        limit = sign * by.relative * float(right.mean())
        required = (None, limit) if sign < 0 else (limit, None)
        return sided(
            subject,
            [left, right],
            [1.0, -(1.0 + sign * by.relative)],
            comparator,
            0.0,
            shown=shown,
            required=required,
        )
    limit = sign * (by.absolute or 0.0) if by is not None else 0.0
    matters = smallest([left, right], comparator) if by is None and decides else 0.0
    return sided(subject, [left, right], [1.0, -1.0], comparator, limit, shown=shown, matters=matters)


def ordering(case: Case, relation: Ordering) -> list[Test]:
    """Neighbours of a chain, both halves of a crossing, or growths."""
    factor, levels = case.operands(relation.operands)
    if relation.growth_over is not None:
        return _growth_ordering(case, relation, factor, levels)
    if relation.at is not None and relation.at.which == "worst":
        return worst_ordering(case, relation, relation.at.factor, factor, levels)
    found = []
    halves: list[tuple[Place | None, tuple[str, ...]]] = [(relation.at, relation.comparators)]
    if relation.then is not None:
        halves.append((relation.then[1], (relation.then[0],)))
    for place, comparators in halves:
        where = _place_level(case, place)
        for rest, cells in sorted(case.cells.groups(factor).items()):
            if where is not None and dict(rest).get(where[0]) != where[1]:
                continue
            for left, right, comparator in zip(levels, levels[1:], comparators, strict=False):
                if (left,) in cells and (right,) in cells:
                    found.append(
                        pair_test(
                            case, rest, factor, (left, right), cells, comparator=comparator, by=relation.by
                        )
                    )
    return found


def _place_level(case: Case, place: Place | None) -> tuple[str, str] | None:
    if place is None:
        return None
    if place.which is None:
        level = find_level(place.level or "", case.cells.levels(place.factor))
        if level is None:
            raise ValueError(
                f"no run was made at {place.factor} {place.level}; run the experiment to its end"
            )
        return place.factor, level
    ends = case.cells.ends(place.factor)
    if ends is None:
        raise ValueError(
            f"{place.factor} has not two levels of numbers in the data; run the experiment to its end"
        )
    return place.factor, ends[0] if place.which == "low" else ends[1]


def _growth_ordering(case: Case, relation: Ordering, factor: str, levels: list[str]) -> list[Test]:
    over = relation.growth_over or ""
    ends = case.cells.ends(over)
    if ends is None:
        raise ValueError(f"{over} has not two levels of numbers in the data; run the experiment to its end")
    low, high = ends
    found = []
    for rest, cells in sorted(case.cells.groups(factor, over).items()):
        for left, right, comparator in zip(levels, levels[1:], relation.comparators, strict=False):
            keys = [(left, high), (left, low), (right, high), (right, low)]
            if all(key in cells for key in keys):
                label = case.label(rest, f"growth over {over} of {factor} {left} - {right}")
                four = [cells[key] for key in keys]
                limit = 0.0
                if relation.by is not None and relation.by.absolute is not None:
                    limit = relation.by.absolute * (-1.0 if comparator[0] == "<" else 1.0)
                matters = smallest(four, comparator) if relation.by is None else 0.0
                weights = [1.0, -1.0, -1.0, 1.0]
                found.append(sided(case.subject(label), four, weights, comparator, limit, matters=matters))
    return found


def equivalent(case: Case, relation: Equivalent) -> list[Test]:
    """Every pair of the levels within the margin."""
    if len(relation.operands) == 1:
        factor = relation.operands[0].text
        levels = case.cells.levels(factor)
        pairs = [(b, a) for i, a in enumerate(levels) for b in levels[i + 1 :]]
    else:
        factor, levels = case.operands(relation.operands)
        pairs = [(a, b) for i, a in enumerate(levels) for b in levels[i + 1 :]]
    found = []
    for rest, cells in sorted(case.cells.groups(factor).items()):
        for left, right in pairs:
            if (left,) in cells and (right,) in cells:
                label = case.label(rest, f"{factor} {left} - {right}")
                subject = case.subject(label, note=case.note(rest, factor, (left, right)))
                found.append(within_margin(subject, cells[left,], cells[right,], relation.margin))
    return found


def within_margin(subject: Subject, left: NDArray[Any], right: NDArray[Any], margin: Margin) -> Test:
    """The means of two cells differ by less than the margin."""
    shown = subject.estimate(contrast([left, right], [1.0, -1.0]))
    pair = [left, right]
    if margin.absolute is not None:
        limits = (-margin.absolute, margin.absolute)
        return inside(subject, pair, [1.0, -1.0], [1.0, -1.0], limits=limits, shown=shown, required=limits)
    reference = float(right.mean())
    reach = (margin.relative or 0.0) * (1.0 if reference >= 0 else -1.0)
    required = (-abs(reach * reference), abs(reach * reference))
    return inside(
        subject,
        pair,
        [1.0, -(1.0 - reach)],
        [1.0, -(1.0 + reach)],
        limits=(0.0, 0.0),
        shown=shown,
        required=required,
    )


def difference(case: Case, relation: Difference) -> list[Test]:
    """Difference or ratio of two levels against a constant or a range."""
    factor, (left, right) = case.operands((relation.left, relation.right))
    if relation.constant_over is not None:
        return _constant_difference(case, relation, factor, left, right)
    against = relation.against
    assert against is not None
    found = []
    sign = "/" if relation.quotient else "-"
    unit = "ratio" if relation.quotient else case.claim.expression.unit
    for rest, cells in sorted(case.cells.groups(factor).items()):
        if (left,) not in cells or (right,) not in cells:
            continue
        pair = [cells[left,], cells[right,]]
        label = case.label(rest, f"{factor} {left} {sign} {right}")
        subject = case.subject(label, unit, note=case.note(rest, factor, (left, right)))
        if isinstance(against, Threshold):
            low = high = against.limit
        else:
            low, high = bounds_of(case, against, unit)
        if not relation.quotient:
            shown = subject.estimate(contrast(pair, [1.0, -1.0]))
            if isinstance(against, Threshold):
                matters = smallest(pair, against.comparator) if against.limit == 0 else 0.0
                found.append(
                    sided(subject, pair, [1.0, -1.0], against.comparator, against.limit, matters=matters)
                )
            else:
                found.append(
                    inside(
                        subject,
                        pair,
                        [1.0, -1.0],
                        [1.0, -1.0],
                        limits=(low, high),
                        shown=shown,
                        required=(low, high),
                    )
                )
            continue
        ratio = ratio_interval(pair[0], pair[1], level=case.level, metric=subject.metric)
        if ratio is None:
            continue
        flip = 1.0 if float(pair[1].mean()) > 0 else -1.0  # a / b < r is a - r b < 0 when b > 0
        if isinstance(against, Threshold):
            down = against.comparator[0] == "<"
            required = (None, high) if down else (low, None)
            weights = [flip, -flip * against.limit]
            found.append(
                sided(subject, pair, weights, against.comparator, 0.0, shown=ratio, required=required)
            )
        else:
            weights_above, weights_below = [flip, -flip * low], [flip, -flip * high]
            found.append(
                inside(
                    subject,
                    pair,
                    weights_above,
                    weights_below,
                    limits=(0.0, 0.0),
                    shown=ratio,
                    required=(low, high),
                )
            )
    return found


def _constant_difference(case: Case, relation: Difference, factor: str, left: str, right: str) -> list[Test]:
    """(A - B) at each level of another factor against (A - B) at its first, within a share of that or
    absolutely.

    Quotients are compared as differences of logarithms, so a share of 5 % is log 0.95 to log 1.05.
    """
    over, margin = relation.constant_over or "", relation.margin
    assert margin is not None
    found = []
    for rest, cells in sorted(case.cells.groups(factor, over).items()):
        both = [
            level for level in case.cells.levels(over) if (left, level) in cells and (right, level) in cells
        ]
        for level in both[1:]:
            four = [cells[left, level], cells[right, level], cells[left, both[0]], cells[right, both[0]]]
            sign = "/" if relation.quotient else "-"
            label = case.label(rest, f"{factor} {left} {sign} {right} at {over} {level} against {both[0]}")
            subject = case.subject(label)
            if relation.quotient:
                if any(float(cell.min()) <= 0 for cell in four):
                    continue
                four = [np.log(cell) for cell in four]
                share = margin.relative if margin.relative is not None else (margin.absolute or 0.0)
                limits = (float(np.log1p(-share)), float(np.log1p(share)))
                weights = [1.0, -1.0, -1.0, 1.0]
                shown = _exponential(case.subject(label, "ratio").estimate(contrast(four, weights)))
                found.append(
                    inside(
                        subject,
                        four,
                        weights,
                        weights,
                        limits=limits,
                        shown=shown,
                        required=(1 - share, 1 + share),
                    )
                )
                continue
            reference = contrast(four[2:], [1.0, -1.0]).value
            found.append(_against_reference(subject, four, [1.0, -1.0], reference, margin))
    return found


def _against_reference(
    subject: Subject, cells: list[NDArray[Any]], weights: list[float], reference: float, margin: Margin
) -> Test:
    """A weighted sum of the first cells equals the same sum of the following ones within the margin."""
    plain = [*weights, *(-w for w in weights)]
    shown = subject.estimate(contrast(cells, plain))
    if margin.absolute is not None:
        limits = (-margin.absolute, margin.absolute)
        return inside(subject, cells, plain, plain, limits=limits, shown=shown, required=limits)
    reach = (margin.relative or 0.0) * (1.0 if reference >= 0 else -1.0)
    above = [*weights, *(-(1.0 - reach) * w for w in weights)]
    below = [*weights, *(-(1.0 + reach) * w for w in weights)]
    required = (-abs(reach * reference), abs(reach * reference))
    return inside(subject, cells, above, below, limits=(0.0, 0.0), shown=shown, required=required)


def _exponential(estimate: Estimate) -> Estimate:
    low = None if estimate.low is None else math.exp(estimate.low)
    high = None if estimate.high is None else math.exp(estimate.high)
    point = math.exp(estimate.point)
    return Estimate(
        estimate.metric,
        "ratio",
        point,
        low,
        high,
        estimate.level,
        estimate.n,
        "Welch t of logarithms",
        estimate.why,
    )


def published_order(case: Case, relation: PublishedOrder) -> list[Test]:
    """Published neighbours have to differ in their order; other pairs can only refute."""
    known = case.cells.levels(relation.factor)
    ranked: dict[str, float] = {}
    for value in case.published:
        level = find_level(value.level or "", known)
        if level is not None:
            ranked[level] = value.in_unit(case.claim.expression.unit)
    levels = sorted(ranked, key=lambda level: ranked[level])
    if len(levels) < 2:
        raise ValueError(
            f"fewer than two levels of {relation.factor} have a published value; correct 'published'"
        )
    found = []
    for rest, cells in sorted(case.cells.groups(relation.factor).items()):
        for i, low in enumerate(levels):
            for j in range(i + 1, len(levels)):
                high = levels[j]
                if ranked[low] < ranked[high] and (low,) in cells and (high,) in cells:
                    decides = j == i + 1
                    found.append(
                        pair_test(
                            case, rest, relation.factor, (low, high), cells, comparator="<", decides=decides
                        )
                    )
    return found
