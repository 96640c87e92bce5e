"""The studies' plots as Vega-Lite: the specification itself beside SVG and PNG, or a page where those cannot be
drawn.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from virtlab import drawing
from virtlab.folders import Folder
from virtlab.realtime.studies import Row

Spec = dict[str, Any]
PLOTS = {  # part of the study -> the plots that it writes
    "three-task": ("three-task-ratios", "three-task-intervals", "worst-supply", "time-to-supply"),
    "scenarios": ("scenarios-mean", "scenarios-spread", "scenarios-spread-of-period", "period-bound"),
    "overhead": ("overhead-curves", "overhead-fraction", "three-lines"),
}
_UTILISATION = {"field": "utilisation", "title": "utilisation"}
_OVERHEAD = {"field": "overhead", "type": "ordinal", "title": "overhead X"}
_LIMIT = {
    "mark": {"type": "rule", "strokeDash": [4, 3]},
    "encoding": {"y": {"datum": 1}},
}  # above it a deadline breaks


def _spec(title: str, rows: list[Row], **body: Any) -> Spec:
    return {
        "$schema": drawing.SCHEMA,
        "title": title,
        "data": {"values": rows},
        "width": 220,
        "height": 160,
        **body,
    }


def _axis(field: str, title: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def scenario_mean(cells: list[Row]) -> Spec:
    """Mean of P/T_1 over the share, one panel per (n, u), with the bound 1/(2(1 - share)). Linear axis from 0."""
    return _spec(
        "Largest exact VM period over the shortest task period",
        [cell for cell in cells if cell["mean_ratio"] is not None],
        facet={"row": _UTILISATION, "column": {"field": "tasks", "title": "tasks"}},
        spec={
            "width": 220,
            "height": 150,
            "layer": [
                {"mark": {"type": "line", "strokeDash": [4, 3], "color": "#777"},
                 "encoding": {"x": _axis("share", "share B/P"), "y": _axis("bound", "P/T1")}},
                {"mark": {"type": "line", "point": True},
                 "encoding": {"x": _axis("share", "share B/P"), "y": _axis("mean_ratio", "P/T1 (mean; dashed: bound)")}},
            ],
        },
    )  # fmt: skip


def scenario_spread(cells: list[Row]) -> Spec:
    """Standard deviation of P/T_1 over its mean, by share and number of tasks."""
    return _spread(cells, "Spread of the largest period", "spread", "standard deviation / mean")


def period_spread(cells: list[Row]) -> Spec:
    """Standard deviation of the largest period itself over its mean: the shortest task period of each set is in it."""
    title = "Spread of the largest VM period itself"
    return _spread(cells, title, "period_spread", "standard deviation / mean of P")


def _spread(cells: list[Row], title: str, field: str, words: str) -> Spec:
    return _spec(
        title,
        [cell for cell in cells if cell[field] is not None],
        mark={"type": "line", "point": True},
        encoding={
            "x": _axis("share", "share B/P"),
            "y": _axis(field, words),
            "color": {"field": "tasks", "type": "ordinal", "title": "tasks"},
            "column": _UTILISATION,
        },
    )


def bound_over_share(cells: list[Row], published: list[tuple[float, float]]) -> Spec:
    """The bound 1/(2(1 - share)) of P/T_1, the numbers that the source prints of it as diamonds."""
    shares = sorted({(cell["share"], cell["bound"]) for cell in cells})
    return _spec(
        "Upper bound of the VM period over the shortest task period",
        [{"share": share, "bound": bound} for share, bound in shares],
        layer=[
            {"mark": {"type": "line", "point": True},
             "encoding": {"x": _axis("share", "share B/P"), "y": _axis("bound", "P/T1 at most")}},
            {"data": {"values": [{"share": share, "printed": value} for share, value in published]},
             "mark": {"type": "point", "shape": "diamond", "size": 120, "color": "black"},
             "encoding": {"x": _axis("share", "share B/P"), "y": _axis("printed", "P/T1 at most")}},
        ],
        width=420,
        height=260,
    )  # fmt: skip


def overhead_curves(curves: list[Row]) -> Spec:
    """Mean of max R/T over the VM period, sets beyond the cap counted at the cap; the limit at 1."""
    title = "Greatest response time over period, mean over task sets (capped)"
    return _overhead(
        curves, title, [_over_periods("line", y=_axis("mean_ratio_at_least", "max R/T (mean)")), _LIMIT]
    )


def overhead_fraction(curves: list[Row]) -> Spec:
    """Fraction of task sets schedulable over the VM period, with its 95 % interval: what the mean curves hide."""
    area = _over_periods(
        {"type": "area", "opacity": 0.2},
        y=_axis("schedulable_low", "fraction schedulable"),
        y2={"field": "schedulable_high"},
    )
    line = _over_periods("line", y=_axis("schedulable", "fraction schedulable"))
    return _overhead(curves, "Fraction of task sets schedulable (95 % interval)", [area, line])


def _over_periods(mark: str | Spec, **y: Spec) -> Spec:
    x = _axis("vm_period", "VM period P (time units)")
    return {"mark": mark, "encoding": {"x": x, **y, "color": _OVERHEAD}}


def _overhead(curves: list[Row], title: str, layer: list[Spec]) -> Spec:
    return _spec(
        title,
        curves,
        facet={"row": _UTILISATION, "column": {"field": "share", "title": "share B/P"}},
        spec={"width": 190, "height": 140, "layer": layer},
        resolve={"scale": {"x": "independent"}},
    )


def three_lines_around(rows: list[Row]) -> Spec:
    """One task set's greatest R/T over the VM period between its left bound, its lower bound and the limit 1."""
    x = _axis("vm_period", "VM period P (time units)")
    scale = {"scale": {"domain": [0, 3]}}
    return _spec(
        "Three lines around the usable VM periods of one task set",
        rows,
        facet={"column": {"field": "setting", "title": None}},
        spec={
            "width": 320,
            "height": 240,
            "layer": [
                {"mark": {"type": "line", "clip": True}, "encoding": {"x": x, "y": _axis("ratio", "max R/T", **scale)}},
                {"mark": {"type": "line", "clip": True, "strokeDash": [6, 3], "color": "#b2182b"},
                 "encoding": {"x": x, "y": _axis("lower_bound", "max R/T", **scale)}},
                {"mark": {"type": "rule", "color": "#777", "strokeDash": [2, 2]},
                 "encoding": {"x": {"aggregate": "min", **_axis("left_bound", "VM period P (time units)")}}},
                _LIMIT,
            ],
        },
        resolve={"scale": {"x": "independent"}},
    )  # fmt: skip


def worst_supply(rows: list[Row]) -> Spec:
    """Execution that a VM has received after a time, in the worst case: nothing until 2(P - B) and the overhead are
    over.
    """
    return _supply(rows, "Least execution of a VM over time, budget 3 in a period of 6", "time", "demand")


def time_to_supply(rows: list[Row]) -> Spec:
    """The inverse: the longest wait for that much execution, pieces of slope 1 and jumps of P - B and the overhead."""
    return _supply(rows, "Longest wait for an execution, budget 3 in a period of 6", "demand", "time")


def _supply(rows: list[Row], title: str, x: str, y: str) -> Spec:
    words = {"time": "time t", "demand": "execution received"}
    return _spec(
        title,
        rows,
        mark="line",
        encoding={
            "x": _axis(x, words[x]),
            "y": _axis(y, words[y]),
            "order": {"field": "demand", "type": "quantitative"},
            "color": _OVERHEAD,
        },
        width=420,
        height=260,
    )


def three_task_ratios(rows: list[Row]) -> Spec:
    """R/T of each task over the VM period: the task set is schedulable where all stay at or below 1."""
    return _spec(
        "Response time over period of the three tasks",
        rows,
        layer=[
            {"mark": "line", "encoding": {"x": _axis("vm_period", "VM period P (time units)"),
                                          "y": _axis("ratio", "R/T"),
                                          "color": {"field": "task", "type": "nominal", "title": "task"}}},
            _LIMIT,
        ],
        width=420,
        height=260,
    )  # fmt: skip


def three_task_intervals(intervals: list[tuple[Fraction, Fraction]], name: str) -> Spec:
    """The exact set of periods: bars for intervals, dots for isolated points."""
    rows = [
        {"low": float(low), "high": float(high), "share": name, "point": low == high}
        for low, high in intervals
    ]
    return _spec(
        "All VM periods at which every deadline holds",
        rows,
        layer=[
            {"mark": {"type": "bar", "height": 14}, "transform": [{"filter": "!datum.point"}],
             "encoding": {"x": _axis("low", "VM period P (time units)"), "x2": {"field": "high"},
                          "y": {"field": "share", "type": "nominal"}}},
            {"mark": {"type": "point", "filled": True, "size": 90}, "transform": [{"filter": "datum.point"}],
             "encoding": {"x": _axis("low", "VM period P (time units)"), "y": {"field": "share", "type": "nominal"}}},
        ],
        width=420,
        height=60,
    )  # fmt: skip


def write_plots(folder: Path, plots: dict[str, Spec]) -> list[Path]:
    """NAME.vl.json for each, with NAME.svg and NAME.png, or NAME.html where those cannot be drawn; the paths
    written.
    """
    written = []
    drawable = drawing.can_draw()
    with Folder.open(folder, make=True) as place:
        for name, spec in plots.items():
            files = {".vl.json": json.dumps(spec).encode()}
            if drawable:
                picture = drawing.svg(spec)
                files |= {".svg": picture.encode(), ".png": drawing.png(picture, scale=1.5)}
            else:
                files |= {".html": drawing.page(spec["title"], spec).encode()}
            for suffix, content in files.items():
                place.write(f"{name}{suffix}", content)
                written.append(folder / f"{name}{suffix}")
    return written
