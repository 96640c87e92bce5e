"""Whether results come out the same again: each run as a box beside the others, and a table of variances.

The variance within a run and that between runs are kept apart (`virtlab.analysis.recurrence`); a distribution that pools
the samples of all runs hides the second.
"""

# ruff: noqa: S608 - the SQL is made of the constants of `samples`; names are parameters

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.analysis.recurrence import BATCHES, Recurrence, RunSummary, recurrence
from virtlab.report import names
from virtlab.report.figures.figure import Figure, Row, title_of
from virtlab.report.figures.panels import Panels, is_split, setting_cells, setting_head
from virtlab.report.gather.model import Factor, Gathered
from virtlab.report.gather.samples import Source, rows_of
from virtlab.report.quantities import display
from virtlab.report.tables.table import Block, cell

if TYPE_CHECKING:
    import duckdb

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class RunBox:
    """One run: its quantiles (5, 25, 50, 75, 95 %) and summary."""

    run: str
    quantiles: tuple[float, ...]
    summary: RunSummary


@dataclass(frozen=True, slots=True)
class Setting:
    """The runs of one design point under one link realisation, and what their variances are; None: not estimable."""

    point: Mapping[str, str]
    realisation: str
    runs: tuple[RunBox, ...]
    components: Recurrence | None


@dataclass(frozen=True, slots=True)
class Recurring:
    """One metric of one role over all settings."""

    role: str
    metric: str
    unit: str
    title: str
    settings: tuple[Setting, ...]


def settings_of(
    db: duckdb.DuckDBPyConnection,
    role: str,
    source: Source,
    points: Mapping[int, Mapping[str, str]],
    level: float,
) -> list[Setting]:
    """Every setting with runs, in the order of the points; the summaries are made inside DuckDB in one pass."""
    listed = ", ".join(str(share) for share in QUANTILES)
    answer = db.execute(
        f"WITH r AS ({rows_of(source)}), "
        "o AS (SELECT *, row_number() OVER (PARTITION BY run ORDER BY t_ns) - 1 AS place, "
        "count(*) OVER (PARTITION BY run) AS n FROM r), "
        f"b AS (SELECT run, var_samp(m) AS spread FROM (SELECT run, place // (n // {BATCHES}) AS batch, avg(value) AS m "
        f"FROM o WHERE n >= 2 * {BATCHES} AND place < {BATCHES} * (n // {BATCHES}) GROUP BY 1, 2) GROUP BY 1) "
        f"SELECT any_value(point), any_value(link_realisation), run, quantile_cont(value, [{listed}]), "
        "count(*), avg(value), coalesce(var_samp(value), 0), any_value(spread) "
        "FROM r LEFT JOIN b USING (run) GROUP BY run ORDER BY 1, 2, 3",
        [role],
    ).fetchall()
    groups: dict[tuple[int, str], list[RunBox]] = {}
    for point, realisation, run, quantiles, count, mean, variance, spread in answer:
        if point in points and quantiles is not None:  # an older file may lack the column
            box = RunBox(
                run, tuple(float(one) for one in quantiles), RunSummary(count, mean, variance, spread)
            )
            groups.setdefault((point, realisation), []).append(box)
    return [
        Setting(points[point], realisation, tuple(boxes), recurrence([one.summary for one in boxes], level))
        for (point, realisation), boxes in groups.items()
    ]


def runs_figure(found: Recurring, factors: Sequence[Factor], *, split: bool) -> Figure:
    """Each run as whiskers (5 to 95 %), a bar (25 to 75 %), its median and its mean; a panel per setting."""
    panels = Panels.of(found.settings, factors, split=split)
    shown = display(found.unit, [box.summary.mean for one in found.settings for box in one.runs])
    rows: list[Row] = []
    for one in found.settings:
        if panels.label(one) in panels.labels:
            for number, box in enumerate(one.runs, 1):
                low, quarter, middle, upper, high = (value / shown.size for value in box.quantiles)
                rows.append({
                    "x": number, "panel": panels.label(one), "run": box.run, "low": low, "quarter": quarter,
                    "middle": middle, "upper": upper, "high": high, "y": box.summary.mean / shown.size,
                })  # fmt: skip
    place: Row = {
        "x": {
            "field": "x",
            "type": "ordinal",
            "title": "run",
            "axis": {"labelAngle": 0, "labelOverlap": True},
        },
        "color": {"datum": "runs", "type": "nominal", "legend": None},
        "tooltip": [
            {"field": "run", "title": "run", "type": "nominal"},
            {"field": "y", "title": "mean", "type": "quantitative", "format": ".5~g"},
            {"field": "middle", "title": "median", "type": "quantitative", "format": ".5~g"},
        ],
    }

    def layer(mark: Row, field: str, to: str = "") -> Row:
        encoding = {**place, "y": {"field": field, "type": "quantitative", "title": shown.unit or "value",
                                   "scale": {"zero": False}}}  # fmt: skip
        ends = {"y2": {"field": to}} if to else {}
        return {"data": {"values": rows}, "mark": mark, "encoding": {**encoding, **ends}}

    layers = [
        layer({"type": "rule", "style": "whisker"}, "low", "high"),
        layer({"type": "bar", "size": 9, "opacity": 0.45}, "quarter", "upper"),
        layer({"type": "tick", "size": 13, "thickness": 2}, "middle"),
        layer({"type": "point", "style": "mean"}, "y"),
    ]
    spec = panels.arrange(layers, height=260, height_of_many=190, independent=("y",))
    return Figure(
        name=names.of_metric("runs", found.role, found.metric),
        title=title_of(found.title or found.metric, found.role, "run by run"),
        subtitle="Each run: 5 to 95 % of its samples as a line, 25 to 75 % as a bar, median as a tick, mean as a mark",
        alt=_alt(found, panels),
        spec=spec,
        group=f"{found.role}.{found.metric}",
        statistic="run by run",
        empty=not rows,
    )


def _alt(found: Recurring, panels: Panels) -> str:
    says = [
        f"{one.components.icc:.0%} of the variance lies between runs" if one.components else "not estimable"
        for one in found.settings
    ]
    return f"Runs of {found.role}.{found.metric} beside each other. {panels.words(found.settings, says)}."


def recurrence_rows(found: Sequence[Recurring]) -> list[dict[str, Any]]:
    """What the tables of components show, for programs: values in the metric's unit; None where not estimable."""
    rows = []
    for one in found:
        for setting in one.settings:
            had, runs = setting.components, setting.runs
            rows.append({
                "role": one.role, "metric": one.metric, "unit": one.unit, "point": dict(setting.point),
                "realisation": setting.realisation, "runs": len(runs),
                "samples": sum(box.summary.samples for box in runs),
                "mean": sum(box.summary.mean for box in runs) / len(runs),
                "within_sd": None if had is None else had.within_sd,
                "between_sd": None if had is None else had.between_sd,
                "share_between": None if had is None else had.icc,
                "low": None if had is None else had.low, "high": None if had is None else had.high,
            })  # fmt: skip
    return rows


def components_table(data: Gathered, found: Recurring) -> Block:
    """Per setting: what varies within a run, what between runs, and the share of the latter with its interval."""
    split = is_split(found.settings)
    shown = display(found.unit, [box.summary.mean for one in found.settings for box in one.runs])
    unit = f" ({shown.unit})" if shown.unit else ""
    numbers = [
        "runs", "samples per run", "worth", f"mean{unit}", f"sd within a run{unit}", f"sd between runs{unit}",
        "share between", "low", "high",
    ]  # fmt: skip
    rows = []
    for one in found.settings:
        cells = setting_cells(one, data.varying, split=split)
        samples = sum(box.summary.samples for box in one.runs) / len(one.runs)
        mean = sum(box.summary.mean for box in one.runs) / len(one.runs)
        texts = [str(len(one.runs)), f"{samples:.0f}"]
        if one.components is None:
            rest = [cell("", "absent"), cell(shown.number(mean, 5), "number")] + [
                cell("not estimable", "absent")
            ] * 5
        else:
            had = one.components
            values = [f"{had.effective_samples:.0f}", shown.number(mean, 5), shown.number(had.within_sd)]
            values += [
                shown.number(had.between_sd),
                *(f"{share:.1%}" for share in (had.icc, had.low, had.high)),
            ]
            rest = [cell(text, "number") for text in values]
        rows.append({"cells": [*cells, *(cell(text, "number") for text in texts), *rest], "out": False})
    level = next((one.components.level for one in found.settings if one.components), 0.95)
    return {
        "id": names.of_metric("recurrence", found.role, found.metric),
        "title": "variance within and between runs",
        "caption": f"{found.role}.{found.metric}: standard deviation within a run and between runs; the share of the "
        f"variance that lies between runs (intra-class correlation) with its {level * 100:g} % interval; 'worth' is how "
        "many independent samples tell as much as those of a run, which follow each other",
        "head": setting_head(data.varying, numbers, split=split),
        "rows": rows,
    }
