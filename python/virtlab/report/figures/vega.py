"""From specs to pictures: SVG and PNG by vl-convert, no browser, no network; and the script for the page.

The renderer carries its own font (Liberation Sans), so pictures look the same on every machine.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from virtlab.lazy import vl_convert
from virtlab.report.figures import theme
from virtlab.report.figures.figure import Figure

VEGA_LITE = "6.4"
PNG_SCALE = 2.0
TITLE_COLUMNS = 96  # letters that stand above a plot side by side
SUBTITLE_COLUMNS = 136


def svg(figure: Figure, *, titled: bool, colours: str = "light") -> str:
    """The plot as SVG; `titled` puts title and subtitle inside, for use outside the page."""
    spec: dict[str, Any] = dict(figure.spec)
    if titled:
        lines = textwrap.wrap(figure.title, TITLE_COLUMNS), textwrap.wrap(figure.subtitle, SUBTITLE_COLUMNS)
        spec["title"] = {"text": lines[0], "subtitle": lines[1]}
    config = theme.config(colours)
    if titled:
        config = {**config, "background": theme.INK[colours]["ground"], "padding": 18}
    picture: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, config=config)
    return picture


def png(picture: str) -> bytes:
    """An SVG as PNG, twice its size in CSS pixels."""
    pixels: bytes = vl_convert.svg_to_png(picture, scale=PNG_SCALE)
    return pixels


@lru_cache(maxsize=1)
def javascript() -> str:
    """Vega, Vega-Lite and vega-embed as one script, which sets `window.vegaEmbed`; about 0.9 MB."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def configs() -> Mapping[str, Any]:
    """The plots' looks in the page, by theme, in the page's own font."""
    return {name: theme.config(name, font="inherit") for name in ("light", "dark")}
