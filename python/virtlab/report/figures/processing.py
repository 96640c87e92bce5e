"""How busy processors were over time, and against the load: as shares of the host's, and of what each guest may use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.report import names
from virtlab.report.figures.figure import Figure, Row, amount, layer, name, tips
from virtlab.report.figures.panels import Panels, arrange, main_factor
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, Result
from virtlab.report.gather.processing import HOST, SHARES, Course, busiest
from virtlab.report.words import point_words
from virtlab.units import numeric_levels

GROUP = "health"
LOADS = (("request_rate", "requests due per second"), ("offered_load", "offered load, bit/s"))


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
    for load_metric, title in LOADS:
        for load in data.results:
            quantity = load.quantity
            if (quantity.metric, quantity.statistic) != (load_metric, "mean"):
                continue
            if len({cell.mean for cell in load.cells if cell.present}) > 1:
                return _of_load(data, share, words, load, title, found)
    return None


def _of_load(
    data: Gathered,
    share: str,
    words: str,
    load: Result,
    title: str,
    found: Sequence[tuple[str, Sequence[Cell]]],
) -> Figure:
    role = load.quantity.role
    loads = {cell.setting: cell.mean for cell in load.cells if cell.present}
    cells = [
        (entity, one) for entity, all_of in found for one in all_of if one.present and one.setting in loads
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
        ("entity", "of"), ("x", "load", ".4~g"), ("y", "mean", ".3~%"), ("low", "least run", ".3~%"),
        ("high", "largest run", ".3~%"), ("n", "runs", ""),
    )  # fmt: skip
    low = amount("low", "busy", **_PERCENT)
    layers = [
        layer(rows, "line", "curve", x=x, y=_busy(), color=colour),
        layer(rows, "rule", "whisker", x=x, y=low, y2={"field": "high"}, color=colour),
        layer(rows, "point", "mean", x=x, y=_busy(), color=colour, tooltip=tooltip),
    ]
    ends = sorted(rows, key=lambda row: (row["x"], row["y"]))
    return Figure(
        name=names.processing(share, "by load"),
        title=f"Processors by load of {role}: share {words}",
        subtitle="Mean of the runs of a setting, from the least run to the largest",
        alt=f"Busy share {words} against the load of {role}: at the least load, {_at(ends[0])}; "
        f"at the greatest, {_at(ends[-1])}.",
        spec=panels.arrange(layers, 260, 180),
        group=GROUP,
        statistic="by load",
        x="load",
    )


_PERCENT: Row = {"scale": {"zero": True}, "axis": {"format": "~%"}}


def _busy() -> Row:
    return amount("y", "busy", **_PERCENT)


def _at(row: Row) -> str:
    return f"{row['entity']} {row['y']:.1%} at {row['x']:.4g}"


def _left(courses: Sequence[Course], chosen: Sequence[str]) -> str:
    more = len({one.entity for one in courses}) - len(chosen)
    return f"; the {len(chosen)} that used most, {more} more are left out" if more else ""
