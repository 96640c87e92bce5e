"""What the measuring says of itself: one row per path, the spread over runs."""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.report.gather.model import Result
from virtlab.report.tables.table import Block, Column, number, table, text
from virtlab.units import display

_Row = tuple[Result, list[float]]  # and the values of its runs, sorted


def health_table(results: Sequence[Result]) -> tuple[Block, int]:
    """The table, and how many counters of hosts, guests and links stayed zero, which are left out."""
    valued = [(one, sorted(value for cell in one.cells for value in cell.present)) for one in results]
    valued = [(one, values) for one, values in valued if values]
    quiet = [
        one.quantity.path
        for one, values in valued
        if one.quantity.declaration.of == "entity" and values[0] == values[-1] == 0
    ]

    def spread(title: str, at: float) -> Column[_Row]:
        def says(row: _Row) -> str:
            value = row[1][min(int(at * len(row[1])), len(row[1]) - 1)]
            return display(row[0].quantity.unit, [value]).text(value)

        return number(title, says)

    columns: list[Column[_Row]] = [
        text("what", lambda row: row[0].quantity.path),
        Column("meaning", lambda row: f"{row[0].quantity.title}{row[0].quantity.qualifier}"),
        spread("smallest", 0.0),
        spread("median", 0.5),
        spread("largest", 1.0),
        number("runs", lambda row: str(len(row[1]))),
    ]
    rows = [row for row in valued if row[0].quantity.path not in quiet]
    caption = "Values of runs: smallest, median and largest over all settings"
    return table(columns, rows, caption=caption), len(quiet)
