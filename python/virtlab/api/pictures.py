"""A plot of a report: it shows itself in a notebook, and is saved as SVG, PNG or a page."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from virtlab.errors import ExperimentError
from virtlab.folders import put

if TYPE_CHECKING:
    from virtlab.report.figures.grammar.figure import Figure


HEIGHT = 480  # of the frame around a plot in a notebook, CSS pixels: the tallest plots scroll


@dataclass(frozen=True, slots=True)
class Picture:
    """One plot; `name`, `title` and `alt` are its name, its heading and what it shows in words."""

    name: str
    title: str
    alt: str
    _figure: Figure

    def svg(self) -> str:
        """The picture as SVG; MachineError without the extra `virtlab[pictures]`."""
        from virtlab.report.figures.grammar import vega

        return vega.svg(self._figure, titled=True)

    def save(self, path: str | Path) -> None:
        """Writes `.html`, which opens offline, or `.svg` or `.png`, which need the extra `virtlab[pictures]`."""
        from virtlab.report.figures.grammar import vega

        file = Path(path)
        if file.suffix not in {".html", ".svg", ".png"}:
            raise ExperimentError(str(file), "ends neither in .html nor in .svg or .png", "name the file so")
        if file.suffix == ".html":
            put(file, vega.page(self._figure).encode())
            return
        svg = self.svg()
        put(file, svg.encode() if file.suffix == ".svg" else vega.png(svg))

    def _repr_html_(self) -> str:
        """SVG where it can be drawn; else a page inside the page, whose own script draws it."""
        from virtlab import drawing
        from virtlab.report.figures.grammar import vega

        if drawing.can_draw():
            return self.svg()
        page = html.escape(vega.page(self._figure))
        return f'<iframe srcdoc="{page}" title="{html.escape(self.alt)}" width="100%" height="{HEIGHT}"></iframe>'
