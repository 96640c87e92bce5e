"""Classes of queues: how long frames of each class waited, and which share of them was dropped.

The table of queues has every direction; these show the directions in which a class waited longest: a row per setting, a
mark per class, medians over the runs of a setting. The mark is the mean wait, its line ends at the p99 wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure, Row, amount, layer, name, tips
from virtlab.report.figures.grammar.panels import arrange
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import ClassSeen
from virtlab.units import display

GROUP = "queues"
MOST_DIRECTIONS = 2
MOST_SETTINGS = 24
ROW_HEIGHT = 13


def class_figures(data: Gathered) -> list[Figure]:
    """Waits and drops by class; nothing where no queue has several classes in use."""
    shown = _chosen(data.world.classes)
    if not shown:
        return []
    return [_waits(shown), *([_drops(shown)] if any(one.dropped_ratio for one in shown) else [])]


def _chosen(classes: Sequence[ClassSeen]) -> list[ClassSeen]:
    """The directions that have several classes, those with the longest waits and most drops."""
    named = [one for one in classes if one.name and one.wait_mean_ns is not None]
    directions: dict[str, list[ClassSeen]] = {}
    for one in named:
        directions.setdefault(one.direction, []).append(one)

    def worst(direction: str) -> tuple[float, float]:
        here = directions[direction]
        return max(one.dropped_ratio for one in here), max(one.wait_mean_ns or 0.0 for one in here)

    several = [direction for direction, here in directions.items() if len({one.name for one in here}) > 1]
    kept = sorted(several, key=worst, reverse=True)[:MOST_DIRECTIONS]
    settings = list(dict.fromkeys(one.setting for one in named))[:MOST_SETTINGS]
    return [one for one in named if one.direction in kept and one.setting in settings]


def _waits(shown: Sequence[ClassSeen]) -> Figure:
    means = [one.wait_mean_ns or 0.0 for one in shown]
    tails = [
        mean if one.wait_p99_ns is None else one.wait_p99_ns for one, mean in zip(shown, means, strict=True)
    ]
    unit = display("ns", tails)
    rows = _rows(shown, lambda each: (each.wait_mean_ns or 0.0) / unit.size)
    for row, tail in zip(rows, tails, strict=True):
        row["high"] = tail / unit.size
    longest = max(shown, key=lambda each: each.wait_mean_ns or 0.0)
    return Figure(
        name=names.CLASS_WAITS_PLOT,
        title="Waits in queues, by class",
        subtitle="Mean wait of the frames that left, to the p99 wait; medians over runs",
        alt=f"Mean waits by class; the longest is {unit.text(max(means))} {_where(longest)}.",
        spec=_spec(rows, f"wait ({unit.unit})", whiskers=True),
        group=GROUP,
        statistic="waits",
    )


def _drops(shown: Sequence[ClassSeen]) -> Figure:
    most = max(shown, key=lambda each: each.dropped_ratio)
    return Figure(
        name=names.CLASS_DROPS_PLOT,
        title="Frames dropped in queues, by class",
        subtitle="Share of the frames that came; medians over runs",
        alt=f"Shares of frames dropped by class; the largest is {most.dropped_ratio:.1%} {_where(most)}.",
        spec=_spec(_rows(shown, lambda each: each.dropped_ratio * 100), "dropped (%)", whiskers=False),
        group=GROUP,
        statistic="drops",
    )


def _where(wait: ClassSeen) -> str:
    return f"of class {wait.name} at {wait.setting or 'the one setting'}, {wait.direction}"


def _rows(shown: Sequence[ClassSeen], value: Callable[[ClassSeen], float]) -> list[Row]:
    return [
        {
            "setting": one.setting or "all",
            "class": one.name,
            "x": value(one),
            "n": one.runs,
            "panel": one.direction,
        }
        for one in shown
    ]


def _spec(rows: list[Row], title: str, *, whiskers: bool) -> Row:
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    classes = sorted({row["class"] for row in rows})
    place: Row = {
        "x": amount("x", title, scale={"zero": True}),
        "y": name("setting", None, settings, axis={"labelLimit": 260}),
        "yOffset": {"field": "class", "type": "nominal", "sort": classes},
        "color": name("class", "class", classes),
    }
    high = [("high", "p99", ".4~g")] if whiskers else []
    tooltip = tips(("setting", "setting"), ("class", "class"), ("x", title, ".4~g"), *high, ("n", "runs", ""))
    layers = [layer(rows, "bar", look={"opacity": 0.85}, **place, tooltip=tooltip)]
    if whiskers:
        layers.append(layer(rows, "rule", **place, x2={"field": "high"}))
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    return arrange(layers, panels, height=max(120, ROW_HEIGHT * len(settings) * len(classes)))
