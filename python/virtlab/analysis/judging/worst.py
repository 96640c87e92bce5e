"""Two levels compared where each is at its worst over another factor: `vnic virtio > e1000 at worst J`.

Where that is, is only known from the data, and the least of several means is drawn low by noise. So nothing is taken as
the worst without proof. With worst = least: min A > min B holds if some level j of B lies below A at *every* level. j
is chosen from the data, B's least mean, so of K levels each p value counts K times (Bonferroni); that A is above it
everywhere is an intersection, of which the largest p value counts as it is (Berger, 1982). Refuting turns A and B
round. With worst = largest (a delay), the same mirrored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from virtlab.analysis.claims.nouns import Margin, Ordering
from virtlab.analysis.judging.case import Case
from virtlab.analysis.judging.hypotheses import Test, sided, smallest
from virtlab.analysis.table import Levels
from virtlab.lazy import NDArray
from virtlab.stats.contrasts import contrast

if TYPE_CHECKING:
    Side = Mapping[str, NDArray[Any]]  # level of the other factor -> values of runs


def worst_ordering(case: Case, relation: Ordering, over: str, factor: str, levels: list[str]) -> list[Test]:
    """Neighbours of a chain, each at the level of `over` that is worst for it."""
    least = case.claim.expression.terms[0].path.declaration.better == "higher"
    found = []
    for rest, cells in sorted(case.cells.groups(factor, over).items()):
        for left, right, comparator in zip(levels, levels[1:], relation.comparators, strict=False):
            one, other = (
                {place: values for (level, place), values in cells.items() if level == side}
                for side in (left, right)
            )
            if one and set(one) == set(other):
                found.append(
                    _test(
                        case, rest, (factor, over), (left, right), one, other, comparator, relation.by, least
                    )
                )
    return found


def _test(
    case: Case, rest: Levels, factors: tuple[str, str], pair: tuple[str, str], side: Side, other: Side, comparator: str,
    by: Margin | None, least: bool,
) -> Test:  # fmt: skip
    factor, over = factors
    worst_one, worst_other = _worst(side, least), _worst(other, least)
    label = case.label(
        rest, f"{factor} {pair[0]} (at {over} {worst_one}) - {pair[1]} (at {over} {worst_other})"
    )
    subject = case.subject(label)
    sign = -1.0 if comparator[0] == "<" else 1.0
    relative = by.relative or 0.0 if by is not None else 0.0
    limit = sign * (by.absolute or 0.0) if by is not None else 0.0

    def against(first: NDArray[Any], second: NDArray[Any]) -> Test:
        shown = subject.estimate(contrast([first, second], [1.0, -1.0]))
        weights = [1.0, -(1.0 + sign * relative)]
        shown_limit = sign * relative * float(second.mean()) if relative else limit
        required = (None, shown_limit) if sign < 0 else (shown_limit, None)
        matters = smallest([first, second], comparator) if by is None else 0.0
        return sided(
            subject,
            [first, second],
            weights,
            comparator,
            limit,
            shown=shown,
            required=required,
            matters=matters,
        )

    # The side whose worst has to be beyond the other's everywhere is the one that may vary.
    other_stands = [against(values, other[worst_other]) for values in side.values()]
    one_stands = [against(side[worst_one], values) for values in other.values()]
    holding, refuting = (other_stands, one_stands) if (sign > 0) == least else (one_stands, other_stands)
    return replace(
        against(side[worst_one], other[worst_other]),
        p_holds=min(1.0, len(side) * max(test.p_holds for test in holding)),
        p_refuted=min(1.0, len(side) * max(test.p_refuted for test in refuting)),
    )


def _worst(side: Side, least: bool) -> str:
    means = {level: float(values.mean()) for level, values in side.items()}
    return min(means, key=means.__getitem__) if least else max(means, key=means.__getitem__)
