"""Claims read as sentences; a wrong one says where, what and the cure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.analysis.claims import ClaimError, PublishedReference, matches, mistakes, ordered, parse_claim
from virtlab.analysis.claims.nouns import (
    Bounds,
    Centre,
    Claim,
    Constant,
    Difference,
    Equivalent,
    Linear,
    Margin,
    Near,
    Onset,
    Ordering,
    PublishedOrder,
    Threshold,
    Trend,
)

FACTORS = {
    "load": ["0 B", "5 kB", "10 kB", "30 kB", "60 kB", "80 kB", "85 kB"],
    "switches": ["1", "2"],
    "streams": ["1", "2", "3"],
    "guests": ["1", "2"],
    "extra_load": ["0 B", "30 kB"],
    "vswitch": ["ovs", "linux_bridge"],
}
ROLES = {"probe": "rtt", "load": "burst_load", "stream": "udp_stream", "tcp": "tcp_stream"}
PUBLISHED = PublishedReference(
    "proxmox_switched_network.csv", "throughput", {"load_bytes": "0"}, "load_bytes"
)
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "claims.md"


def mistakes_of(text: str) -> list[str]:
    return [str(mistake) for mistake in mistakes(parse_claim(text, published=PUBLISHED), FACTORS, ROLES)]


def test_a_threshold_is_kept_in_the_unit_of_its_metric() -> None:
    assert parse_claim("load.loss.ratio <= 0.1 %").relation == Threshold("<=", 0.001)
    assert parse_claim("probe.rtt.p99.9 < 5 ms").relation == Threshold("<", 5e6)


def test_an_ordering_finds_its_factor_by_the_level() -> None:
    claim = parse_claim("probe.rtt.median: ovs < linux_bridge")
    assert isinstance(claim.relation, Ordering)
    assert [operand.text for operand in claim.relation.operands] == ["ovs", "linux_bridge"]
    assert mistakes(claim, FACTORS, ROLES) == []


def test_a_difference_has_a_constant_with_a_tolerance() -> None:
    relation = parse_claim("probe.rtt.mean: switches 2 - 1 within 244.16 us +- 10 %").relation
    assert isinstance(relation, Difference)
    assert relation.against == Centre(244160.0, Margin(relative=0.1))


def test_every_relation_is_read_as_its_own_kind() -> None:
    kinds = {
        "probe.rtt.median: ovs ~ linux_bridge within 2 %": Equivalent,
        "probe.rtt.median: vswitch equivalent within 10 us": Equivalent,
        "probe.rtt.mean grows with load": Trend,
        "probe.rtt.mean steadily grows with load where load >= 10 kB": Trend,
        "probe.rtt.mean is linear in load within 10 %": Linear,
        "stream.goodput.mean + stream.lost_rate.mean is constant over load within 2 %": Constant,
        "stream.goodput.mean / 95.2 Mbit/s + stream.loss.ratio is constant over load within 2 %": Constant,
        "load.loss.ratio exceeds 0.1 % from load 80 kB to 85 kB where streams = 2 | 3": Onset,
        "stream.goodput.mean within published +- 5 %": Near,
        "stream.goodput.mean = 95.2 Mbit/s +- 1 %": Near,
        "probe.rtt.mean: switches 2 - 1 between 200 us and 260 us": Difference,
        "probe.rtt.mean: switches 2 - 1 is constant over load within 20 %": Difference,
        "probe.rtt.mean: ovs / linux_bridge < 1.1": Difference,
        "probe.rtt.mean: streams 3 < 1 at low load and > at high load": Ordering,
        "probe.rtt.mdev: streams 1 > 3 in growth over load": Ordering,
        "probe.rtt.mean: streams ordered as published": PublishedOrder,
        "probe.rtt.mean - probe.path_rtt.mean > 0 us": Threshold,
    }
    for text, kind in kinds.items():
        claim = parse_claim(text, published=PUBLISHED)
        assert isinstance(claim.relation, kind), text
        assert mistakes(claim, FACTORS, ROLES) == [], text


def test_percentage_points_are_an_absolute_margin_and_percent_a_relative_one() -> None:
    points = parse_claim("stream.loss.ratio within 7 % +- 2 pp").relation
    share = parse_claim("stream.loss.ratio within 7 % +- 2 %").relation
    assert isinstance(points, Near)
    assert isinstance(share, Near)
    assert points.target == Centre(0.07, Margin(absolute=0.02))
    assert share.target == Centre(0.07, Margin(relative=0.02))


def test_bounds_are_kept_in_the_metrics_unit() -> None:
    relation = parse_claim("probe.rtt.mean: switches 2 - 1 between 200 us and 260 us").relation
    assert isinstance(relation, Difference)
    assert relation.against == Bounds(200e3, 260e3)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "path is missing"),
        ("probe.rtt", 1, "not a path"),
        ("probe.jitter.mean grows with load", 1, "several meanings"),
        ("probe.rrt.mean < 1 ms", 1, "did you mean 'rtt'"),
        ("probe.rtt.medain < 1 ms", 1, "did you mean 'median'"),
        ("probe.rtt.mean < 1", 18, "has no unit"),
        ("probe.rtt.mean < 1 MB", 18, "not a unit of this quantity"),
        ("probe.rtt.mean < 1 MS", 18, "did you mean '1 ms'?"),
        ("probe.rtt.mean", 15, "says nothing of this value"),
        ("probe.rtt.mean grows load", 22, "should"),
        ("probe.rtt.median: ovs <", 24, "a level is missing"),
        ("probe.rtt.median: ovs", 22, "only one level"),
        ("probe.rtt.median: ovs ~ linux_bridge", 37, "needs its margin"),
        ("probe.rtt.median: ovs ~ linux_bridge within 2", 45, "has no unit"),
        ("probe.rtt.median: a < b > c", 27, "turns round"),
        ("probe.rtt.mean: switches 2 - 1 within 244 us", 45, "tolerance"),
        ("probe.rtt.mean: switches 2 - 1", 31, "compared with nothing"),
        ("probe.rtt.mean: switches 2 - 1 between 3 us and 2 us", 40, "not below"),
        ("load.loss.ratio <= 0.1 % where", 31, "factor is missing"),
        ("load.loss.ratio <= 0.1 % where streams", 39, "cut short"),
        ("load.loss.ratio <= 0.1 % where streams < 1 | 2", 32, "takes one level"),
        ("load.loss.ratio <= 0.1 % because", 20, "not a unit"),
        ("stream.goodput.mean + stream.loss.ratio is constant over load within 2 %", 23, "one unit"),
        ("stream.goodput.mean within published +- 5 %", 28, "no published rows"),
        ("probe.rtt.mean > 0 us !", 18, "not a unit"),
        ("probe.rtt.mean: load {0 B, 5 kB < 10 kB", 33, "where '}' should"),
        ("probe.rtt.mean: load {0 B} < 10 kB", 22, "has one level"),
        ("probe.rtt.mean: load {0 B, } < 10 kB", 28, "a level is missing in the list"),
        ("probe.rtt.mean: load {0 B, 5 kB, 0 B} < 10 kB", 34, "twice in the list"),
        ("probe.rtt.mean < {1 ms, 2 ms}", 18, "a constant should"),
        ("{probe, load}.rtt.mean < 1 ms", 1, "a path should"),
        ("probe.rtt.mean < 1 ms where {load, switches} = 1", 29, "factor is missing"),
    ],
)
def test_a_mistake_names_its_column_and_the_cure(text: str, column: int, words: str) -> None:
    with pytest.raises(ClaimError) as caught:
        parse_claim(text, line=7, column=1)
    assert words in str(caught.value)
    assert caught.value.cure
    assert (caught.value.line, caught.value.column) == (7, column)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prob.rtt.mean < 1 ms", "'prob' is not a role; did you mean 'probe'"),
        ("load.rtt.mean < 1 ms", "rtt is not measured by burst_load"),
        ("probe.rtt.mean: ovz < linux_bridge", "did you mean 'ovs'"),
        ("probe.rtt.mean: 1 < 2", "'1' is a level of switches, streams, guests; write 'switches 1'"),
        ("probe.rtt.mean: switches 1 < streams 2", "different factors"),
        ("probe.rtt.mean: switches 1 < 1", "named twice"),
        ("probe.rtt.mean: switches 1 < 3", "'3' is not a level of switches"),
        ("probe.rtt.mean grows with vswitch", "have no order"),
        ("probe.rtt.mean grows with lod", "did you mean 'load'"),
        ("probe.rtt.mean < 1 ms where vswitch > ovs", "is not a number"),
        ("probe.rtt.mean < 1 ms where load = 7 kB", "not a level of load"),
        ("probe.rtt.mean is linear in switches within 10 %", "this needs 3"),
        ("load.loss.ratio exceeds 0.1 % from load 7 kB", "not a level of load"),
        ("probe.rtt.mean: streams 3 < 1 at low vswitch and > at high load", "have no order"),
        ("probe.rtt.mean: streams 1 < {2, 4}", "'4' is not a level of streams"),
        ("probe.rtt.mean: streams {1, 2} < {2, 3}", "named twice"),
        ("probe.rtt.mean < 1 ms where load = {0 B, 7 kB}", "not a level of load"),
    ],
)
def test_checking_finds_what_the_experiment_does_not_have(text: str, words: str) -> None:
    found = mistakes_of(text)
    assert found
    assert any(words in mistake for mistake in found), found


def test_a_level_may_be_written_in_another_unit() -> None:
    assert mistakes_of("probe.rtt.mean: load 5000 B < 0.03 MB") == []


def test_conditions_select_design_points() -> None:
    claim = parse_claim("load.loss.ratio <= 1 % where load >= 10 kB, streams = 1 | 2, guests != 2")
    chosen = [{"load": load, "streams": "2", "guests": "1"} for load in FACTORS["load"]]
    fitting = [
        point["load"] for point in chosen if all(matches(condition, point) for condition in claim.where)
    ]
    assert fitting == ["10 kB", "30 kB", "60 kB", "80 kB", "85 kB"]
    assert not matches(claim.where[2], {"guests": "2"})
    assert not matches(claim.where[0], {})


def test_levels_are_ordered_by_quantity_not_by_text() -> None:
    assert ordered(["85 kB", "0 B", "5 kB"]) == ["0 B", "5 kB", "85 kB"]


def test_lists_of_levels_stand_for_a_claim_per_combination() -> None:
    claim = parse_claim("probe.rtt.mean: streams {1, 2} < 3 where load = {0 B, 5 kB}")
    assert [member.text for member in claim.members] == [
        "probe.rtt.mean: streams 1 < 3 where load = 0 B",
        "probe.rtt.mean: streams 1 < 3 where load = 5 kB",
        "probe.rtt.mean: streams 2 < 3 where load = 0 B",
        "probe.rtt.mean: streams 2 < 3 where load = 5 kB",
    ]
    assert [member.at for member in claim.members] == ["load 0 B", "load 5 kB"] * 2
    orders = [member.relation for member in claim.members if isinstance(member.relation, Ordering)]
    named = [[operand.text for operand in order.operands] for order in orders]
    assert named == [["streams 1", "3"]] * 2 + [["streams 2", "3"]] * 2
    assert mistakes(claim, FACTORS, ROLES) == []


def test_lists_cannot_stand_for_more_claims_than_anybody_reads() -> None:
    text = "probe.rtt.mean: load " + " < ".join(["{0 B, 5 kB, 10 kB, 30 kB}"] * 5)
    with pytest.raises(ClaimError, match="more than 256 claims"):
        parse_claim(text)


def test_a_quoted_level_may_look_like_a_keyword() -> None:
    claim = parse_claim("probe.rtt.mean: mode \"where\" < 'a < b'")
    assert isinstance(claim.relation, Ordering)
    assert [operand.text for operand in claim.relation.operands] == ["mode where", "a < b"]


def refused_cleanly(error: ClaimError, text: str) -> None:
    assert error.what
    assert error.cure
    assert 1 <= error.column <= len(text) + 1


@pytest.mark.slow
@given(st.text(max_size=80))
def test_any_text_is_a_claim_or_a_clean_error(text: str) -> None:
    try:
        parse_claim(text)
    except ClaimError as error:
        refused_cleanly(error, text)


WORDS = [
    "probe.rtt.mean",
    "load.loss.ratio",
    ":",
    "<",
    ">",
    "~",
    "-",
    "/",
    "+",
    "+-",
    "within",
    "between",
    "and",
    "where",
    "switches",
    "1",
    "2",
    "load",
    "10 kB",
    "5 %",
    "10 us",
    "grows",
    "with",
    "is",
    "linear",
    "in",
    "over",
    "constant",
    "exceeds",
    "from",
    "to",
    "at",
    "low",
    "high",
    "published",
    "=",
    "!=",
    "|",
    ",",
    "by",
    "growth",
    "{",
    "}",
    '"x"',
]


@pytest.mark.slow
@given(st.lists(st.sampled_from(WORDS), max_size=14))
def test_any_order_of_words_is_a_claim_or_a_clean_error(words: list[str]) -> None:
    text = " ".join(words)
    try:
        claim = parse_claim(text)
    except ClaimError as error:
        refused_cleanly(error, text)
    else:
        mistakes(claim, FACTORS, ROLES)


def test_every_claim_written_in_the_reference_parses_and_checks() -> None:
    written = re.findall(r'^- "(.+)"$', REFERENCE.read_text(), re.MULTILINE)
    assert len(written) >= 20
    for text in written:
        claim = parse_claim(text.strip().strip("'"), published=PUBLISHED)
        assert [str(mistake) for mistake in mistakes(claim, FACTORS, ROLES)] == [], text


def test_a_sum_over_roles_is_the_sum_of_their_paths() -> None:
    for short, long in (
        ("stream+tcp.goodput.mean > 2 bit/s", "stream.goodput.mean + tcp.goodput.mean > 2 bit/s"),
        (
            "stream+tcp.goodput.mean / 9 bit/s: switches 1 < 2",
            "stream.goodput.mean / 9 bit/s + tcp.goodput.mean / 9 bit/s: switches 1 < 2",
        ),
    ):
        assert terms_of(parse_claim(short)) == terms_of(parse_claim(long))
        assert type(parse_claim(short).relation) is type(parse_claim(long).relation)
    minus = parse_claim("stream.goodput.mean - load+tcp.goodput.mean > 0 Mbit/s")
    assert [sign for _, sign, _ in terms_of(minus)] == [1, -1, -1]


def terms_of(claim: Claim) -> list[tuple[str, int, float | None]]:
    return [(str(term.path), term.sign, term.over_value) for term in claim.expression.terms]


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("stream+.goodput.mean > 1 bit/s", 8, "a role is missing beside '+'"),
        ("+tcp.goodput.mean > 1 bit/s", 1, "a role is missing beside '+'"),
        ("tcp+stream+tcp.goodput.mean > 1 bit/s", 1, "a role stands twice in the sum"),
        ("tcp+stream.godput.mean > 1 bit/s", 1, "'godput' is not a metric"),
    ],
)
def test_a_sum_over_roles_that_is_none_is_refused(text: str, column: int, what: str) -> None:
    with pytest.raises(ClaimError, match=re.escape(f"1:{column}: {what}")):
        parse_claim(text)
