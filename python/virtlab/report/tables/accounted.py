"""Which share of the differences between runs each factor accounts for."""

from __future__ import annotations

from collections.abc import Callable

from virtlab.analysis.effects.accounted import Accounted
from virtlab.report.gather.gathered import Gathered
from virtlab.report.tables.table import Block, Column, number, table


def accounted_table(data: Gathered) -> Block:
    """A row for each path, a column for each factor, for what they do together, and for what differs between runs."""
    rows: dict[str, dict[str, Accounted]] = {}
    for one in data.influences.accounted:
        rows.setdefault(str(one.path), {})[one.source] = one
    sources = dict.fromkeys(one.source for one in data.influences.accounted)
    columns: list[Column[tuple[str, dict[str, Accounted]]]] = [
        Column("of", lambda row: row[0]),
        *(number(source.strip("()"), _says(source)) for source in sources),
    ]
    level = data.influences.accounted[0].level
    caption = f"Share of the variance that each factor accounts for, with its {level * 100:g} % interval"
    return table(columns, list(rows.items()), caption=caption)


def _says(source: str) -> Callable[[tuple[str, dict[str, Accounted]]], str]:
    def text(row: tuple[str, dict[str, Accounted]]) -> str:
        one = row[1][source]
        return f"{one.share:.1%} ({one.low:.1%} to {one.high:.1%})"

    return text
