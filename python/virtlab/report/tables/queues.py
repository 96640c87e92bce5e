"""Queues of link directions, a row per class, with the row marked in which packets waited longest."""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.report.gather.queues import MARK, Row
from virtlab.report.tables.table import Block, Column, table
from virtlab.report.words import plural

ROWS_MAX = 240
WORDS = ("setting", "direction", "queue", "class", MARK)


def queues_table(rows: Sequence[Row]) -> Block | None:
    """The table, with the columns that some row has a value in; None without queues to speak of."""
    if not rows:
        return None
    present = [name for name in rows[0] if any(row[name] for row in rows)]

    def column(name: str) -> Column[Row]:
        return Column(name, lambda row: row[name], "text" if name in WORDS else "number")

    return table([column(name) for name in present], rows[:ROWS_MAX])


def about(rows: Sequence[Row]) -> str:
    """The caption of the table."""
    beyond = len(rows) - ROWS_MAX
    words = "Queues by class: passed, dropped, marked, waited; medians over runs"
    if any(row[MARK] for row in rows):
        words += "; 'here' marks where packets of a setting waited longest in the mean"
    return f"{words}; {plural(beyond, 'more row')} in the dataset" if beyond > 0 else words
