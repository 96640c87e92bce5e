"""Each relation of a claim as tests on cells. What a relation means is said in docs/reference/claims.md.

A percentage of a reference that was itself measured becomes part of the weighted sum (A - 1.02 B < 0), so
that the reference's own uncertainty counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.analysis.claims.levels import find_level, find_operand, ordered
from virtlab.analysis.claims.nouns import (
    Bounds,
    Centre,
    Claim,
    Constant,
    Difference,
    Equivalent,
    Linear,
    Margin,
    Near,
    Onset,
    Operand,
    Ordering,
    Place,
    PublishedOrder,
    Threshold,
    Trend,
)
from virtlab.analysis.judging.cells import Cells, describe
from virtlab.analysis.judging.tests import Subject, Test, inside, sided
from virtlab.metrics import level_number
from virtlab.stats.comparison import ratio_interval
from virtlab.stats.contrasts import contrast
from virtlab.stats.estimate import Estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from virtlab.analysis.published import PublishedValue
    from virtlab.analysis.table import Levels


@dataclass(frozen=True, slots=True)
class Case:
    """A claim with its cells, the level of its intervals, and the published values it names."""

    claim: Claim
    cells: Cells
    level: float
    published: Sequence[PublishedValue] = ()

    def subject(
        self, label: str, unit: str | None = None, *, decides: bool = True, note: str = ""
    ) -> Subject:
        """A test's subject named after the claim's expression."""
        expression = self.claim.expression
        return Subject(label, str(expression), unit or expression.unit, self.level, decides, note)

    def label(self, rest: Levels, *more: str) -> str:
        """What was compared and where, naming only factors that vary."""
        return " at ".join(part for part in (*more, describe(rest, self.cells.varying())) if part)

    def operands(self, operands: Sequence[Operand]) -> tuple[str, list[str]]:
        """(factor, levels) of operands. ValueError when one is not in the data."""
        factor: str | None = None
        levels = []
        for operand in operands:
            factor, level = find_operand(operand, self.cells.factors, factor)
            levels.append(level)
        assert factor is not None
        return factor, levels

    def note(self, rest: Levels, factor: str, levels: Sequence[str]) -> str:
        """Says so when cells that are compared were built with different link realisations."""
        points = [tuple(sorted((*rest, (factor, level)))) for level in levels]
        used = sorted(
            {self.cells.realisations[point] for point in points if point in self.cells.realisations}
        )
        return f"compared across link realisations {', '.join(used)}" if len(used) > 1 else ""


def tests_of(case: Case) -> list[Test]:
    """All tests of a claim. ValueError (WHAT; CURE) when the data lack a level that the claim names."""
    handlers: dict[type, Callable[[Case, Any], list[Test]]] = {
        Threshold: _threshold, Near: _near, Ordering: _ordering, Equivalent: _equivalent,
        Difference: _difference, Trend: _trend, Linear: _linear, Constant: _constant, Onset: _onset,
        PublishedOrder: _published_order,
    }  # fmt: skip
    return handlers[type(case.claim.relation)](case, case.claim.relation)


# -- one cell at a time


def _threshold(case: Case, relation: Threshold) -> list[Test]:
    return [
        sided(case.subject(case.label(point)), [values], [1.0], relation.comparator, relation.limit)
        for point, values in sorted(case.cells.of.items())
    ]


def bounds_of(case: Case, target: Centre | Bounds, unit: str) -> tuple[float, float]:
    """The range that a target means; a published value may itself be a range. ValueError when there is
    none."""
    if isinstance(target, Bounds):
        return target.low, target.high
    if target.value is not None:
        low = high = target.value
    else:
        numbers = [value.in_unit(unit) for value in case.published]
        if not numbers:
            raise ValueError(
                "no published row is named by the claim's 'published'; correct file, metric or where"
            )
        low, high = min(numbers), max(numbers)
    if target.margin.absolute is not None:
        return low - target.margin.absolute, high + target.margin.absolute
    share = target.margin.relative or 0.0
    return low - share * abs(low), high + share * abs(high)


def _near(case: Case, relation: Near) -> list[Test]:
    limits = bounds_of(case, relation.target, case.claim.expression.unit)
    found = []
    for point, values in sorted(case.cells.of.items()):
        subject = case.subject(case.label(point))
        shown = subject.estimate(contrast([values], [1.0]))
        found.append(inside(subject, [values], [1.0], [1.0], limits=limits, shown=shown, required=limits))
    return found


def _onset(case: Case, relation: Onset) -> list[Test]:
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
            found.append(sided(case.subject(label), [cells[level,]], [1.0], comparator, relation.limit))
    return found


# -- pairs of levels


def _pair(
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
    return sided(subject, [left, right], [1.0, -1.0], comparator, limit, shown=shown)


def _ordering(case: Case, relation: Ordering) -> list[Test]:
    factor, levels = case.operands(relation.operands)
    if relation.growth_over is not None:
        return _growth_ordering(case, relation, factor, levels)
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
                        _pair(case, rest, factor, (left, right), cells, comparator=comparator, by=relation.by)
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
                found.append(sided(case.subject(label), four, [1.0, -1.0, -1.0, 1.0], comparator, limit))
    return found


def _equivalent(case: Case, relation: Equivalent) -> list[Test]:
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
                found.append(_within_margin(subject, cells[left,], cells[right,], relation.margin))
    return found


def _within_margin(subject: Subject, left: NDArray[Any], right: NDArray[Any], margin: Margin) -> Test:
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


def _difference(case: Case, relation: Difference) -> list[Test]:
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
                found.append(sided(subject, pair, [1.0, -1.0], against.comparator, against.limit))
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
    import numpy as np

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
    import math

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


# -- along a factor


def _trend(case: Case, relation: Trend) -> list[Test]:
    comparator = ">" if relation.direction == "grows" else "<"
    found = []
    for rest, cells in sorted(case.cells.groups(relation.factor).items()):
        levels = ordered([key[0] for key in cells]) or []
        if len(levels) < 2:
            continue
        steps = list(zip(levels[1:], levels, strict=False))
        if not relation.steadily:
            found.append(
                _pair(case, rest, relation.factor, (levels[-1], levels[0]), cells, comparator=comparator)
            )
            steps = steps if len(levels) > 2 else []
        for step in steps:
            found.append(
                _pair(
                    case, rest, relation.factor, step, cells, comparator=comparator, decides=relation.steadily
                )
            )
    return found


def _linear(case: Case, relation: Linear) -> list[Test]:
    """Each level's mean against the least-squares line through all run values; deviation and rise are both
    weighted sums of the cells' means, so |deviation| <= share * |rise| is a pair of such sums."""
    import numpy as np

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


def _constant(case: Case, relation: Constant) -> list[Test]:
    found = []
    for rest, cells in sorted(case.cells.groups(relation.factor).items()):
        levels = [level for level in case.cells.levels(relation.factor) if (level,) in cells]
        for level in levels[1:]:
            label = case.label(rest, f"{relation.factor} {level} - {levels[0]}")
            subject = case.subject(label, note=case.note(rest, relation.factor, (level, levels[0])))
            found.append(_within_margin(subject, cells[level,], cells[levels[0],], relation.margin))
    return found


def _published_order(case: Case, relation: PublishedOrder) -> list[Test]:
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
                        _pair(
                            case, rest, relation.factor, (low, high), cells, comparator="<", decides=decides
                        )
                    )
    return found
