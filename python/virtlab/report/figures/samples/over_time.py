"""Response times over time: median, p99 and maximum of each interval, above the number of its requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure, Row, amount, layer, name, tips, title_of
from virtlab.report.figures.grammar.panels import arrange
from virtlab.report.gather.distributions.over_time import OverTime
from virtlab.report.words import point_words
from virtlab.units import Duration, display

LINES = ("max", "p99", "median")


def over_time_figures(runs: Sequence[OverTime]) -> Iterator[Figure]:
    """One of each metric of a role, with a panel per exemplar run."""
    for key in dict.fromkeys((one.role, one.metric) for one in runs):
        yield _figure([one for one in runs if (one.role, one.metric) == key])


def _figure(runs: Sequence[OverTime]) -> Figure:
    role, metric = runs[0].role, runs[0].metric
    shown = display("ns", [interval.median for one in runs for interval in one.intervals])
    labels = [point_words(one.point, one.run) for one in runs]
    rows: list[Row] = [
        {
            "x": interval.begin_s,
            "y": max(value, 1) / shown.size,
            "of": line,
            "n": interval.count,
            "panel": label,
            "run": one.run,
        }
        for one, label in zip(runs, labels, strict=True)
        for interval in one.intervals
        for line, value in zip(LINES, (interval.largest, interval.p99, interval.median), strict=True)
    ]
    unit = shown.unit or "value"
    curve = layer(
        rows, "line", "curve",
        x=amount("x", "seconds since the measurement began", scale={"nice": False}),
        y=amount("y", unit, scale={"type": "log", "nice": False}),
        color=name("of", "", LINES),
        tooltip=tips(
            ("of", "of its requests"), ("x", "s", ".4~g"), ("y", unit, ".4~g"), ("n", "requests", ""), ("run", "run")
        ),
    )  # fmt: skip
    widths = " and ".join(dict.fromkeys(str(Duration(one.width_ns)) for one in runs))
    return Figure(
        name=names.over_time(role, metric),
        title=title_of(runs[0].title, role, "over time"),
        subtitle=f"Median, p99 and maximum of the requests of each {widths}, in exemplar runs",
        alt=f"Median, p99 and maximum of {role}.{metric} over time in {len(labels)} exemplar runs: {'; '.join(labels)}. "
        + " ".join(_worst(one, label) for one, label in zip(runs, labels, strict=True)),
        spec=arrange([curve], labels if len(labels) > 1 else (), height=190),
        group=f"{role}.{metric}",
        statistic="quantiles over time",
        empty=not rows,
    )


def _worst(run: OverTime, label: str) -> str:
    worst = max(run.intervals, key=lambda interval: interval.p99)
    shown = display("ns", [worst.p99])
    return f"{label}: p99 is at most {shown.text(worst.p99)}, {worst.begin_s:.4g} s after the begin."
