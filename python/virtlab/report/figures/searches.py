"""The trials of a search: which load was tried when, what came of it, and how the bounds closed in.

Lines are the bounds known after each trial; the dashed rule is what was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure, Row, amount, far_apart, layer, name, tips
from virtlab.report.figures.grammar.panels import Panels, described
from virtlab.report.gather.model import Factor
from virtlab.report.gather.searches import KINDS, Searched, goals_beside
from virtlab.report.words import point_words
from virtlab.units import Display, display, show_count

WIDE = 50.0  # loads further apart than this stand on a logarithmic axis
BOUNDS = {"lower bound": "low", "upper bound": "high"}


def search_figure(
    role: str, searches: Sequence[Searched], factors: Sequence[Factor], *, split: bool
) -> Figure:
    """Load against the order of trials; a panel per design point."""
    mine = [one for one in searches if one.role == role]
    panels = Panels.of(mine, factors, split=split)
    drawn = list(panels.drawn(mine))
    loads = [float(trial["value"]) for _, one in drawn for trial in one.own]
    unit = display(mine[0].unit, loads) if mine else Display(1.0, "")
    points: list[Row] = []
    bounds: list[Row] = []
    found: list[Row] = []
    for panel, one in drawn:
        for number, trial in enumerate(one.own):
            place = {"panel": panel, "x": number}
            points.append(place | {
                "y": trial["value"] / unit.size, "what": one.kind(trial), "loss": trial["loss_ratio"],
                "seconds": trial["trial_s"], "says": _came_of(trial),
            })  # fmt: skip
            bounds += [
                place | {"y": trial[key] / unit.size, "what": bound}
                for bound, key in BOUNDS.items()
                if trial[key] is not None
            ]
        found += [
            {"panel": panel, "y": goal["value"] / unit.size, "what": f"found ({goal['goal']})"}
            for goal in one.goals
            if goal["value"] is not None
        ]
    return Figure(
        name=names.of_search("search", role),
        title=f"Search of {mine[0].variable if mine else role}, trial by trial{goals_beside(mine)}",
        subtitle="The first run of each setting. Marks: trials in their order, and what came of them. "
        f"Lines: bounds known after each. Dashed: what was found{panels.more}",
        alt=_alt(role, [one for _, one in drawn], unit),
        spec=panels.arrange(
            _layers(points, bounds, found, unit, wide=far_apart(loads, WIDE)), 300, 200, independent=("y",)
        ),
        group=names.search_section(role),
        statistic="trial by trial",
        empty=not points,
    )


def _layers(points: list[Row], bounds: list[Row], rows: list[Row], unit: Display, *, wide: bool) -> list[Row]:
    kinds = [*KINDS, *BOUNDS, *dict.fromkeys(row["what"] for row in rows)]
    present = [kind for kind in kinds if any(row["what"] == kind for row in (*points, *bounds, *rows))]
    scale: Row = {"type": "log", "nice": False} if wide else {"zero": False}
    y = amount("y", f"{unit.unit}, logarithmic" if wide else unit.unit, scale=scale)
    x = amount("x", "trial", scale={"nice": False, "padding": 8}, axis={"tickMinStep": 1, "format": "d"})
    colour = name("what", None, present, scale={"domain": present})
    tooltip = tips(
        ("x", "trial", ""), ("y", unit.unit or "value", ".5~g"), ("seconds", "length (s)", ".4~g"),
        ("loss", "loss", ".4~%"), ("what", "came of it"), ("says", "frames"),
    )  # fmt: skip
    return [
        layer(bounds, "line", "curve", look={"interpolate": "step-after"}, x=x, y=y, color=colour),
        layer(points, "point", "mean", x=x, y=y, color=colour, shape=colour, tooltip=tooltip),
        layer(rows, "rule", look={"strokeDash": [5, 4], "strokeWidth": 1.5}, y=y, color=colour),
    ]


def _came_of(trial: Mapping[str, Any]) -> str:
    if trial["measured"] is not None:
        return f"measured {trial['measured']:.6g}"
    if trial["sent"] is None:
        return ""
    return ", ".join(f"{show_count(trial[what] or 0)} {what}" for what in ("sent", "received", "unsent"))


def _alt(role: str, searches: Sequence[Searched], unit: Display) -> str:
    results = []
    for one in searches:
        where = point_words(one.point)
        value = one.goals[0]["value"] if one.goals else None
        what = "nothing was found good" if value is None else f"{unit.text(value)} found"
        results.append((where, f"{what} in {len(one.own)} trials"))
    return f"Trials of the search of {role}{goals_beside(searches)} in their order. {described(results)}."
