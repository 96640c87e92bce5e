"""How the memory of guests that move is copied: what is left, over time."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure, Row, amount, layer, name, tips
from virtlab.report.figures.grammar.panels import arrange
from virtlab.report.gather.gathered import Gathered
from virtlab.report.words import point_words

GROUP = "moves"


def migration_figures(data: Gathered) -> Iterator[Figure]:
    """What was left of each guest over time, of exemplar runs."""
    courses = data.samples.moves
    if not courses:
        return
    guests = sorted({one.entity for one in courses})
    labels = list(dict.fromkeys(point_words(one.point, one.run) for one in courses))
    rows: list[Row] = [
        {"x": x, "y": y, "entity": one.entity, "panel": point_words(one.point, one.run), "run": one.run}
        for one in courses
        for x, y in zip(one.x, one.y, strict=True)
    ]
    tooltip = tips(("entity", "of"), ("x", "s", ".4~g"), ("y", "left, B", ".4~s"), ("run", "run"))
    x = amount("x", "seconds since the first move began", scale={"nice": False})
    y = amount("y", "bytes left", axis={"format": "~s"})
    color = name("entity", "", guests)
    line = layer(rows, "line", "curve", look={"strokeJoin": "round"}, x=x, y=y, color=color, tooltip=tooltip)
    yield Figure(
        name=names.MOVES_PLOT,
        title="Memory left to be copied of guests that move, over time",
        subtitle="Settings of the shortest, a middle and the longest move, one run each",
        alt=f"Bytes left over time of {', '.join(guests)}, in {len(labels)} exemplar runs: {'; '.join(labels)}.",
        spec=arrange([line], labels if len(labels) > 1 else (), height=170),
        group=GROUP,
        statistic="over time",
    )
