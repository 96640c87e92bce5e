"""How busy processors were over time, and against the load: as shares of the host's, and of what each guest may use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure, Row, amount, layer, name, tips
from virtlab.report.figures.grammar.panels import arrange
from virtlab.report.figures.machines.against_load import Against, against_load
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.processing import HOST, SHARES, Course, busiest
from virtlab.report.words import point_words

GROUP = "health"


def processing_figures(data: Gathered) -> Iterator[Figure]:
    """Both shares over time in exemplar runs, and against the load where it took several values."""
    for share, (metric, words) in SHARES.items():
        courses = [one for one in data.samples.processing if one.share == share]
        if courses:
            yield _over_time(share, words, courses)
        if (figure := _by_load(data, share, metric, words)) is not None:
            yield figure


def _over_time(share: str, words: str, courses: Sequence[Course]) -> Figure:
    chosen = busiest((one.entity, sum(one.y) / len(one.y)) for one in courses)
    labels = list(dict.fromkeys(point_words(one.point, one.run) for one in courses))
    rows: list[Row] = [
        {"x": x, "y": y, "entity": one.entity, "panel": point_words(one.point, one.run), "run": one.run}
        for one in courses
        if one.entity in chosen
        for x, y in zip(one.x, one.y, strict=True)
    ]
    tooltip = tips(("entity", "of"), ("x", "s", ".4~g"), ("y", "busy", ".3~%"), ("run", "run"))
    x = amount("x", "seconds since the measurement began", scale={"nice": False})
    line = layer(rows, "line", "curve", x=x, y=_busy(), color=name("entity", "", chosen), tooltip=tooltip)
    return Figure(
        name=names.processing(share, "over time"),
        title=f"Processors over time: share {words}",
        subtitle=f"Settings of least, middle and most use, one run each{_left(courses, chosen)}",
        alt=f"Busy share {words} over time, {', '.join(chosen)}, in {len(labels)} exemplar runs: {'; '.join(labels)}.",
        spec=arrange([line], labels if len(labels) > 1 else (), height=170),
        group=GROUP,
        statistic="over time",
    )


def _by_load(data: Gathered, share: str, metric: str, words: str) -> Figure | None:
    """Mean shares over the first load of which there are several values, of a role."""
    found = [
        (result.quantity.role, result.cells)
        for result in data.results
        if result.quantity.statistic == "mean"
        and (
            (result.quantity.metric == metric and result.quantity.role.startswith(("guests.", "pools.")))
            or (share == "host" and (result.quantity.role, result.quantity.metric) == (HOST, "cpu"))
        )
    ]
    if not any(entity != HOST for entity, _ in found):
        return None
    said = Against(
        name=names.processing(share, "by load"),
        title="Processors by load of {role}: share " + words,
        value=f"Busy share {words}",
        axis="busy",
        scale=_PERCENT,
        tip=".3~%",
        text=".1%",
    )
    return against_load(data, said, found)


_PERCENT: Row = {"scale": {"zero": True}, "axis": {"format": "~%"}}


def _busy() -> Row:
    return amount("y", "busy", **_PERCENT)


def _left(courses: Sequence[Course], chosen: Sequence[str]) -> str:
    more = len({one.entity for one in courses}) - len(chosen)
    return f"; the {len(chosen)} that used most, {more} more are left out" if more else ""
