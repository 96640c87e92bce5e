"""What hosts, pools, guests and disks did, against the load that a role offered: a line for each, a panel per
setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtlab.report.figures.grammar.figure import Figure, Row, amount, layer, name, tips
from virtlab.report.figures.grammar.panels import Panels, main_factor
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, Result
from virtlab.report.gather.processing import busiest
from virtlab.units import numeric_levels

GROUP = "health"
LOADS = (("request_rate", "requests due per second"), ("offered_load", "offered load, bit/s"))
Found = Sequence[tuple[str, Sequence[Cell]]]  # entity -> its mean at each setting


@dataclass(frozen=True, slots=True)
class Against:
    """What such a plot shows of its lines, in words and in formats."""

    name: str
    title: str  # with {role}
    value: str  # of a line, as a sentence begins with it
    axis: str
    scale: Row  # of the values
    tip: str  # format of a value in a tip
    text: str  # format of a value in a sentence


def against_load(data: Gathered, said: Against, entities: Found) -> Figure | None:
    """Means over the first load of which there are several values, of a role; None without one."""
    for load_metric, title in LOADS:
        for load in data.results:
            quantity = load.quantity
            if (quantity.metric, quantity.statistic) != (load_metric, "mean"):
                continue
            if len({cell.mean for cell in load.cells if cell.present}) > 1:
                return _of_load(data, said, load, title, entities)
    return None


def _of_load(data: Gathered, said: Against, load: Result, title: str, entities: Found) -> Figure:
    role = load.quantity.role
    loads = {cell.setting: cell.mean for cell in load.cells if cell.present}
    cells = [
        (entity, one) for entity, all_of in entities for one in all_of if one.present and one.setting in loads
    ]
    chosen = busiest((entity, one.mean) for entity, one in cells)
    main = main_factor(data.design.factors)
    without = [main.name] if main is not None and numeric_levels(main.levels) is not None else []
    panels = Panels.of(
        [one for _, one in cells], data.design.factors, split=len(data.realisations) > 1, without=without
    )
    rows: list[Row] = [
        {
            "x": loads[one.setting], "y": one.mean, "low": min(one.present), "high": max(one.present),
            "entity": entity, "n": len(one.present), "panel": panels.label(one),
        }
        for entity, one in cells
        if entity in chosen and panels.label(one) in panels.labels
    ]  # fmt: skip
    x = amount("x", title, scale={"zero": True})
    colour = name("entity", "", chosen)
    tooltip = tips(
        ("entity", "of"), ("x", "load", ".4~g"), ("y", "mean", said.tip), ("low", "least run", said.tip),
        ("high", "largest run", said.tip), ("n", "runs", ""),
    )  # fmt: skip
    y, low = amount("y", said.axis, **said.scale), amount("low", said.axis, **said.scale)
    layers = [
        layer(rows, "line", "curve", x=x, y=y, color=colour),
        layer(rows, "rule", "whisker", x=x, y=low, y2={"field": "high"}, color=colour),
        layer(rows, "point", "mean", x=x, y=y, color=colour, tooltip=tooltip),
    ]
    ends = sorted(rows, key=lambda row: (row["x"], row["y"]))
    return Figure(
        name=said.name,
        title=said.title.format(role=role),
        subtitle="Mean of the runs of a setting, from the least run to the largest",
        alt=f"{said.value} against the load of {role}: at the least load, {_at(ends[0], said)}; "
        f"at the greatest, {_at(ends[-1], said)}.",
        spec=panels.arrange(layers, 260, 180),
        group=GROUP,
        statistic="by load",
        x="load",
    )


def _at(row: Row, said: Against) -> str:
    return f"{row['entity']} {row['y']:{said.text}} at {row['x']:.4g}"
