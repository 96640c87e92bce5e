"""A plot of a report: it shows itself in a notebook, and is saved as SVG or PNG."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from virtlab.errors import ExperimentError

if TYPE_CHECKING:
    from virtlab.report.figures.figure import Figure


@dataclass(frozen=True, slots=True)
class Picture:
    """One plot; `name`, `title` and `alt` are its name, its heading and what it shows in words."""

    name: str
    title: str
    alt: str
    _figure: Figure

    def svg(self) -> str:
        """The picture as SVG."""
        from virtlab.report.figures import vega

        return vega.svg(self._figure, titled=True)

    def save(self, path: str | Path) -> None:
        """Writes `.svg` or `.png`."""
        from virtlab.report.figures import vega

        file = Path(path)
        if file.suffix not in {".svg", ".png"}:
            raise ExperimentError(str(file), "is neither .svg nor .png", "name the file so")
        svg = self.svg()
        file.write_bytes(svg.encode() if file.suffix == ".svg" else vega.png(svg))

    def _repr_html_(self) -> str:
        return self.svg()
