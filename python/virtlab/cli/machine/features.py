"""A feature table on the terminal: a column for each kind, a row for each of its features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from virtlab.terminal import console

WIDTH = 120  # where no terminal says how wide it is


def print_features(
    rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], said: Callable[[str, Any], str]
) -> None:
    """Prints what each row has under the keys of `labels` that the first one has; `said` puts a value into words."""
    from rich.markup import escape
    from rich.table import Table

    out = console()
    out = out if out.is_terminal else console(width=WIDTH)
    table = Table(show_edge=False)
    table.add_column("")
    for row in rows:
        table.add_column(str(row["name"]), overflow="fold")
    for key, label in labels.items():
        if key in rows[0]:
            table.add_row(label, *(escape(said(key, row[key])) for row in rows))
    out.print(table)
