"""The grammar of tables: rows, and columns that each say one thing of a row. Every file beside this one declares
tables.

Tables are the text behind every plot: whatever a picture shows, a table holds in numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from virtlab.report.gather.model import Setting
from virtlab.report.names import REALISATION

Block = dict[str, Any]  # what the page's template takes
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column: its title, and what it says of a row; None where the row has no such value. Numbers stand to the
    right.
    """

    title: str
    says: Callable[[Row], str | Block | None]
    kind: str = ""

    def cell(self, row: Row) -> Block:
        """The row's cell in this column."""
        says = self.says(row)
        return absent("") if says is None else says if isinstance(says, dict) else cell(says, self.kind)


def number(title: str, says: Callable[[Row], str | Block | None]) -> Column[Row]:
    """A column of numbers."""
    return Column(title, says, "number")


def text(title: str, says: Callable[[Row], str | Block | None]) -> Column[Row]:
    """A column of longer words, which may break into lines."""
    return Column(title, says, "text")


def cell(words: str, kind: str = "", hint: str = "") -> Block:
    """One cell; `kind` is a class: 'number', 'text', 'absent', 'text differs'; `hint` shows on hovering."""
    return {"text": words, "kind": kind, "hint": hint}


def absent(words: str = "no value", hint: str = "") -> Block:
    """A cell without a value, in words: missing is not zero."""
    return cell(words, "absent", hint)


def table(
    columns: Sequence[Column[Row]],
    rows: Iterable[Row],
    *,
    name: str = "",
    title: str = "",
    caption: str = "",
    out: Callable[[Row], bool] = lambda _: False,
) -> Block:
    """The table; `out` picks rows that do not count, which are shown pale."""
    return {
        "id": name,
        "title": title,
        "caption": caption,
        "head": [{"text": one.title, "number": one.kind == "number"} for one in columns],
        "rows": [{"cells": [one.cell(row) for one in columns], "out": out(row)} for row in rows],
    }


def setting_columns(
    varying: Sequence[str], settings: Iterable[Setting], of: Callable[[Any], Setting] = lambda row: row
) -> list[Column[Any]]:
    """The columns that say which setting a row is of; `of` gives the setting of a row that is not itself a setting."""

    def level(name: str) -> Column[Any]:
        return Column(name, lambda row: of(row).point.get(name, ""))

    links: list[Column[Any]] = (
        [Column(REALISATION, lambda row: of(row).realisation)] if is_split(settings) else []
    )
    return [*map(level, varying), *links]


def is_split(settings: Iterable[Setting]) -> bool:
    """Whether links were realised in several ways."""
    return len({one.realisation for one in settings}) > 1


def in_unit(title: str, unit: str) -> str:
    """The title of a column of numbers with their unit.

    >>> in_unit("mean", "ms"), in_unit("mean", "")
    ('mean (ms)', 'mean')
    """
    return f"{title} ({unit})" if unit else title
