"""The grammar of the page's sections: a title, what it shows, pictures under tabs, a table, and tables that fold
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from virtlab.report.figures.grammar import theme
from virtlab.report.figures.grammar.figure import Figure
from virtlab.report.tables.table import Block

Pictures = Mapping[str, str]  # SVGs by the name of their plot


def section(
    name: str,
    title: str,
    *,
    about: str,
    short: str,
    figures: Sequence[Block] = (),
    table: Block | None = None,
    tables: Sequence[Block] = (),
    nested: Sequence[Block] = (),
) -> Block:
    """A section; `short` is its entry in the contents, `nested` tables fold out together."""
    return {
        "id": name, "title": title, "short": short, "about": about, "figures": list(figures), "table": table,
        "tables": list(tables), "nested": list(nested),
    }  # fmt: skip


def drawn(figures: Iterable[Figure], pictures: Pictures, tab: Callable[[Figure], str]) -> list[Block]:
    """Figures as blocks; `tab` is what the tab of each says."""
    from markupsafe import Markup

    return [
        {
            "name": figure.name, "title": figure.title, "subtitle": figure.subtitle, "alt": figure.alt,
            "empty": figure.empty, "tab": tab(figure),
            "svg": Markup(theme.themable(pictures.get(figure.name, ""))),  # noqa: S704 - Vega escapes its text
        }
        for figure in figures
    ]  # fmt: skip


def titled(table: Block, prefix: str) -> Block:
    """The table with words before its title."""
    return {**table, "title": prefix + table["title"]}
