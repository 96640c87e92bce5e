"""Published numbers as points over our plots: which row of a table speaks of which design points.

A study's figures.yaml says which column of a published table is which factor (`published: [{file, metric,
path, columns}]`). A claim's own reference lies over its path where the table's columns bear the factors'
names. A cell is compared with a level as a number when both are one, in the unit that the column's name or
the level gives; '2 or 3' speaks of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from virtlab.errors import VirtlabError
from virtlab.metrics import MetricPath, level_number
from virtlab.report.figures import PublishedColumns
from virtlab.report.model import Factor, Published

_PLAIN = {"exact": ""}


def overlays(
    claims: Iterable[Any], asked: Iterable[PublishedColumns], folder: Path | None, factors: Sequence[Factor]
) -> dict[str, tuple[Published, ...]]:
    """Path -> published numbers. A table that cannot be read overlays nothing; a claim's verdict says so."""
    if folder is None:
        return {}
    found: dict[str, list[Published]] = {}
    for one in asked:
        found.setdefault(one.path, []).extend(_numbers(one, folder, factors))
    for claim in claims:
        reference = claim.published
        paths = claim.expression.paths()
        if reference is None or len(paths) != 1 or str(paths[0]) in found:
            continue
        columns = {factor.name: factor.name for factor in factors}
        same = PublishedColumns(reference.file, reference.metric, str(paths[0]), columns, reference.where)
        found.setdefault(str(paths[0]), []).extend(_numbers(same, folder, factors))
    return {path: tuple({repr(one): one for one in numbers}.values()) for path, numbers in found.items()}


def _numbers(asked: PublishedColumns, folder: Path, factors: Sequence[Factor]) -> list[Published]:
    from virtlab.analysis.claims import PublishedReference
    from virtlab.analysis.published import published_values, read_table

    try:
        rows = [
            row
            for row in read_table(folder / asked.file)
            if row["metric"] == asked.metric
            and all(row.get(key) == cell for key, cell in asked.where.items())
        ]
        values = published_values(PublishedReference(asked.file, asked.metric, asked.where), folder)
    except VirtlabError:
        return []
    unit = MetricPath.parse(asked.path).unit
    found = []
    for row, value in zip(rows, values, strict=True):
        try:
            number = value.in_unit(unit)
        except ValueError:
            continue
        qualifier = _PLAIN.get(value.qualifier, value.qualifier)
        for point in _points(row, asked.columns, factors):
            found.append(Published(point, number, number, qualifier, f"{value.study}, {value.location}"))
    return _ranges(found)


def _points(
    row: Mapping[str, str], columns: Mapping[str, str], factors: Sequence[Factor]
) -> list[dict[str, str]]:
    """Every combination of levels that a row speaks of; a cell that fits no level speaks of none of ours."""
    points: list[dict[str, str]] = [{}]
    for column, name in columns.items():
        cell = row.get(column, "").strip()
        factor = next((one for one in factors if one.name == name), None)
        if not cell or factor is None:
            continue
        levels = [
            level for part in cell.split(" or ") for level in factor.levels if _same(part, level, column)
        ]
        points = [{**point, name: level} for point in points for level in levels]
    return points


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
