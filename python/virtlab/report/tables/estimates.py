"""The tables behind the plots of one metric: per setting, and per run. An absent value is said, with its
reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.report import names
from virtlab.report.figures.distributions import grouped
from virtlab.report.figures.figure import REALISATION
from virtlab.report.gather.model import Gathered, Result
from virtlab.report.quantities import Display, display
from virtlab.report.tables.table import Block, cell, head


def settings_table(data: Gathered, result: Result) -> Block:
    """Per design point: runs, mean with interval, spread, published."""
    split = len({one.realisation for one in result.cells}) > 1
    shown = display(result.quantity.unit, [value for one in result.cells for value in one.present])
    with_published = bool(result.published)
    numbers = [
        "runs",
        f"mean ({shown.unit})" if shown.unit else "mean",
        "low",
        "high",
        "smallest run",
        "largest run",
    ]
    columns = [
        *data.varying,
        *([REALISATION] if split else []),
        *numbers,
        *(["published"] if with_published else []),
    ]
    rows = []
    for one in result.cells:
        cells = [cell(one.point.get(name, "")) for name in data.varying]
        cells += [cell(one.realisation)] if split else []
        cells.append(cell(f"{len(one.present)}", "number"))
        cells += _estimate_cells(one.estimate, one.present, shown)
        if with_published:
            cells.append(cell(published_words(result, one.point), "text"))
        rows.append({"cells": cells, "out": not one.present})
    level = next((one.estimate.level for one in result.cells if one.estimate), 0.95)
    method = next((one.estimate.method for one in result.cells if one.estimate), "")
    what = f"{result.quantity.path}{result.quantity.beside}"
    return {
        "id": names.slug(f"settings of {result.quantity.path}"),
        "title": f"{result.quantity.statistic} per setting",
        "caption": f"{what}: mean of the runs' values with {level * 100:g} % interval"
        + (f" ({method})" if method else ""),
        "head": head(*columns, numbers=numbers),
        "rows": rows,
    }


def _estimate_cells(estimate: Any, present: Sequence[float], shown: Display) -> list[Block]:
    if not present:
        return [cell("no value", "absent")] + [cell("", "absent")] * 4
    middle = estimate.point if estimate is not None else sum(present) / len(present)
    cells = [cell(shown.number(middle, 5), "number")]
    for end in (estimate.low, estimate.high) if estimate is not None else (None, None):
        cells.append(cell("not estimable", "absent") if end is None else cell(shown.number(end, 5), "number"))
    return [
        *cells,
        cell(shown.number(min(present), 5), "number"),
        cell(shown.number(max(present), 5), "number"),
    ]


def published_words(result: Result, point: Mapping[str, str]) -> str:
    """What the source states for a setting, with its hedges."""
    says = []
    for number in result.published:
        if all(point.get(name) == level for name, level in number.point.items()):
            shown = display(result.quantity.unit, [number.high])
            to = f" to {shown.text(number.high)}" if number.high != number.low else ""
            says.append(f"{number.qualifier} {shown.text(number.low)}{to}".strip())
    return "; ".join(dict.fromkeys(says))


def values_table(data: Gathered, path: str, results: Sequence[Result]) -> Block:
    """One row per run, one column per statistic; an absent value is said."""
    split = len({one.realisation for one in results[0].cells}) > 1
    displays = [display(r.quantity.unit, [v for one in r.cells for v in one.present]) for r in results]
    columns = [
        f"{result.quantity.statistic} ({shown.unit})" if shown.unit else result.quantity.statistic
        for result, shown in zip(results, displays, strict=True)
    ]
    rows: dict[str, list[Block]] = {}
    for result in results:
        for one in result.cells:
            for value in one.values:
                start = [cell(value.run)] + [cell(one.point.get(name, "")) for name in data.varying]
                rows.setdefault(value.run, start + ([cell(one.realisation)] if split else []))
    width = len(data.varying) + 1 + split
    for at, (result, shown) in enumerate(zip(results, displays, strict=True)):
        for one in result.cells:
            for value in one.values:
                row = rows[value.run]
                row += [cell("no value", "absent")] * (width + at - len(row))
                absent = cell("no value", "absent", value.reason)
                row.append(absent if value.value is None else cell(shown.number(value.value, 6), "number"))
    for short in rows.values():
        short.extend([cell("no value", "absent")] * (width + len(results) - len(short)))
    role, _, metric = path.rpartition(".")
    return {
        "id": names.of_metric("table", role, metric),
        "title": f"values per run ({grouped(len(rows))})",
        "caption": f"{path}{results[0].quantity.beside}: every statistic of every valid run",
        "head": head("run", *data.varying, *([REALISATION] if split else []), *columns, numbers=columns),
        "rows": [{"cells": rows[run], "out": False} for run in sorted(rows)],
    }
