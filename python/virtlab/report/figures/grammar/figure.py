"""The grammar of pictures: a figure is words and layers of marks; a layer is rows, a mark, and the channels it is
drawn by.

Specs are Vega-Lite and free of colours: theme and font come from the config, so one spec serves page, SVG and PNG,
light and dark. Every file beside this one declares one kind of figure in these words; `panels` lays layers out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

NUMBERS = "format(datum.value, '.9~g')"  # plain numbers on axes: 10, not 1e+1


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot of the report; `group` is its section, ROLE.METRIC."""

    name: str
    title: str
    subtitle: str
    alt: str
    spec: Mapping[str, Any]
    group: str
    statistic: str = ""
    x: str = ""
    empty: bool = False  # nothing measured: said, not drawn


def title_of(metric: str, role: str, statistic: str, x: str | None = None) -> str:
    """The title of a plot.

    >>> title_of("loss", "probe", "ratio", "load")
    'Loss of probe, ratio, by load'
    """
    return f"{metric[:1].upper()}{metric[1:]} of {role}, {statistic}" + (f", by {x}" if x else "")


def layer(
    rows: Sequence[Row], mark: str, style: str = "", /, *, look: Row | None = None, **channels: Any
) -> Row:
    """Rows drawn as marks; `style` is one of the theme's, `look` whatever else the mark has."""
    drawn = {"type": mark, **({"style": style} if style else {}), **(look or {})}
    return {"data": {"values": rows}, "mark": drawn, "encoding": channels}


def amount(field: str, title: str | None, **more: Any) -> Row:
    """The channel of a number."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def name(field: str, title: str | None, order: Sequence[str] | None = None, **more: Any) -> Row:
    """The channel of a name, with its levels in `order`."""
    sort = {} if order is None else {"sort": list(order)}
    return {"field": field, "type": "nominal", "title": title, **sort, **more}


def one_colour(series: str) -> Row:
    """The colour of marks that are all of one series."""
    return {"datum": series, "type": "nominal", "legend": None}


def tips(*shown: tuple[str, str] | tuple[str, str, str]) -> list[Row]:
    """What hovering says: (field, title) of a name, (field, title, format) of a number, '' for its usual format."""
    rows: list[Row] = []
    for field, title, *form in shown:
        number = (
            {"type": "quantitative", **({"format": form[0]} if form[0] else {})}
            if form
            else {"type": "nominal"}
        )
        rows.append({"field": field, "title": title, **number})
    return rows


def far_apart(values: Sequence[float], factor: float) -> bool:
    """Whether values span more than a linear axis shows: all above zero, the largest over `factor` times the smallest.

    >>> far_apart([1.0, 30.0], 20), far_apart([0.0, 30.0], 20), far_apart([], 20)
    (True, False, False)
    """
    return bool(values) and min(values) > 0 and max(values) > factor * min(values)


def scale_of_one(values: Sequence[float]) -> Row | None:
    """The scale of an axis on which all values are the same; None where they differ.

    Left to itself such an axis has one tick, with a rounded number beside it.

    >>> scale_of_one([25.28, 25.28])
    {'domain': [0, 31.6], 'nice': True}
    >>> scale_of_one([0.0]), scale_of_one([-2.0]), scale_of_one([1.0, 2.0]), scale_of_one([])
    ({'domain': [0, 1]}, {'domain': [-2.5, 0], 'nice': True}, None, None)
    """
    if not values or max(values) - min(values) > 1e-9 * max(map(abs, values)):
        return None
    value = values[0]
    if value == 0:
        return {"domain": [0, 1]}
    return {"domain": [0, 1.25 * value] if value > 0 else [1.25 * value, 0], "nice": True}
