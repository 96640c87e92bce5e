"""One picture, a panel per setting: which panels there are, their order, and the layers laid out in them.

A setting is a design point under one realisation of its links: samples of two of them are never put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from virtlab.drawing import SCHEMA
from virtlab.report.figures.grammar.figure import Row
from virtlab.report.gather.model import Factor, Setting
from virtlab.report.names import REALISATION
from virtlab.units import numeric_levels

WIDTH = 760  # of the plotting area, in CSS pixels
MAXIMUM_PANELS = 12
DESCRIBED = 8  # settings that the alternative text of a picture describes
_ABOVE = {
    "titleAngle": 0,
    "titleAlign": "left",
    "titleAnchor": "end",
    "titleX": 0,
    "titleY": -12,
    "titlePadding": 0,
}


AnySetting = TypeVar("AnySetting", bound=Setting)


@dataclass(frozen=True, slots=True)
class Panels:
    """The panels of a picture: `labels` are drawn, `left_out` more are not."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    left_out: int

    @classmethod
    def of(
        cls,
        settings: Iterable[Setting],
        factors: Sequence[Factor],
        *,
        split: bool,
        without: Iterable[str] = (),
    ) -> Panels:
        """A panel per setting, in the order of the levels in the file; `split`: link realisations are panels too, and
        last; `without`: factors that the picture shows otherwise.
        """
        others = [factor.name for factor in factors if factor.name not in set(without)]
        names = (*others, *([REALISATION] if split else []))
        every = panel_labels(factors, names, (_label(one, names) for one in settings))
        return cls(names, tuple(every[:MAXIMUM_PANELS]), max(0, len(every) - MAXIMUM_PANELS))

    def label(self, setting: Setting) -> str:
        """The panel of a setting, whether it is drawn or not."""
        return _label(setting, self.names)

    def drawn(self, settings: Iterable[AnySetting]) -> Iterator[tuple[str, AnySetting]]:
        """The settings that have a panel, each with its label."""
        return ((self.label(one), one) for one in settings if self.label(one) in self.labels)

    @property
    def alone(self) -> bool:
        """Whether there is nothing to put beside each other."""
        return len(self.labels) <= 1

    @property
    def more(self) -> str:
        """What a subtitle says of panels that are left out."""
        return f"; {self.left_out} more panels are left out" if self.left_out else ""

    def arrange(
        self, layers: list[Row], height: int, height_of_many: int, *, independent: Sequence[str] = ()
    ) -> Row:
        """Layers in their panels; `independent` axes have a scale per panel."""
        spec = arrange(
            layers, () if self.alone else self.labels, height=height if self.alone else height_of_many
        )
        if independent and not self.alone:
            spec["resolve"] = {"scale": dict.fromkeys(independent, "independent")}
        return spec


def _label(setting: Setting, names: Sequence[str]) -> str:
    point = {**setting.point, REALISATION: setting.realisation}
    return ", ".join(f"{name} {point.get(name, '—')}" for name in names)


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


def described(settings: Iterable[tuple[str, str]]) -> str:
    """What is said of each setting, (where, what), for those who do not see the picture; the first few of them."""
    said = list(settings)[:DESCRIBED]
    return "; ".join(f"{where + ': ' if where else ''}{what}" for where, what in said)


def main_factor(factors: Sequence[Factor]) -> Factor | None:
    """The factor that colours distributions: a numeric one before names, then the one with most levels."""
    return max(
        factors, key=lambda each: (numeric_levels(each.levels) is not None, len(each.levels)), default=None
    )


def arrange(layers: list[Row], labels: Sequence[str], *, height: int) -> Row:
    """Layers alone, or one panel per label.

    A facet of layers needs one table, so it has the rows of all layers, and each layer takes those of its `kind`.
    """
    if not labels:
        return {"$schema": SCHEMA, "width": WIDTH, "height": height, "layer": [_alone(one) for one in layers]}
    columns = len(labels) if len(labels) <= 1 else 2 if len(labels) in (2, 4) else 3
    rows = [{**row, "kind": kind} for kind, one in enumerate(layers) for row in one["data"]["values"]]
    taken = [
        {
            "mark": one["mark"],
            "encoding": one["encoding"],
            "transform": [{"filter": f"datum.kind === {kind}"}],
        }
        for kind, one in enumerate(layers)
    ]
    return {
        "$schema": SCHEMA,
        "data": {"values": rows},
        "facet": {"field": "panel", "type": "nominal", "sort": list(labels), "header": {"title": None}},
        "columns": columns,
        "bounds": "flush",
        "spacing": {"row": 62, "column": 30},
        "spec": {"width": round((WIDTH - 60 * (columns - 1)) / columns), "height": height, "layer": taken},
    }


def _alone(layer: Row) -> Row:
    """A layer without panels: the title of its axis stands above the axis, and the legend above that."""
    channels = dict(layer["encoding"])
    for channel in ("color", "shape"):
        if "field" in channels.get(channel, {}):
            legend = {**channels[channel].get("legend", {}), "offset": 34}
            channels[channel] = {**channels[channel], "legend": legend}
    if "y" in channels:  # a shade has the whole height
        channels["y"] = {**channels["y"], "axis": {**channels["y"].get("axis", {}), **_ABOVE}}
    return {**layer, "encoding": channels}
