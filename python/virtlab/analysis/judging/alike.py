"""Design points that a simulated world cannot tell apart, or whose values are shares of different things, and claims
that compare them.

A model knows only what it models. Where two levels of a factor come to one and the same world, all that differs between
their values is the seed: equal by construction, or different by luck. A claim between such levels is not judged there.
Neither is one between shares of vCPUs and shares of processors (see `analysis.shares`).
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
from virtlab.analysis.shares import WORDS
from virtlab.analysis.table import Levels


def told_apart(claim: Claim, cells: Cells) -> tuple[Cells, list[str]]:
    """The cells without those of levels that are compared and are one world, and a sentence for each such set of
    levels.
    """
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


def of_one_thing(claim: Claim, cells: Cells) -> tuple[Cells, list[str]]:
    """The cells without those whose guests' shares are compared and are of different things, and a sentence for each
    such set of levels.
    """
    if len(frozenset[str]().union(*cells.shares.values())) < 2:
        return cells, []
    left_out = {point for point, kinds in cells.shares.items() if len(kinds) > 1}
    found: dict[str, int] = {}
    if left_out:
        found[f"{claim.expression} is a share of vCPUs and of processors"] = len(left_out)
    compared = _compared(claim, cells)
    for rest, values in cells.groups(compared[0]).items() if compared else ():
        assert compared is not None
        factor, levels = compared
        points = {level: tuple(sorted((*rest, (factor, level)))) for level in levels if (level,) in values}
        of = {level: cells.shares[point] for level, point in points.items() if point in cells.shares}
        by_kind = {kind: [level for level in of if of[level] == {kind}] for kind in WORDS}
        named = {kind: own for kind, own in by_kind.items() if own}
        if len(named) > 1:
            left_out |= set(points.values())
            each = (f"{factor} {' and '.join(own)} {WORDS[kind]}" for kind, own in named.items())
            text = f"{claim.expression} is with {', with '.join(each)}"
            found[text] = found.get(text, 0) + 1
    kept = {point: values for point, values in cells.of.items() if point not in left_out}
    sentences = [
        f"not judged{f' at {count} design points' if count > 1 else ''}: {text}; "
        "cpu, host_cpu_share and the pool's cpu_share can be compared"
        for text, count in found.items()
    ]
    return replace(cells, of=kept), sentences


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
