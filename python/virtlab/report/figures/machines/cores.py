"""Whether one processor was the busy one: the busy share of each of a host's processors during each test.

Where several roles measure one after another, the analysis values every processor over the window of each role
(`ROLE.host.cpu0`). A bar is the mean over the runs of a setting, its line reaches from the least run to the largest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from virtlab.report import names
from virtlab.report.figures.grammar import theme
from virtlab.report.figures.grammar.figure import Figure, Row, amount, layer, name, tips
from virtlab.report.figures.grammar.panels import Panels
from virtlab.report.gather.gathered import Gathered

_CORE = re.compile(r"(?P<test>.+)\.host\.cpu(?P<core>[0-9]+)\Z")
GROUP = "health"


def cores_figure(data: Gathered) -> Figure | None:
    """Tests along the axis, a bar per processor, a panel per setting; None where no test has such values."""
    found = [
        (match["test"], match["core"], one)
        for result in data.results
        if (result.quantity.metric, result.quantity.statistic) == ("cpu", "mean")
        and (match := _CORE.match(result.quantity.role))
        for one in result.cells
        if one.present
    ]
    if not found:
        return None
    panels = Panels.of([one for _, _, one in found], data.design.factors, split=len(data.realisations) > 1)
    rows: list[Row] = [
        {
            "x": test, "core": core, "y": one.mean, "low": min(one.present), "high": max(one.present),
            "n": len(one.present), "panel": panels.label(one),
        }
        for test, core, one in found
        if panels.label(one) in panels.labels
    ]  # fmt: skip
    cores = sorted({core for _, core, _ in found}, key=int)
    order = _in_order(data, dict.fromkeys(test for test, _, _ in found))
    busy = {"scale": {"domain": [0, 1]}, "axis": {"format": "~%"}}
    place: Row = {
        "x": name("x", None, order, axis={"labelAngle": 0}),
        "xOffset": {"field": "core", "type": "nominal"},
    }
    tooltip = tips(
        ("x", "test"), ("core", "processor"), ("y", "mean", ".3~%"), ("low", "least run", ".3~%"),
        ("high", "largest run", ".3~%"), ("n", "runs", ""),
    )  # fmt: skip
    ink = {"color": theme.INK["light"]["ink"]}
    layers = [
        layer(
            rows, "bar", look={"opacity": 0.8}, **place, y=amount("y", "busy", **busy),
            color=name("core", "processor", cores), tooltip=tooltip,
        ),
        layer(rows, "rule", "whisker", look=ink, **place, y=amount("low", "busy", **busy), y2={"field": "high"}),
    ]  # fmt: skip
    return Figure(
        name=names.CORES_PLOT,
        title="Processors of the host during each test",
        subtitle="Busy share: mean of the runs of a setting, from the least run to the largest",
        alt=_alt(rows),
        spec=panels.arrange(layers, 260, 180),
        group=GROUP,
        statistic="per processor",
    )


def _in_order(data: Gathered, tests: Iterable[str]) -> list[str]:
    """Tests as the timeline plays them, where the Plan is known."""
    played = (
        []
        if data.world.plan is None
        else [action.get("role") for action in data.world.plan.get("timeline", ())]
    )
    return sorted(tests, key=lambda test: played.index(test) if test in played else len(played))


def _alt(rows: Sequence[Row]) -> str:
    busiest = []
    for row in sorted(rows, key=lambda row: -float(row["y"]))[:4]:
        where = f" at {row['panel']}" if row["panel"] else ""
        busiest.append(f"processor {row['core']} during {row['x']}{where} {row['y']:.0%}")
    return f"Busy share of each processor of the host during each test; the busiest: {', '.join(busiest)}."
