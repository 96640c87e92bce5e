"""Design points that a simulated world cannot tell apart, and claims that compare them.

A model knows only what it models. Where two levels of a factor come to one and the same world, all that differs between
their values is the seed: equal by construction, or different by luck. A claim between such levels is not judged there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from virtlab.analysis.claims import Claim
from virtlab.analysis.claims.levels import find_operand
from virtlab.analysis.claims.nouns import (
    Constant,
    Difference,
    Equivalent,
    Linear,
    Operand,
    Ordering,
    PublishedOrder,
    Trend,
)
from virtlab.analysis.judging.cells import Cells
from virtlab.analysis.table import Levels


def told_apart(claim: Claim, cells: Cells) -> tuple[Cells, list[str]]:
    """The cells without those of levels that are compared and are one world, and a sentence for each such set of levels."""
    found = _compared(claim, cells) if cells.worlds else None
    if found is None:
        return cells, []
    factor, levels = found
    left_out: set[Levels] = set()
    places: dict[tuple[str, ...], int] = {}
    for rest, values in cells.groups(factor).items():
        named = [level for level in levels if (level,) in values]
        points = {level: tuple(sorted((*rest, (factor, level)))) for level in named}
        alike = _alike(points, cells)
        if alike:
            left_out |= set(points.values())
            places[alike] = places.get(alike, 0) + 1
    kept = {point: values for point, values in cells.of.items() if point not in left_out}
    return replace(cells, of=kept), [_sentence(factor, alike, count) for alike, count in places.items()]


def _alike(points: dict[str, Levels], cells: Cells) -> tuple[str, ...]:
    """Levels that share their world with another one."""
    worlds = {level: cells.worlds[point] for level, point in points.items() if point in cells.worlds}
    shared = list(worlds.values())
    return tuple(level for level, world in worlds.items() if shared.count(world) > 1)


def _sentence(factor: str, alike: Sequence[str], count: int) -> str:
    names = f"{', '.join(alike[:-1])} and {alike[-1]}"
    where = f" at {count} design points" if count > 1 else ""
    return f"not judged{where}: to this simulated world {factor} {names} are the same"


def _compared(claim: Claim, cells: Cells) -> tuple[str, list[str]] | None:
    """The factor and levels that a claim sets beside each other; None where it does not, or the data lack them."""
    relation = claim.relation
    if isinstance(relation, (Trend, Linear, Constant, PublishedOrder)):
        return relation.factor, cells.levels(relation.factor)
    if isinstance(relation, Equivalent) and len(relation.operands) == 1:
        return relation.operands[0].text, cells.levels(relation.operands[0].text)
    if isinstance(relation, Difference):
        operands: Sequence[Operand] = (relation.left, relation.right)
    elif isinstance(relation, (Ordering, Equivalent)):
        operands = relation.operands
    else:
        return None
    factor: str | None = None
    levels = []
    for operand in operands:
        try:
            factor, level = find_operand(operand, cells.factors, factor)
        except ValueError:
            return None
        levels.append(level)
    return None if factor is None else (factor, levels)
