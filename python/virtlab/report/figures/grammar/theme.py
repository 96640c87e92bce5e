"""One look for page and plots: colours that colour-blind eyes tell apart, in a light and a dark set.

The categorical colours are Okabe and Ito's ("Color Universal Design", 2008) with the yellow dropped and
contrast raised against each background; shapes repeat what colours say. Ordered levels take a ramp of one
lightness direction. Plots are drawn in the light colours; `themable` turns each into a CSS variable, so that
an inlined SVG follows the page.
"""

from __future__ import annotations

import re
from typing import Any

from virtlab.units import MINUS, THOUSANDS

FONT = (
    "Liberation Sans, Helvetica Neue, Helvetica, Arial, sans-serif"  # the first is inside the renderer itself
)

CATEGORY = {
    "light": ["#0067a8", "#c44e00", "#00805c", "#a8447f", "#a87400", "#3d8fc4", "#555b66"],
    "dark": ["#5fb4f0", "#ff9554", "#3ccf9f", "#ea9cc9", "#f0bd4a", "#9ad2ff", "#b3bac6"],
}
RAMP = {
    "light": ["#8cc3dc", "#5ba3cb", "#3d82b8", "#2f62a0", "#2b4483", "#272a63"],
    "dark": ["#2f5d8f", "#3a7cb5", "#4d9bd2", "#74b9e3", "#a5d5ef", "#d8eefa"],
}
INK = {
    "light": {"ink": "#1b2130", "muted": "#5b6473", "faint": "#8a93a3",
              "grid": "#e4e8ee", "ground": "#ffffff", "published": "#7a1fa2"},
    "dark": {"ink": "#e8ecf3", "muted": "#a4aebd", "faint": "#78828f",
             "grid": "#2d3542", "ground": "#161b24", "published": "#d59bf5"},
}  # fmt: skip
SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right"]
NUMBERS = {
    "decimal": ".",
    "thousands": THOUSANDS,
    "grouping": [3],
    "currency": ["", ""],
    "minus": MINUS,
}  # as tables have them


def config(theme: str, *, font: str = FONT) -> dict[str, Any]:
    """The Vega-Lite config of a theme, 'light' or 'dark'."""
    ink = INK[theme]
    label = {"labelColor": ink["muted"], "titleColor": ink["ink"], "labelFontSize": 11.5, "titleFontSize": 12}
    return {
        "background": None,
        "font": font,
        "padding": 6,
        "view": {"stroke": None},
        "locale": {"number": NUMBERS},
        "axis": {
            **label,
            "gridColor": ink["grid"],
            "domainColor": ink["faint"],
            "tickColor": ink["faint"],
            "titleFontWeight": "normal",
            "titlePadding": 10,
            "labelPadding": 5,
            "tickSize": 4,
            "labelFlush": False,
        },
        "axisY": {"domain": False, "ticks": False},
        "axisX": {"grid": False},
        "legend": {**label, "titleFontWeight": "normal", "symbolSize": 70, "orient": "top",
                   "direction": "horizontal", "titleOrient": "left", "offset": 22, "titlePadding": 10,
                   "columnPadding": 16, "labelLimit": 240},
        "header": {"labelColor": ink["ink"], "titleColor": ink["muted"], "labelFontSize": 12,
                   "labelFontWeight": 600, "labelPadding": 8, "labelOrient": "top", "labelAnchor": "start",
                   "title": None},
        "title": {"color": ink["ink"], "subtitleColor": ink["muted"], "anchor": "start", "fontSize": 16,
                  "subtitleFontSize": 12, "offset": 18, "subtitlePadding": 6, "fontWeight": 600,
                  "frame": "bounds"},
        "range": {"category": CATEGORY[theme], "ordinal": {"scheme": RAMP[theme]}, "symbol": SHAPES},
        "style": {
            "run": {"size": 16, "opacity": 0.38, "filled": True},
            "mean": {"size": 62, "filled": True, "opacity": 1, "stroke": ink["ground"], "strokeWidth": 1.2},
            "whisker": {"strokeWidth": 2, "opacity": 0.95},
            "trend": {"strokeWidth": 1.4, "opacity": 0.55},
            "published": {"color": ink["published"], "fill": ink["ground"], "size": 90, "strokeWidth": 1.8,
                          "opacity": 1},
            "published-range": {"color": ink["published"], "strokeWidth": 1.8, "strokeDash": [3, 2]},
            "curve": {"strokeWidth": 1.8},
            "limit": {"stroke": ink["faint"], "strokeDash": [4, 3]},
        },
    }  # fmt: skip


def variables(theme: str) -> dict[str, str]:
    """CSS custom properties of a theme: name -> colour."""
    return {
        **{f"--{name}": colour for name, colour in INK[theme].items()},
        **{f"--c{index}": colour for index, colour in enumerate(CATEGORY[theme])},
        **{f"--r{index}": colour for index, colour in enumerate(RAMP[theme])},
    }


_LIGHT = {colour: name for name, colour in variables("light").items() if name != "--ground"} | {
    INK["light"]["ground"]: "--ground"
}
_COLOUR = re.compile(r"\"(#[0-9a-fA-F]{6})\"|\"(white)\"")


def themable(svg: str) -> str:
    """An SVG drawn in light colours, with each of them replaced by the CSS variable that follows the page's
    theme.
    """

    def swap(match: re.Match[str]) -> str:
        colour = (match[1] or "#ffffff").lower()
        name = _LIGHT.get(colour)
        return f'"var({name}, {colour})"' if name else match[0]

    return _COLOUR.sub(swap, svg)
