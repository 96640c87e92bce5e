"""Claims averaged over a factor: what no level shows alone is seen over all; a repetition counts whole or not at
all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.analysis.claims_specimen import rule, table_of

from virtlab.analysis import RunTable, parse_claim
from virtlab.analysis.claims import ClaimError, mistakes
from virtlab.analysis.judging.averages import averaged
from virtlab.analysis.judging.cells import gather

FACTORS = {"vswitch": ["linux_bridge", "ovs"], "qdisc": ["fifo", "sfq", "codel", "fq_codel", "htb", "hfsc"]}
RTT = "probe.rtt.mean"


def noisy(seed: int = 3) -> RunTable:
    """Open vSwitch takes 1 longer, disciplines differ among each other, and a run varies as much."""
    own = {name: float(place) for place, name in enumerate(FACTORS["qdisc"])}
    truth = {RTT: lambda levels: 10.0 + own[levels["qdisc"]] + (levels["vswitch"] == "ovs")}
    return table_of(FACTORS, truth, runs=6, spread=1.0, seed=seed)


def test_what_no_level_shows_by_itself_is_seen_over_all() -> None:
    table = noisy()
    assert rule(f"{RTT}: vswitch linux_bridge < ovs", table).ruling == "undecided"
    verdict = rule(f"{RTT}: vswitch linux_bridge < ovs averaged over qdisc", table)
    assert verdict.ruling == "holds"
    (comparison,) = verdict.comparisons
    assert comparison.runs == (6, 6)
    assert verdict.notes == ("each value is the mean of a repetition over the levels of qdisc",)
    assert rule(f"{RTT}: vswitch ovs < linux_bridge averaged over qdisc", table).ruling == "refuted"


def test_the_average_is_the_plain_mean_of_the_levels_means() -> None:
    table = noisy()
    cells = gather(parse_claim(f"{RTT}: vswitch linux_bridge < ovs averaged over qdisc"), table)
    for (place,), values in ((point, values) for point, values in cells.of.items()):
        means = [
            np.mean([row.value for row in table if row.levels == {"vswitch": place[1], "qdisc": name}])
            for name in FACTORS["qdisc"]
        ]
        assert values.mean() == pytest.approx(np.mean(means))
    assert "qdisc" not in cells.factors


@pytest.mark.parametrize(
    "relation",
    [
        "vswitch ovs - linux_bridge within 1 ms +- 2 ms averaged over qdisc",
        "vswitch equivalent within 3 ms averaged over qdisc",
        "<= 20 ms averaged over qdisc, vswitch",
        "vswitch linux_bridge < ovs by 1 % averaged over qdisc where qdisc != fifo",
    ],
)
def test_every_relation_can_be_of_averages(relation: str) -> None:
    ms = {RTT: lambda levels: 0.010 + 0.001 * (levels["vswitch"] == "ovs")}
    sign = "" if relation.startswith("<") else ":"
    table = table_of(FACTORS, ms, runs=6, spread=0.0001)
    in_ns = RunTable(tuple(replace(row, value=(row.value or 0.0) * 1e9) for row in table.rows))
    assert rule(f"{RTT}{sign} {relation}", in_ns).ruling == "holds"


def test_a_repetition_without_one_of_the_levels_does_not_count() -> None:
    table = noisy()
    rows = tuple(
        row
        for row in table.rows
        if not (row.levels == {"vswitch": "ovs", "qdisc": "htb"} and row.repetition == 2)
    )
    verdict = rule(f"{RTT}: vswitch linux_bridge < ovs averaged over qdisc", RunTable(rows))
    (comparison,) = verdict.comparisons
    assert comparison.runs == (6, 5)
    assert "5 runs have no value: their repetition has none at every level of qdisc" in verdict.notes


def test_a_side_that_lacks_a_level_altogether_has_no_average() -> None:
    rows = tuple(row for row in noisy().rows if row.levels != {"vswitch": "ovs", "qdisc": "htb"})
    verdict = rule(f"{RTT}: vswitch linux_bridge < ovs averaged over qdisc", RunTable(rows))
    assert verdict.ruling == "undecided"
    assert verdict.comparisons == ()
    assert "30 runs have no value: their repetition has none at every level of qdisc" in verdict.notes


def test_a_level_that_nobody_has_measured_is_not_left_out_of_the_mean() -> None:
    table = noisy()
    declared = {**FACTORS, "qdisc": [*FACTORS["qdisc"], "tbf"]}
    verdict = rule(
        f"{RTT}: vswitch linux_bridge < ovs averaged over qdisc", replace(table, declared=declared)
    )
    assert (verdict.ruling, verdict.comparisons) == ("undecided", ())
    assert "72 runs have no value: their repetition has none at every level of qdisc" in verdict.notes
    ruled_out = f"{RTT}: vswitch linux_bridge < ovs averaged over qdisc where qdisc != tbf"
    assert rule(ruled_out, replace(table, declared=declared)).ruling == "holds"


def test_levels_of_different_links_are_not_averaged() -> None:
    truth = {RTT: lambda levels: 10.0 + (levels["vswitch"] == "ovs")}
    table = table_of(
        FACTORS, truth, realisation=lambda levels, _: "netem" if levels["qdisc"] == "fifo" else "soft_switch"
    )
    verdict = rule(f"{RTT}: vswitch linux_bridge < ovs averaged over qdisc", table)
    assert (verdict.ruling, verdict.comparisons) == ("undecided", ())
    assert (
        "72 runs have no value: levels of qdisc were measured over several link realisations" in verdict.notes
    )
    soft = f"{RTT}: vswitch linux_bridge < ovs averaged over qdisc where qdisc != fifo"
    assert rule(soft, table).ruling == "holds"


@pytest.mark.slow
@given(
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xy")),
        st.dictionaries(st.integers(0, 4), st.floats(-1e3, 1e3), max_size=5),
        max_size=4,
    )
)
def test_an_average_lies_between_its_parts_and_needs_all_of_them(
    runs: dict[tuple[str, str], dict[int, float]],
) -> None:
    values = {(("a", a), ("q", q)): own for (a, q), own in runs.items()}
    every = [(("q", q),) for q in "xy"]
    for ((_, a),), means in averaged(values, ["q"], every).items():
        for repetition, mean in means.items():
            parts = [runs[a, q][repetition] for q in "xy"]
            assert min(parts) - 1e-9 <= mean <= max(parts) + 1e-9


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("probe.rtt.mean: a < b averaged", "1:31: 'over' is missing; write e.g. 'averaged over qdisc'"),
        (
            "probe.rtt.mean: a < b averaged over",
            "1:36: a factor is missing here; write e.g. 'averaged over qdisc'",
        ),
    ],
)
def test_half_an_average_is_a_mistake_with_its_place(text: str, told: str) -> None:
    with pytest.raises(ClaimError) as error:
        parse_claim(text)
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            f"{RTT}: vswitch linux_bridge < ovs averaged over qdsic",
            "'qdsic' is not a factor; did you mean 'qdisc'?",
        ),
        (
            f"{RTT}: vswitch linux_bridge < ovs averaged over vswitch",
            "the claim compares levels of vswitch, over which it averages; average over another factor",
        ),
    ],
)
def test_a_factor_that_cannot_be_averaged_over_is_told(text: str, told: str) -> None:
    (mistake,) = mistakes(parse_claim(text), FACTORS, {"probe": "rtt"})
    assert str(mistake) == told
