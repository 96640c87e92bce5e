"""Response times, processors and writes before, during and after guests move, from the start of the first move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure, Row, amount, layer, name, tips
from virtlab.report.figures.grammar.panels import arrange
from virtlab.report.figures.machines.migrations import GROUP
from virtlab.report.gather.around_moves import LARGEST, MEDIAN, Around, Line, What
from virtlab.report.gather.gathered import Gathered
from virtlab.report.words import point_words
from virtlab.units import Display, Duration, display

LINES = 7  # of a picture, those of most; a colour each
DASHES = {MEDIAN: [1, 0], LARGEST: [3, 2]}
_TITLES: dict[What, str] = {
    "response times": "Response times around moves",
    "processors": "Processors around moves: share of those of the host",
    "writes": "Writes to disks around moves",
}


def around_moves_figures(data: Gathered) -> Iterator[Figure]:
    """A picture of each of the three that has values, with a panel per exemplar run."""
    for quantity, title in _TITLES.items():
        found = [
            (one, [line for line in one.lines if line.quantity == quantity])
            for one in data.samples.around_moves
        ]
        found = [(one, lines) for one, lines in found if lines]
        if found:
            yield _figure(quantity, title, found)


def _figure(quantity: What, title: str, runs: Sequence[tuple[Around, Sequence[Line]]]) -> Figure:
    moved = list(dict.fromkeys(span.guest for one, _ in runs for span in one.spans))
    means: dict[str, float] = {}
    for _, lines in runs:
        for line in lines:
            means[line.of] = max(means.get(line.of, 0.0), sum(line.y) / len(line.y))
    # Hosts, then the guests that move, then those that had most of it.
    moving = {line.of for _, lines in runs for line in lines if line.guest in moved}
    chosen = sorted(means, key=lambda of: (not of.startswith("host"), of not in moving, -means[of], of))[
        :LINES
    ]
    called = {of: f"{of} (moves)" if of in moving else of for of in chosen}
    shown = _shown(quantity, [max(line.y) for _, lines in runs for line in lines])
    labels = [point_words(one.point, one.run) for one, _ in runs]
    rows: list[Row] = [
        {"x": x, "y": (max(y, 1.0) if quantity == "response times" else y) / shown.size, "of": called[line.of],
         "statistic": line.statistic, "panel": label, "run": one.run}
        for (one, lines), label in zip(runs, labels, strict=True)
        for line in lines if line.of in chosen
        for x, y in zip(line.x, line.y, strict=True)
    ]  # fmt: skip
    moves: list[Row] = [
        {"x": begin_s, "x2": end_s, "panel": label}
        for (one, _), label in zip(runs, labels, strict=True)
        for begin_s, end_s in _shades(one)
    ]
    widths = " and ".join(dict.fromkeys(str(Duration(one.width_ns)) for one, _ in runs))
    more = len(means) - len(chosen)
    said = "Median and largest" if quantity == "response times" else "Largest value"
    spec = arrange(
        _layers(quantity, rows, moves, list(called.values()), shown),
        labels if len(labels) > 1 else (),
        height=190,
    )
    return Figure(
        name=names.AROUND_MOVES_PLOTS[quantity],
        title=title,
        subtitle=f"{said} of each {widths}, {_runs_in_words(len(runs))}, which is shaded"
        + (f"; {more} more are left out" if more else ""),
        alt=f"{title}, of {', '.join(called.values())}, in {len(labels)} exemplar runs: "
        + "; ".join(f"{label}, {_moves_in_words(one)}" for (one, _), label in zip(runs, labels, strict=True))
        + ".",
        spec=spec,
        group=GROUP,
        statistic=quantity,
    )


def _runs_in_words(count: int) -> str:
    if count == 1:
        return "of one run around its move"
    named = (
        "the shortest and the longest move" if count == 2 else "the shortest, a middle and the longest move"
    )
    return f"one run each of {named}"


def _shown(quantity: What, largest: Sequence[float]) -> Display:
    unit = {"response times": "ns", "processors": "", "writes": "byte/s"}[quantity]
    return display(unit, largest)


def _layers(
    quantity: What, rows: list[Row], moves: list[Row], called: list[str], shown: Display
) -> list[Row]:
    seconds = amount("x", "seconds since the first move began", scale={"nice": False}, axis={"tickCount": 6})
    y: Row = amount("y", shown.unit or "busy", scale={"zero": True}, axis={"format": "~s"})
    if quantity == "response times":
        y = amount("y", f"{shown.unit}, logarithmic", scale={"type": "log", "nice": False})
    elif quantity == "processors":
        y["axis"] = {"format": "~%"}
    form = ".3~%" if quantity == "processors" else ".4~g"
    tooltip = tips(
        ("of", "of"),
        ("statistic", "statistic"),
        ("x", "s", ".4~g"),
        ("y", shown.unit or "busy", form),
        ("run", "run"),
    )
    dashes: Row = {}
    if quantity == "response times":
        scale = {"domain": list(DASHES), "range": list(DASHES.values())}
        dashes = {"strokeDash": name("statistic", "", scale=scale)}
    shade = layer(
        moves, "rect", look={"opacity": 0.12}, x=seconds, x2={"field": "x2"},
        tooltip=tips(("x", "moves from, s", ".4~g"), ("x2", "until, s", ".4~g")),
    )  # fmt: skip
    line = layer(
        rows,
        "line",
        "curve",
        look={"strokeJoin": "round"},
        x=seconds,
        y=y,
        color=name("of", "", called),
        **dashes,
        tooltip=tooltip,
    )
    return [shade, line]


def _shades(run: Around) -> list[tuple[float, float]]:
    """When at least one guest was under way: moves at the same time are shaded once."""
    shades: list[tuple[float, float]] = []
    for begin_s, end_s in sorted((span.begin_s, span.end_s) for span in run.spans):
        if shades and begin_s <= shades[-1][1]:
            shades[-1] = shades[-1][0], max(shades[-1][1], end_s)
        else:
            shades.append((begin_s, end_s))
    return shades


def _moves_in_words(run: Around) -> str:
    return " and ".join(f"{span.guest} from {span.begin_s:.3g} to {span.end_s:.3g} s" for span in run.spans)
