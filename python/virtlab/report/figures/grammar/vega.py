"""From figures to pictures: SVG and PNG, no browser, no network; a page of its own where those cannot be drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from virtlab import drawing
from virtlab.report.figures.grammar import theme
from virtlab.report.figures.grammar.figure import Figure

PNG_SCALE = 2.0
TITLE_COLUMNS = 96  # letters that stand above a plot side by side
SUBTITLE_COLUMNS = 136


def svg(figure: Figure, *, titled: bool, colours: str = "light") -> str:
    """The plot as SVG; `titled` puts title and subtitle inside, for use outside the page."""
    return drawing.svg(*_drawn(figure, titled=titled, colours=colours))


def png(picture: str) -> bytes:
    """An SVG as PNG, twice its size in CSS pixels."""
    return drawing.png(picture, scale=PNG_SCALE)


def page(figure: Figure) -> str:
    """The plot, with title and subtitle, in a page that draws it by its own script."""
    return drawing.page(figure.title, *_drawn(figure, titled=True, colours="light"))


def configs() -> Mapping[str, Any]:
    """The plots' looks in the page, by theme, in the page's own font."""
    return {name: theme.config(name, font="inherit") for name in ("light", "dark")}


def _drawn(figure: Figure, *, titled: bool, colours: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Spec and config."""
    spec: dict[str, Any] = dict(figure.spec)
    config = theme.config(colours)
    if titled:
        lines = textwrap.wrap(figure.title, TITLE_COLUMNS), textwrap.wrap(figure.subtitle, SUBTITLE_COLUMNS)
        spec["title"] = {"text": lines[0], "subtitle": lines[1]}
        config = {**config, "background": theme.INK[colours]["ground"], "padding": 18}
    return spec, config
