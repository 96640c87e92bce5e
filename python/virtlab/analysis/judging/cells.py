"""The values a claim speaks about: its expression per run, gathered by design point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from virtlab.analysis.claims.levels import matches, ordered
from virtlab.analysis.claims.nouns import Claim, Expression
from virtlab.analysis.judging.averages import averaged, combinations, joined, without
from virtlab.analysis.shares import METRIC as SHARE
from virtlab.analysis.table import Levels, RunTable, point_of
from virtlab.lazy import NDArray, np

SHARES = frozenset({"loss", "duplicates", "reordering", "late_bursts"})
"""Metrics whose ratio is a share of so many things counted: the value's `samples`."""


@dataclass(frozen=True)
class Cells:
    """Values by design point (arrays, one value per run), the link realisations of each point, and all levels
    by factor.

    `counts` is how many packets (bursts, ...) a share rests on, over all runs of a point; empty for what is
    no share. `worlds` is what was played at each simulated point. `missing` are reasons why runs have no
    value, with how many runs each. `declared` are levels by factor as the experiment has them, of which the
    data may lack some. `sizes`: of a sum or difference, the mean of its largest term. `shares`: what the guests' shares
    of the expression are of (see `analysis.shares`), of points where it has some.
    """

    of: Mapping[Levels, NDArray[Any]]
    realisations: Mapping[Levels, str]
    factors: Mapping[str, list[str]]
    missing: Mapping[str, int]
    counts: Mapping[Levels, int] = field(default_factory=dict)
    worlds: Mapping[Levels, str] = field(default_factory=dict)
    declared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sizes: Mapping[Levels, float] = field(default_factory=dict)
    shares: Mapping[Levels, frozenset[str]] = field(default_factory=dict)

    def groups(self, *factors: str) -> dict[Levels, dict[tuple[str, ...], NDArray[Any]]]:
        """Cells that differ in the given factors only: the rest of the point -> their levels -> values."""
        found: dict[Levels, dict[tuple[str, ...], NDArray[Any]]] = {}
        for point, values in self.of.items():
            levels = dict(point)
            if all(factor in levels for factor in factors):
                rest = tuple(pair for pair in point if pair[0] not in factors)
                found.setdefault(rest, {})[tuple(levels[factor] for factor in factors)] = values
        return found

    def levels(self, factor: str) -> list[str]:
        """Levels of a factor among these cells, in order."""
        present = {dict(point).get(factor) for point in self.of}
        return [level for level in self.factors.get(factor, []) if level in present]

    @cached_property
    def varying(self) -> set[str]:
        """Factors with more than one level among these cells: what a label has to name."""
        return {factor for factor in self.factors if len({dict(point).get(factor) for point in self.of}) > 1}

    def ends(self, factor: str) -> tuple[str, str] | None:
        """Lowest and highest level of a factor of numbers; None when there are not two."""
        levels = ordered(self.levels(factor))
        return (levels[0], levels[-1]) if levels is not None and len(levels) > 1 else None


def evaluate(expression: Expression, table: RunTable) -> tuple[dict[str, float], dict[str, int]]:
    """Run -> value of the expression; and reasons of runs without one -> how many."""
    rows = {path: table.of(path) for path in expression.paths()}
    found: dict[str, float] = {}
    missing: dict[str, int] = {}
    for run in table.runs:
        total = 0.0
        for term in expression.terms:
            value, reason = _value(rows[term.path].get(run))
            if value is not None and term.over_path is not None:
                below, reason = _value(rows[term.over_path].get(run))
                value = value / below if below else None
                reason = reason or f"{term.over_path} is zero"
            if value is not None and term.over_value is not None:
                value /= term.over_value
            if value is None:
                missing[reason] = missing.get(reason, 0) + 1
                break
            total += term.sign * value
        else:
            found[run] = total
    return found, missing


def _value(row: Any) -> tuple[float | None, str]:
    if row is None:
        return None, "not measured in the run"
    return row.value, row.reason


def gather(claim: Claim, table: RunTable) -> Cells:
    """The cells of a claim's design points. The table must not mix link realisations at a point."""
    found, missing = evaluate(claim.expression, table)
    over = [each.name for each in claim.averaged]
    values: dict[Levels, dict[int, float]] = {}
    realisations: dict[Levels, str] = {}
    worlds: dict[Levels, str] = {}
    shares: dict[Levels, frozenset[str]] = {}
    for run, value in found.items():
        row = table.runs[run]
        if all(matches(condition, row.levels) for condition in claim.where):
            point = point_of(row.levels)
            own = values.setdefault(point, {})
            own[row.repetition if over else len(own)] = value
            realisations[point] = row.realisation
            if run in table.worlds:
                worlds[point] = table.worlds[run]
            rest = without(point, over) if over else point
            if of := _shares(claim.expression, table, row.point):
                shares[rest] = shares.get(rest, frozenset()) | of
    factors = table.factors
    if over:
        every = combinations(claim, table)
        links = joined(realisations, over)
        mixed = {rest for rest, names in links.items() if len(names) > 1}
        made = sum(map(len, values.values()))
        several = sum(len(runs) for point, runs in values.items() if without(point, over) in mixed)
        values = {rest: runs for rest, runs in averaged(values, over, every).items() if rest not in mixed}
        names = " and ".join(over)
        if several:
            missing[f"levels of {names} were measured over several link realisations"] = several
        left_out = made - several - len(every) * sum(map(len, values.values()))
        if left_out:
            missing[f"their repetition has none at every level of {names}"] = left_out
        realisations = {rest: own[0] for rest, own in links.items()}
        worlds = {rest: "\n".join(own) for rest, own in joined(worlds, over).items()}
        factors = {factor: levels for factor, levels in factors.items() if factor not in over}
    cells = {point: np.array(list(runs.values()), dtype=np.float64) for point, runs in values.items()}
    counts = {} if over else _counts(claim.expression, table, cells)
    declared = {
        name: [str(level) for level in own] for name, own in table.declared.items() if name not in over
    }
    sizes = {} if over or len(claim.expression.terms) < 2 else _sizes(claim.expression, table, found)
    return Cells(cells, realisations, factors, missing, counts, worlds, declared, sizes, shares)


def _shares(expression: Expression, table: RunTable, point: int) -> frozenset[str]:
    of = table.shares.get(point, {})
    return frozenset(of[path.role] for path in expression.paths() if path.metric == SHARE and path.role in of)


def _sizes(expression: Expression, table: RunTable, runs: Iterable[str]) -> dict[Levels, float]:
    """Mean of the largest term's absolute value, by design point."""
    found: dict[Levels, list[float]] = {}
    parts = [evaluate(Expression((term,)), table)[0] for term in expression.terms]
    for run in runs:
        found.setdefault(point_of(table.runs[run].levels), []).append(max(abs(part[run]) for part in parts))
    return {point: sum(values) / len(values) for point, values in found.items()}


def _counts(expression: Expression, table: RunTable, cells: Mapping[Levels, Any]) -> dict[Levels, int]:
    first = expression.terms[0]
    if (
        len(expression.terms) > 1
        or first.unit() != "ratio"
        or first.path.metric not in SHARES
        or first.over_path
    ):
        return {}
    found: dict[Levels, int] = {}
    for row in table.of(first.path).values():
        point = point_of(row.levels)
        if row.value is not None and point in cells:
            found[point] = found.get(point, 0) + row.samples
    return found


def describe(levels: Levels | Iterable[tuple[str, str]], varying: set[str]) -> str:
    """A design point in words, naming only what varies.

    >>> describe((("load", "30 kB"), ("switches", "2")), {"load"})
    'load 30 kB'
    """
    return ", ".join(f"{factor} {level}" for factor, level in levels if factor in varying)
