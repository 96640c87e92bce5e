"""Colours that can be read and told apart, numbers with the digits they deserve, worlds drawn as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from virtlab.plan import Plan
from virtlab.report.figures import topology
from virtlab.report.figures.grammar import theme
from virtlab.report.figures.grammar.panels import panel_labels
from virtlab.report.figures.samples.courses import course_figure
from virtlab.report.figures.samples.distributions import distribution_figure
from virtlab.report.figures.samples.intervals import interval_figure
from virtlab.report.figures.verdicts import picture
from virtlab.report.gather.model import Cell, Curve, Factor, Quantity, Result, RunValue, Sampled, Verdict
from virtlab.stats import Estimate

GOLDEN = Path(__file__).parents[2] / "golden"


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio, WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_and_marks_stand_out_from_the_ground(name: str) -> None:
    ink = theme.INK[name]
    assert contrast(ink["ink"], ink["ground"]) >= 7
    assert contrast(ink["muted"], ink["ground"]) >= 4.5
    for colour in [*theme.CATEGORY[name], ink["published"]]:
        assert contrast(colour, ink["ground"]) >= 3, colour


@pytest.mark.parametrize("name", ["light", "dark"])
def test_a_ramp_goes_one_way(name: str) -> None:
    steps = [luminance(colour) for colour in theme.RAMP[name]]
    assert steps == sorted(steps, reverse=name == "light")


def test_a_drawn_colour_becomes_the_themes_variable_and_no_other_text_changes() -> None:
    drawn = '<path fill="#0067a8"/><path stroke="white"/><text>"#0067a8x"</text><path fill="#123456"/>'
    assert theme.themable(drawn) == (
        '<path fill="var(--c0, #0067a8)"/><path stroke="var(--ground, #ffffff)"/><text>"#0067a8x"</text>'
        '<path fill="#123456"/>'
    )


def test_panels_stand_in_the_order_of_the_file() -> None:
    factors = [Factor("qdisc", ("sfq", "fifo")), Factor("load", ("9 kB", "10 kB"))]
    present = ["qdisc fifo, load 10 kB", "qdisc sfq, load 10 kB", "qdisc fifo, load 9 kB"]
    assert panel_labels(factors, ["qdisc", "load"], present) == [
        "qdisc sfq, load 10 kB",
        "qdisc fifo, load 9 kB",
        "qdisc fifo, load 10 kB",
    ]


def test_the_switched_network_is_drawn_as_ever() -> None:
    plan = Plan.parse((GOLDEN / "plans" / "switched_network.json").read_bytes())
    drawn = topology.picture(plan.model_dump(mode="json", by_alias=True))
    assert drawn + "\n" == (GOLDEN / "report" / "switched_network.svg").read_text(encoding="utf-8")


def test_boxes_of_any_tree_do_not_overlap() -> None:
    hosts = {f"h{n}": {} for n in range(1, 6)}
    links = {f"h{n}": ["s1" if n < 3 else "s2" if n < 5 else "s3", f"h{n}"] for n in range(1, 6)}
    links |= {"a": ["s1", "s2"], "b": ["s2", "s3"]}
    world = {
        "hosts": hosts,
        "switches": {f"s{n}": {} for n in (1, 2, 3)},
        "links": {
            name: {"ends": [f"{first}.p{at}", f"{second}.p{at}"], "rate_bit_per_s": 10**8}
            for at, (name, (first, second)) in enumerate(links.items())
        },
    }
    boxes = topology._boxes(world)
    topology._lay_out(boxes, topology._edges(world, boxes))
    placed = list(boxes.values())
    for at, one in enumerate(placed):
        for other in placed[at + 1 :]:
            apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
            apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
            assert apart_x or apart_y, (one.name, other.name)


def test_names_in_a_world_are_escaped() -> None:
    world = {"hosts": {"h": {}}, "guests": {"<b>": {"host": "h", "platform": "<i>", "vnics": {}}}}
    drawn = topology.picture({"world": world, "roles": {"<u>": {"from": "<b>"}}})
    assert "&lt;b&gt;" in drawn
    assert not any(tag in drawn for tag in ("<b>", "<i>", "<u>"))


def test_a_verdicts_picture_says_what_it_shows() -> None:
    estimate = Estimate("rtt", "ns", 244e3, 239e3, 251e3, 0.95, 10, "t")
    verdict = Verdict("n", "c", "holds", "s", estimate=estimate, required=(220e3, 268e3))
    assert 'aria-label="Estimate 244 µs [239, 251]; required between 220 µs and 268 µs"' in picture(verdict)
    assert picture(Verdict("n", "c", "undecided", "s")) == ""


def test_values_that_are_all_the_same_have_an_axis_that_can_be_read() -> None:
    """Left to itself the axis would have one tick, and beside it a rounded number: 25 at 25.28."""
    factor = Factor("qdisc", ("fifo", "sfq"))
    cells = tuple(
        Cell({"qdisc": level}, "", (RunValue("r0", 0, 25_280.0), RunValue("r1", 1, 25_280.0)), None)
        for level in factor.levels
    )
    result = Result(Quantity("rr", "transaction_time", "mean", "ns"), cells)
    figure = interval_figure("f", result, [factor], "qdisc", split=False)
    drawn = json.dumps(figure.spec)
    assert '"domain": [0, 31.6' in drawn
    changed = Result(
        result.quantity, (*cells[:1], Cell({"qdisc": "sfq"}, "", (RunValue("r0", 0, 3e4),), None))
    )
    assert '"domain": [0,' not in json.dumps(
        interval_figure("f", changed, [factor], "qdisc", split=False).spec
    )


@pytest.mark.parametrize(
    ("levels", "base"),
    [
        (("1", "2", "4", "8"), 2.0),
        (("64 B", "640 B", "6400 B", "64 kB"), 10.0),
        (("1", "2", "4"), None),
        (("10", "11", "12.1", "13.31"), None),
        (("0", "1", "2", "4"), None),
        (("1", "2", "4", "9"), None),
        (("fifo", "sfq", "codel", "fq_codel"), None),
    ],
)
def test_levels_that_grow_by_one_ratio_stand_evenly(levels: tuple[str, ...], base: float | None) -> None:
    factor = Factor("threads", levels)
    cells = tuple(Cell({"threads": each}, "", (RunValue(each, 0, 1.0),), None) for each in levels)
    result = Result(Quantity("left", "operation_rate", "mean", "1/s"), cells)
    figure = interval_figure("f", result, [factor], "threads", split=False)
    mark = next(layer for layer in figure.spec["layer"] if layer["encoding"]["x"]["field"] == "x")
    along = mark["encoding"]["x"]
    assert along["scale"].get("base") == base
    assert ("logarithmic" in along["title"]) == (base is not None)


def test_a_distribution_of_one_value_is_a_line_upwards() -> None:
    curve = Curve({"qdisc": "fifo"}, "", (243_840.0,), (1.0,), ("r0",), 100)
    sampled = Sampled("udp", "owd", "ns", "one-way delay", (curve,))
    figure = distribution_figure(sampled, [Factor("qdisc", ("fifo",))], split=False)
    places = [(row["x"], row["y"]) for row in figure.spec["layer"][0]["data"]["values"]]
    assert places == [(243.84, 0.0), (243.84, 1.0)]


def test_a_course_of_one_value_has_its_axis_in_the_unit_that_is_shown() -> None:
    curve = Curve({}, "", (0.0, 1.0), (20_000.0, 20_000.0), ("r0",), 2)
    figure = course_figure(Sampled("udp", "owd", "ns", "one-way delay", (curve,)))
    y = figure.spec["layer"][0]["encoding"]["y"]
    assert (y["title"], y["scale"]["domain"]) == ("\u00b5s", [0, 25.0])
