"""What every plot is: a stable name, words for every reader, and one Vega-Lite spec.

Specs are colour-free: theme and font come from the config, so one spec serves page, SVG and PNG, light and
dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.report.gather.model import Factor
from virtlab.report.quantities import Display

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
WIDTH = 760  # of the plotting area, in CSS pixels
MAXIMUM_PANELS = 12
REALISATION = "links"  # the panel name of the link realisation, where a dataset holds several

Row = dict[str, Any]

NUMBERS = "format(datum.value, '.9~g')"  # plain numbers on axes: 10, not 1e+1
_ABOVE = {
    "titleAngle": 0,
    "titleAlign": "left",
    "titleAnchor": "end",
    "titleX": 0,
    "titleY": -12,
    "titlePadding": 0,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot of the report; `group` is the ROLE.METRIC section it stands in."""

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


def panel_label(point: Mapping[str, str], panels: Sequence[str]) -> str:
    """What stands above a panel: 'streams 2, switches 1'."""
    return ", ".join(f"{name} {point.get(name, '—')}" for name in panels)


def panel_labels(factors: Sequence[Factor], panels: Sequence[str], present: Iterable[str]) -> list[str]:
    """The panels that exist, in the order of the levels in the file; realisations last, by name."""
    order = {factor.name: {level: at for at, level in enumerate(factor.levels)} for factor in factors}

    def key(label: str) -> list[tuple[int, str]]:
        parts, rest = [], label
        for at, name in enumerate(panels):
            end = rest.find(f", {panels[at + 1]} ") if at + 1 < len(panels) else len(rest)
            level = rest[len(name) + 1 : end]
            parts.append((order.get(name, {}).get(level, len(order)), level))
            rest = rest[end + 2 :]
        return parts

    return sorted(set(present), key=key)


def axis_title(axis: Factor | None, shown: Display) -> str | None:
    """The factor and the unit its levels are drawn in."""
    if axis is None:
        return None
    return f"{axis.name} ({shown.unit})" if shown.unit else axis.name


def columns_of(panels: int) -> int:
    """How many panels stand beside each other."""
    return panels if panels <= 1 else 2 if panels in (2, 4) else 3


def arrange(layers: list[Row], labels: Sequence[str], *, height: int) -> Row:
    """Layers alone, or one panel per label.

    A facet of layers needs one table, so the rows of all layers stand in it, and each layer takes those of
    its `kind`.
    """
    if not labels:
        for layer in layers:
            for channel in ("color", "shape"):
                if "field" in layer["encoding"].get(channel, {}):
                    legend = {**layer["encoding"][channel].get("legend", {}), "offset": 34}
                    layer["encoding"][channel] = {**layer["encoding"][channel], "legend": legend}
            layer["encoding"]["y"] = {
                **layer["encoding"]["y"],
                "axis": {**layer["encoding"]["y"].get("axis", {}), **_ABOVE},
            }
        return {"$schema": SCHEMA, "width": WIDTH, "height": height, "layer": layers}
    columns = columns_of(len(labels))
    rows: list[Row] = []
    taken = []
    for index, layer in enumerate(layers):
        rows += [{**row, "kind": index} for row in layer["data"]["values"]]
        rest = {key: value for key, value in layer.items() if key != "data"}
        taken.append({**rest, "transform": [{"filter": f"datum.kind === {index}"}]})
    return {
        "$schema": SCHEMA,
        "data": {"values": rows},
        "facet": {"field": "panel", "type": "nominal", "sort": list(labels), "header": {"title": None}},
        "columns": columns,
        "bounds": "flush",
        "spacing": {"row": 62, "column": 30},
        "spec": {"width": round((WIDTH - 60 * (columns - 1)) / columns), "height": height, "layer": taken},
    }


def scale_of_one(values: Sequence[float]) -> Row | None:
    """The scale of an axis on which all values are the same; None where they differ.

    Left to itself such an axis has one tick, beside which stands a rounded number.

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
