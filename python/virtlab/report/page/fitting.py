"""A table for a terminal that cuts nothing: columns for which a line has no room go below, beside their rows' names
again.

Rich shortens what does not fit, and of "26.12 ± 0.35" then "26.12 ± 0..." is left. Here a value is never broken; a
row's name may take a second line where not even one column of values fits beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

GAP = 2  # spaces between columns


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, which may have several lines, and a cell for each row."""

    heading: str
    cells: Sequence[str]

    @property
    def width(self) -> int:
        """The length of its longest line, in places of a terminal."""
        from rich.cells import cell_len

        lines = [*self.heading.split("\n"), *self.cells]
        return max(map(cell_len, lines), default=0)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Columns that name the rows, and columns of values, in as many tables below each other as the width asks for."""

    names: Sequence[Column]
    values: Sequence[Column]
    caption: str = ""

    def groups(self, width: int) -> Iterator[list[Column]]:
        """Columns of values that stand side by side; at least one.

        >>> few = Fitted([Column("a", ["12345"])], [Column("b", ["1" * 8]), Column("c", ["2" * 8]), Column("d", ["3"])])
        >>> [[column.heading for column in group] for group in few.groups(26)]
        [['b', 'c'], ['d']]
        """
        taken = sum(column.width + GAP for column in self.names)
        group: list[Column] = []
        for column in self.values:
            if group and taken + sum(each.width + GAP for each in group) + column.width > width:
                yield group
                group = []
            group.append(column)
        yield group

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        groups = list(self.groups(options.max_width))
        for group in groups:
            yield self._table(group, caption=self.caption if group is groups[-1] else "")

    def _table(self, group: Sequence[Column], *, caption: str) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", caption_justify="left",
            caption=caption or None,
        )  # fmt: skip
        for column in self.names:
            table.add_column(Text(column.heading), overflow="fold")
        for column in group:
            table.add_column(Text(column.heading), justify="right", no_wrap=True, min_width=column.width)
        for row in zip(*(column.cells for column in (*self.names, *group)), strict=True):
            table.add_row(*(Text(cell) for cell in row))
        return table
