"""Classes of queues as figures: how long frames of each class waited, and which share of them was dropped.

Beside the table (`queues`), which has every direction, these show the directions in which a class waited longest: a row per
setting, a mark per class, medians over the runs of a setting. The mark is the mean wait, its line ends at the p99 wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from virtlab.report import names
from virtlab.report.figures.figure import Figure, Row, arrange
from virtlab.report.gather.model import ClassSeen, Gathered
from virtlab.report.quantities import display

GROUP = "queues"
MOST_DIRECTIONS = 2
MOST_SETTINGS = 24
ROW_HEIGHT = 13


def class_figures(data: Gathered) -> list[Figure]:
    """Waits and drops by class; nothing where no queue has several classes in use."""
    shown = _chosen(data.classes)
    if not shown:
        return []
    found = [_waits(shown)]
    if any(one.dropped_ratio for one in shown):
        found.append(_drops(shown))
    return found


def _chosen(classes: Sequence[ClassSeen]) -> list[ClassSeen]:
    """The directions that have several classes, those with the longest waits and most drops."""
    named = [one for one in classes if one.name and one.wait_mean_ns is not None]
    in_use = {
        direction: {one.name for one in named if one.direction == direction}
        for direction in _directions(named)
    }
    several = [direction for direction, names_here in in_use.items() if len(names_here) > 1]

    def worst(direction: str) -> tuple[float, float]:
        here = [one for one in named if one.direction == direction]
        return max(one.dropped_ratio for one in here), max(one.wait_mean_ns or 0.0 for one in here)

    kept = sorted(several, key=worst, reverse=True)[:MOST_DIRECTIONS]
    settings = list(dict.fromkeys(one.setting for one in named))[:MOST_SETTINGS]
    return [one for one in named if one.direction in kept and one.setting in settings]


def _directions(classes: Iterable[ClassSeen]) -> list[str]:
    return list(dict.fromkeys(one.direction for one in classes))


def _waits(shown: Sequence[ClassSeen]) -> Figure:
    unit = display("ns", [one.wait_p99_ns or one.wait_mean_ns or 0.0 for one in shown])
    rows = _rows(shown, lambda one: (one.wait_mean_ns or 0.0) / unit.size)
    for row, one in zip(rows, shown, strict=True):
        row["high"] = (
            one.wait_p99_ns if one.wait_p99_ns is not None else one.wait_mean_ns or 0.0
        ) / unit.size
    longest = max(shown, key=lambda one: one.wait_mean_ns or 0.0)
    return Figure(
        name=names.CLASS_WAITS_PLOT,
        title="Waits in queues, by class",
        subtitle="Mean wait of the frames that left, to the p99 wait; medians over runs",
        alt=f"Mean waits by class; the longest is {unit.text(longest.wait_mean_ns or 0.0)} of class {longest.name} at "
        f"{longest.setting or 'the one setting'}, {longest.direction}.",
        spec=_spec(rows, shown, f"wait ({unit.unit})", whiskers=True),
        group=GROUP,
        statistic="waits",
    )


def _drops(shown: Sequence[ClassSeen]) -> Figure:
    most = max(shown, key=lambda one: one.dropped_ratio)
    return Figure(
        name=names.CLASS_DROPS_PLOT,
        title="Frames dropped in queues, by class",
        subtitle="Share of the frames that came; medians over runs",
        alt=f"Shares of frames dropped by class; the largest is {most.dropped_ratio:.1%} of class {most.name} at "
        f"{most.setting or 'the one setting'}, {most.direction}.",
        spec=_spec(_rows(shown, lambda one: one.dropped_ratio * 100), shown, "dropped (%)", whiskers=False),
        group=GROUP,
        statistic="drops",
    )


def _rows(shown: Sequence[ClassSeen], value: Callable[[ClassSeen], float]) -> list[Row]:
    return [
        {
            "setting": one.setting or "all", "class": one.name, "x": value(one), "n": one.runs, "panel": one.direction,
        }
        for one in shown
    ]  # fmt: skip


def _spec(rows: list[Row], shown: Sequence[ClassSeen], title: str, *, whiskers: bool) -> Row:
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    classes = sorted({row["class"] for row in rows})
    place: Row = {
        "y": {
            "field": "setting", "type": "nominal", "sort": settings, "title": None, "axis": {"labelLimit": 260},
        },
        "yOffset": {"field": "class", "type": "nominal", "sort": classes},
        "color": {"field": "class", "type": "nominal", "title": "class", "sort": classes},
        "tooltip": [
            {"field": "setting", "title": "setting", "type": "nominal"},
            {"field": "class", "title": "class", "type": "nominal"},
            {"field": "x", "title": title, "type": "quantitative", "format": ".4~g"},
            *([{"field": "high", "title": "p99", "type": "quantitative", "format": ".4~g"}] if whiskers else []),
            {"field": "n", "title": "runs", "type": "quantitative"},
        ],
    }  # fmt: skip
    along: Row = {"type": "quantitative", "title": title, "scale": {"zero": True}}
    layers: list[Row] = [
        {
            "data": {"values": rows},
            "mark": {"type": "bar", "opacity": 0.85},
            "encoding": {**place, "x": {"field": "x", **along}},
        }
    ]
    if whiskers:
        layers.append({
            "data": {"values": rows},
            "mark": {"type": "rule"},
            "encoding": {
                **{key: place[key] for key in ("y", "yOffset", "color")}, "x": {"field": "x", **along},
                "x2": {"field": "high"},
            },
        })  # fmt: skip
    panels = _directions(shown)
    return arrange(layers, panels, height=max(120, ROW_HEIGHT * len(settings) * len(classes)))
