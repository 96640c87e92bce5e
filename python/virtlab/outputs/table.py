"""Comma-separated values (RFC 4180): the cells of a column that the first row names."""

from __future__ import annotations

import csv
import io

from virtlab.outputs.unreadable import SHOWN, UnreadableError, finite

CELL_MAX = 1 << 17  # characters


def values(text: str, column: str, delimiter: str) -> list[float]:
    """The numbers of a column, from the second row on. UnreadableError with the line."""
    return [finite(cell, line, column) for line, cell in cells(text, column, delimiter)]


def cells(text: str, column: str, delimiter: str) -> list[tuple[int, str]]:
    """Line and text of each cell of a column, from the second row on. UnreadableError with the line."""
    csv.field_size_limit(CELL_MAX)  # one for all readers of this process
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    found: list[tuple[int, str]] = []
    try:
        heads = [head.strip() for head in next(rows, [])]
        if column not in heads:
            names = ", ".join(" ".join(head[:SHOWN].split()) for head in heads[:8])
            raise UnreadableError(f"has no column '{column}'; its first row names {names or 'nothing'}", 1)
        if heads.count(column) > 1:
            raise UnreadableError(f"has {heads.count(column)} columns '{column}'", 1)
        place = heads.index(column)
        for row in rows:
            if not row:
                continue  # an empty line
            if len(row) != len(heads):
                raise UnreadableError(f"has {len(row)} cells for {len(heads)} columns", rows.line_num)
            found.append((rows.line_num, row[place].strip()))
    except csv.Error as error:
        raise UnreadableError(f"is not CSV ({error})", rows.line_num) from None
    if not found:
        raise UnreadableError("has a first row, and no other", 1)
    return found
