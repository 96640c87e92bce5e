"""The page of `virtlab trend`: every series over time, and the steps found.

It is static, without any script, where its pictures can be drawn; else the report's script draws them in the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virtlab import __version__, drawing
from virtlab.changes import Series, Step
from virtlab.changes.differences import words
from virtlab.changes.steps import LEAST
from virtlab.report.figures.grammar import vega
from virtlab.report.figures.trend import trend_figure
from virtlab.report.page.document import TEMPLATES, environment, style
from virtlab.report.tables.table import Block, Column, number, table
from virtlab.report.words import plural
from virtlab.units import Display, display, interval

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def trend_html(title: str, series: Sequence[Series], level: float) -> str:
    """The whole page."""
    from markupsafe import Markup

    static = drawing.can_draw()
    blocks, specs = [], {}
    for one in series:
        figure = trend_figure(one)
        specs[figure.name] = figure.spec
        picture = Markup(vega.svg(figure, titled=False)) if static else ""  # noqa: S704 - the renderer escapes names
        blocks.append(
            {
                "id": figure.name,
                "title": figure.title,
                "alt": figure.alt,
                "svg": picture,
                "table": _points(one),
            }
        )
    short = sum(len(one.points) < LEAST for one in series)
    about = (
        f"Where the level of a series changed. All series are searched together; between equal datasets the chance of any "
        f"false step is {(1 - level) * 100:.3g} %."
    )
    if short:
        about += f" {short} of {plural(len(series), 'series').replace('seriess', 'series')} have fewer than {LEAST} "
        about += "datasets and were not searched."
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    datasets = {(point.created, point.name) for one in series for point in one.points}
    days = sorted(created for created, _ in datasets)
    return str(
        environment()
        .get_template("trend.html.j2")
        .render(
            title=title,
            version=__version__,
            policy=POLICY if static else drawing.policy(drawing.script(), script),
            library=Markup(drawing.script()),  # noqa: S704 - the renderer's own bundle
            script=None if static else Markup(script),  # noqa: S704 - our own file
            specs=Markup(drawing.embedded(specs)),  # noqa: S704 - no '<'
            configs=Markup(drawing.embedded(vega.configs())),  # noqa: S704 - no '<'
            css=style(),
            facts=[("datasets", str(len(datasets))), ("from", days[0][:10]), ("to", days[-1][:10])],
            about=about,
            steps=_steps(series),
            series=blocks,
        )
    )


def step_rows(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Every step of every series, for programs."""
    return [
        {
            "path": one.path, "levels": dict(one.levels), "links": one.links, "unit": one.unit,
            "dataset": one.points[step.at].name, "created": one.points[step.at].created,
            "before": step.before, "after": step.after, "finding": one.word(step), "p": step.p,
        }
        for one in series
        for step in one.steps
    ]  # fmt: skip


def step_text(series: Series, step: Step) -> str:
    """A step in one line."""
    unit = display(series.unit, [step.before, step.after])
    point = series.points[step.at]
    place = f"{series.path} at {words(series.levels)}"
    return f"{place}: {series.word(step)} since {point.name} ({point.created[:10]}), {_change(step, unit)}"


def _change(step: Step, unit: Display) -> str:
    share = f" ({(step.after / step.before - 1) * 100:+.3g} %)" if step.before else ""
    return f"{unit.text(step.before)} became {unit.text(step.after)}{share}"


def _steps(series: Sequence[Series]) -> Block:
    rows = [(one, step) for one in series for step in one.steps]
    columns: list[Column[tuple[Series, Step]]] = [
        Column("quantity", lambda row: row[0].path),
        Column("setting", lambda row: words(row[0].levels, row[0].links)),
        Column(
            "since", lambda row: f"{row[0].points[row[1].at].created[:10]} {row[0].points[row[1].at].name}"
        ),
        Column("finding", lambda row: row[0].word(row[1])),
        Column("change", lambda row: _change(row[1], display(row[0].unit, [row[1].before, row[1].after]))),
        number("p", lambda row: f"{row[1].p:.2g}"),
    ]
    return table(columns, rows, name="every-step")


def _points(series: Series) -> Block:
    unit = display(series.unit, [point.estimate.point for point in series.points])

    def text(at: int) -> str:
        found = series.points[at].estimate
        return interval(found.low, found.point, found.high, unit)

    columns: list[Column[int]] = [
        Column("dataset", lambda at: series.points[at].name),
        Column("made", lambda at: series.points[at].created[:19].replace("T", " ")),
        number("runs", lambda at: str(series.points[at].estimate.n)),
        number("mean", text),
    ]
    return table(columns, range(len(series.points)))
