"""The tables behind the plots of one metric: a row per setting, a row per run. An absent value says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from virtlab.report import names
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, Result, RunValue
from virtlab.report.tables.table import Block, Column, absent, in_unit, number, setting_columns, table, text
from virtlab.units import Display, display, show_count


def settings_table(data: Gathered, result: Result) -> Block:
    """Per setting: runs, mean with interval, spread, published."""
    quantity = result.quantity
    shown = display(quantity.unit, [value for one in result.cells for value in one.present])
    estimates = [one.estimate for one in result.cells if one.estimate]
    level, method = (estimates[0].level, estimates[0].method) if estimates else (0.95, "")
    columns = [
        *setting_columns(data.design.varying, result.cells),
        number("runs", lambda row: str(len(row.present))),
        number(in_unit("mean", shown.unit), lambda row: _mean(row, shown)),
        number("low", lambda row: _end(row, "low", shown)),
        number("high", lambda row: _end(row, "high", shown)),
        number("smallest run", lambda row: shown.number(min(row.present), 5) if row.present else None),
        number("largest run", lambda row: shown.number(max(row.present), 5) if row.present else None),
        *([text("published", lambda row: published_words(result, row.point))] if result.published else []),
    ]
    return table(
        columns,
        result.cells,
        name=names.slug(f"settings of {quantity.path}"),
        title=f"{quantity.statistic} per setting",
        caption=f"{quantity.path}{quantity.qualifier}: mean of the runs' values with {level * 100:g} % interval"
        + (f" ({method})" if method else ""),
        out=lambda row: not row.present,
    )


def _mean(cell: Cell, shown: Display) -> str | Block:
    if not cell.present:
        return absent()
    return shown.number(cell.estimate.point if cell.estimate is not None else cell.mean, 5)


def _end(cell: Cell, end: str, shown: Display) -> str | Block | None:
    value = getattr(cell.estimate, end, None)
    if value is None:
        return absent("not estimable") if cell.present else None
    return shown.number(value, 5) if cell.present else None


def published_words(result: Result, point: Mapping[str, str]) -> str:
    """What the source states for a setting, with its hedges."""
    stated = [one for one in result.published if one.is_of(point)]
    return "; ".join(dict.fromkeys(one.text(display(result.quantity.unit, [one.high])) for one in stated))


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: its setting, and its value of each statistic."""

    run: str
    point: Mapping[str, str]
    realisation: str
    values: dict[str, RunValue] = field(default_factory=dict)


def values_table(data: Gathered, path: str, results: Sequence[Result]) -> Block:
    """One row per run, one column per statistic; an absent value is said."""
    runs: dict[str, _Run] = {}
    for result in results:
        for one in result.cells:
            for value in one.values:
                row = runs.setdefault(value.run, _Run(value.run, one.point, one.realisation))
                row.values[result.quantity.statistic] = value

    def column(result: Result) -> Column[_Run]:
        shown = display(result.quantity.unit, [value for one in result.cells for value in one.present])

        def says(row: _Run) -> str | Block:
            value = row.values.get(result.quantity.statistic)
            if value is None or value.value is None:
                return absent(hint=value.reason if value else "")
            return shown.number(value.value, 6)

        return number(in_unit(result.quantity.statistic, shown.unit), says)

    settings = setting_columns(data.design.varying, results[0].cells)
    role, _, metric = path.rpartition(".")
    return table(
        [Column("run", lambda row: row.run), *settings, *map(column, results)],
        [runs[run] for run in sorted(runs)],
        name=names.of_metric("table", role, metric),
        title=f"values per run ({show_count(len(runs))})",
        caption=f"{path}{results[0].quantity.qualifier}: every statistic of every valid run",
    )
