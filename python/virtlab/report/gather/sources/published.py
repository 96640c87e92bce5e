"""Published numbers as points over our plots: which row of a table speaks of which design points.

A study's figures.yaml says which column of a published table is which factor, and which cell which level
where their words differ (`published: [{file, metric, path, columns, levels, at}]`). A cell is compared with a
level as a number when both are one, in the unit that the column's name or the level gives; '2 or 3' speaks
of both. Rows that differ in a column whose factor the experiment has not cannot be placed, and are not.

A claim's own reference lies over its path at the settings that the claim speaks of, by columns that bear the
factors' names, where its rows differ in nothing else. What is published of a difference, a quotient or an
onset is no value of the path.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from virtlab.analysis.claims import PublishedReference
from virtlab.analysis.claims.levels import matches
from virtlab.analysis.claims.nouns import Difference, Onset
from virtlab.analysis.published import conditions_of, published_values, read_table
from virtlab.errors import VirtlabError
from virtlab.metrics import MetricPath
from virtlab.report.gather.model import Factor, Published
from virtlab.report.gather.sources.source_figures import PublishedColumns
from virtlab.units import level_number

_PLAIN = {"exact": ""}


def overlays(
    claims: Iterable[Any], wanted: Iterable[PublishedColumns], folder: Path | None, factors: Sequence[Factor]
) -> dict[str, tuple[Published, ...]]:
    """Path -> published numbers; `factors` are all that the experiment declares, of one level too. A table
    that cannot be read overlays nothing; a claim's verdict says so.
    """
    if folder is None:
        return {}
    found: dict[str, list[Published]] = {}
    for one in _placed_best(wanted, folder, factors):
        found.setdefault(one.path, []).extend(_numbers(one, folder, factors))
    named = {path for path, numbers in found.items() if numbers}
    for claim in chain.from_iterable(each.members or (each,) for each in claims):
        path = _path_of(claim)
        if path is not None and path not in named:
            found.setdefault(path, []).extend(_of_claim(claim, path, folder, factors))
    varying = {factor.name for factor in factors if len(factor.levels) > 1}
    return {path: _once(numbers, varying) for path, numbers in found.items()}


def _placed_best(
    wanted: Iterable[PublishedColumns], folder: Path, factors: Sequence[Factor]
) -> Iterable[PublishedColumns]:
    """The entry that places its rows by most columns, of those for the same rows and path; where an experiment lacks a
    factor of it, the next.
    """
    same: dict[tuple[str, ...], list[PublishedColumns]] = {}
    for one in wanted:
        rows = (one.file, one.metric, one.path, *(f"{key}={cell}" for key, cell in sorted(one.where.items())))
        same.setdefault(rows, []).append(one)
    for each in same.values():
        each.sort(key=lambda rows: -len(rows.columns))
        yield next((one for one in each if _numbers(one, folder, factors)), each[-1])


def _once(numbers: Iterable[Published], varying: Container[str]) -> tuple[Published, ...]:
    """Each number once, at the levels of factors that vary."""
    kept = (
        replace(one, point={name: level for name, level in one.point.items() if name in varying})
        for one in numbers
    )
    return tuple({repr(one): one for one in kept}.values())


def _path_of(claim: Any) -> str | None:
    """The path whose values a claim's reference holds; None where it holds none of them."""
    terms = claim.expression.terms
    if claim.published is None or isinstance(claim.relation, (Difference, Onset)) or len(terms) != 1:
        return None
    return str(terms[0].path) if terms[0].over_path is None and terms[0].over_value is None else None


def _of_claim(claim: Any, path: str, folder: Path, factors: Sequence[Factor]) -> list[Published]:
    """The rows of a claim's reference, at the settings that it speaks of."""
    reference = claim.published
    said = {condition.factor for condition in claim.where if condition.op == "="}
    columns = {
        factor.name: factor.name
        for factor in factors
        if factor.name not in said or factor.name not in reference.where
    }
    asked = PublishedColumns(reference.file, reference.metric, path, columns, reference.where)
    numbers = _numbers(asked, folder, factors, whole=True)
    for name in dict.fromkeys(condition.factor for condition in claim.where):
        ruling = [condition for condition in claim.where if condition.factor == name]
        own = next((factor.levels for factor in factors if factor.name == name), ())
        levels = [level for level in own if all(matches(each, {name: level}) for each in ruling)]
        numbers = [
            replace(one, point={**one.point, name: level})
            for one in numbers
            for level in levels
            if one.point.get(name, level) == level
        ]
    return numbers


def _numbers(
    columns: PublishedColumns, folder: Path, factors: Sequence[Factor], *, whole: bool = False
) -> list[Published]:
    """The rows, each at the levels that its cells speak of; none where they differ in a column whose factor
    is not there, or with `whole` in any column that is no factor's.
    """
    try:
        rows = [
            row
            for row in read_table(folder, columns.file)
            if row["metric"] == columns.metric
            and all(row.get(key) == cell for key, cell in columns.where.items())
        ]
        values = published_values(PublishedReference(columns.file, columns.metric, columns.where), folder)
    except VirtlabError:
        return []
    there = {column for column, name in columns.columns.items() if any(one.name == name for one in factors)}
    apart = {column for column in conditions_of(rows[0]) if len({row[column] for row in rows}) > 1} - there
    if apart and (whole or apart & set(columns.columns)):
        return []
    unit = MetricPath.parse(columns.path).unit
    found = []
    for row, value in zip(rows, values, strict=True):
        try:
            number = value.in_unit(unit)
        except ValueError:
            continue
        qualifier = _PLAIN.get(value.qualifier, value.qualifier)
        source = ", ".join(part for part in (value.study, value.location, value.which) if part)
        for point in _points(row, columns, factors):
            found.append(Published(point, number, number, qualifier, source))
    return _ranges(found)


def _points(
    row: Mapping[str, str], columns: PublishedColumns, factors: Sequence[Factor]
) -> list[dict[str, str]]:
    """Every combination of levels that a row speaks of; a cell that fits no level speaks of none of ours."""
    points: list[dict[str, str]] = [{}]
    for column, name in columns.columns.items():
        cell = row.get(column, "").strip()
        cell = columns.levels.get(cell, cell)
        factor = next((one for one in factors if one.name == name), None)
        if not cell or factor is None:
            continue
        levels = [
            level for part in cell.split(" or ") for level in factor.levels if _same(part, level, column)
        ]
        points = [{**point, name: level} for point in points for level in levels]
    fixed = {
        factor.name: level
        for factor in factors
        for level in factor.levels
        if factor.name in columns.at and _same(columns.at[factor.name], level, factor.name)
    }
    return [{**point, **fixed} for point in points]


def _same(cell: str, level: str, column: str) -> bool:
    """Whether a published cell is a level of ours: 'FQ-CODEL' is 'fq_codel', 30000 under 'load_bytes' is '30 kB'."""
    if _folded(cell) == _folded(level):
        return True
    ours, theirs = level_number(level), level_number(cell)
    if theirs is None and column.endswith("_bytes"):
        theirs = level_number(f"{cell} B")
    return ours is not None and ours == theirs


def _folded(name: str) -> str:
    """A name without what people write it differently by."""
    return "_".join(re.split(r"[\s_-]+", name.strip().lower()))


def _ranges(numbers: Sequence[Published]) -> list[Published]:
    """A row that gives the low end and one that gives the high end of a range become one."""
    found: list[Published] = []
    for number in numbers:
        if number.qualifier == "range_high":
            low = next(
                (
                    at
                    for at, one in enumerate(found)
                    if one.qualifier == "range_low" and one.point == number.point
                ),
                None,
            )
            if low is not None:
                found[low] = Published(number.point, found[low].low, number.high, "", number.source)
                continue
        found.append(number)
    return found
