"""Whether one processor was the busy one: the busy share of each of a host's processors during each test.

Where several roles measure one after another, the analysis values every processor over the window of each role
(`ROLE.host.cpu0`). A bar is the mean over the runs of a setting, its line reaches from the least run to the largest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from virtlab.report import names
from virtlab.report.figures import theme
from virtlab.report.figures.figure import (
    MAXIMUM_PANELS,
    REALISATION,
    Figure,
    Row,
    arrange,
    panel_label,
    panel_labels,
)
from virtlab.report.gather.model import Gathered

_CORE = re.compile(r"(?P<test>.+)\.host\.cpu(?P<core>[0-9]+)\Z")
GROUP = "health"


def cores_figure(data: Gathered) -> Figure | None:
    """Tests along the axis, a bar per processor, a panel per setting; None where no test has such values."""
    panels = [*data.varying] + ([REALISATION] if len(data.realisations) > 1 else [])
    rows: list[Row] = []
    tests: dict[str, None] = {}
    cores: set[int] = set()
    for result in data.results:
        match = _CORE.match(result.quantity.role)
        if match is None or (result.quantity.metric, result.quantity.statistic) != ("cpu", "mean"):
            continue
        for one in result.cells:
            if one.present:
                tests[match["test"]] = None
                cores.add(int(match["core"]))
                rows.append({
                    "x": match["test"], "core": match["core"], "y": sum(one.present) / len(one.present),
                    "low": min(one.present), "high": max(one.present), "n": len(one.present),
                    "panel": panel_label({**one.point, REALISATION: one.realisation}, panels),
                })  # fmt: skip
    if not rows:
        return None
    labels = panel_labels(data.factors, panels, (row["panel"] for row in rows))
    kept = labels[:MAXIMUM_PANELS]
    rows = [row for row in rows if row["panel"] in kept]
    order = _in_order(data, tests)
    place: Row = {
        "x": {
            "field": "x",
            "type": "nominal",
            "sort": order,
            "title": None,
            "axis": {"labelAngle": 0},
        },
        "xOffset": {"field": "core", "type": "nominal"},
        "color": {"field": "core", "type": "nominal", "title": "processor", "sort": [str(one) for one in sorted(cores)]},
        "tooltip": [
            {"field": "x", "title": "test", "type": "nominal"},
            {"field": "core", "title": "processor", "type": "nominal"},
            {"field": "y", "title": "mean", "type": "quantitative", "format": ".3~%"},
            {"field": "low", "title": "least run", "type": "quantitative", "format": ".3~%"},
            {"field": "high", "title": "largest run", "type": "quantitative", "format": ".3~%"},
            {"field": "n", "title": "runs", "type": "quantitative"},
        ],
    }  # fmt: skip
    scale: Row = {
        "type": "quantitative",
        "title": "busy",
        "scale": {"domain": [0, 1]},
        "axis": {"format": "~%"},
    }
    layers: list[Row] = [
        {
            "data": {"values": rows},
            "mark": {"type": "bar", "opacity": 0.8},
            "encoding": {**place, "y": {"field": "y", **scale}},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "style": "whisker", "color": theme.INK["light"]["ink"]},
            "encoding": {
                "x": place["x"],
                "xOffset": place["xOffset"],
                "y": {"field": "low", **scale},
                "y2": {"field": "high"},
            },
        },
    ]  # fmt: skip
    return Figure(
        name=names.CORES_PLOT,
        title="Processors of the host during each test",
        subtitle="Busy share: mean of the runs of a setting, from the least run to the largest",
        alt=_alt(rows, panels),
        spec=arrange(layers, kept if len(kept) > 1 else (), height=260 if len(kept) <= 1 else 180),
        group=GROUP,
        statistic="per processor",
    )


def _in_order(data: Gathered, tests: dict[str, None]) -> list[str]:
    """Tests as the timeline plays them, where the Plan is known."""
    if data.plan is None:
        return list(tests)
    played = [action.get("role") for action in data.plan.get("timeline", ())]
    return sorted(tests, key=lambda test: played.index(test) if test in played else len(played))


def _alt(rows: Sequence[Row], panels: Sequence[str]) -> str:
    says = []
    for row in sorted(rows, key=lambda row: -float(row["y"]))[:4]:
        where = f" at {row['panel']}" if panels else ""
        says.append(f"processor {row['core']} during {row['x']}{where} {row['y']:.0%}")
    return f"Busy share of each processor of the host during each test; the busiest: {', '.join(says)}."
