"""Claims on tables of known truth: what holds is said to hold, what does not is refuted, and doubt is said to
be doubt."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tests.unit.analysis.claims_specimen import PUBLISHED, number, rule, table_of

from virtlab.analysis import PublishedReference, RunTable, RunValue, exit_code, parse_claim
from virtlab.analysis.claims import mistakes
from virtlab.analysis.claims.words import in_words
from virtlab.analysis.judging.text import ANSWERS
from virtlab.analysis.published import published_values
from virtlab.errors import ExperimentError
from virtlab.metrics import MetricPath

LOADS = {"load": ["0 B", "10 kB", "30 kB", "60 kB"]}
SWITCHES = {"switches": ["1", "2"], **LOADS}
RTT = "probe.rtt.mean"
PATH_RTT = "probe.path_rtt.mean"


def line(levels: Mapping[str, str]) -> float:
    """1 ms plus 80 ns per byte of load plus 244.16 us per further switch."""
    return (
        1e6
        + 80 * number(levels, "load")
        + 244_160 * (number(levels, "switches") - 1 if "switches" in levels else 0)
    )


STUDY = table_of(SWITCHES, {RTT: line}, spread=3_000)


@pytest.mark.parametrize(
    ("text", "ruling"),
    [
        (f"{RTT} <= 10 ms", "holds"),
        (f"{RTT} <= 3 ms", "refuted"),
        (f"{RTT} <= 3 ms where load <= 10 kB", "holds"),
        (f"{RTT} within 1 ms +- 2 % where load = 0 B, switches = 1", "holds"),
        (f"{RTT} within 1 ms +- 2 % where load = 0 B, switches = 2", "refuted"),
        (f"{RTT} between 0.9 ms and 1.1 ms where load = 0 B, switches = 1", "holds"),
        (f"{RTT}: switches 1 < 2", "holds"),
        (f"{RTT}: switches 2 < 1", "refuted"),
        (f"{RTT}: switches 2 > 1 by 3 %", "holds"),
        (f"{RTT}: switches 2 > 1 by 50 %", "refuted"),
        (f"{RTT}: switches 2 > 1 by 100 us", "holds"),
        (f"{RTT}: load 0 B < 10 kB < 30 kB < 60 kB", "holds"),
        (f"{RTT}: switches 2 - 1 within 244.16 us +- 10 %", "holds"),
        (f"{RTT}: switches 2 - 1 within 200 us +- 10 %", "refuted"),
        (f"{RTT}: switches 2 - 1 between 220 us and 260 us", "holds"),
        (f"{RTT}: switches 2 - 1 > 500 us", "refuted"),
        (f"{RTT}: switches 2 - 1 is constant over load within 10 %", "holds"),
        (f"{RTT}: switches 2 / 1 is constant over load within 1 %", "refuted"),
        (f"{RTT}: switches 2 / 1 < 1.3", "holds"),
        (f"{RTT}: switches 2 / 1 between 123 % and 126 % where load = 0 B", "holds"),
        (f"{RTT}: switches 2 / 1 > 2", "refuted"),
        (f"{RTT}: switches equivalent within 30 %", "holds"),
        (f"{RTT}: switches 1 ~ 2 within 2 %", "refuted"),
        (f"{RTT}: switches 1 ~ 2 within 1 ms", "holds"),
        (f"{RTT} grows with load", "holds"),
        (f"{RTT} steadily grows with load", "holds"),
        (f"{RTT} falls with load", "refuted"),
        (f"{RTT} is linear in load within 5 %", "holds"),
        (f"{RTT} is constant over load within 5 %", "refuted"),
        (f"{RTT} is constant over switches within 30 %", "holds"),
        (f"{RTT} exceeds 3 ms from load 30 kB", "holds"),
        (f"{RTT} exceeds 3 ms from load 60 kB", "refuted"),
        (f"{RTT} exceeds 4 ms from load 30 kB to 60 kB", "holds"),
        (f"{RTT} / 1 ms <= 10 ratio", "holds"),
    ],
)
def test_claims_about_a_known_truth_are_judged_as_it_is(text: str, ruling: str) -> None:
    verdict = rule(text, STUDY)
    assert verdict.ruling == ruling, verdict.text
    assert verdict.text.startswith(f"{in_words(verdict.claim)}: {ANSWERS[ruling]}")


@pytest.mark.parametrize(
    ("text", "joint", "members"),
    [
        (f"{RTT}: load 0 B < {{10 kB, 30 kB, 60 kB}}", "holds", ["holds", "holds", "holds"]),
        (f"{RTT}: load 30 kB < {{10 kB, 60 kB}}", "refuted", ["refuted", "holds"]),
        (f"{RTT} <= 3 ms where load = {{0 B, 60 kB}}", "refuted", ["holds", "refuted"]),
        (
            f"{RTT}: switches 2 - 1 between 220 us and 260 us where load = {{0 B, 60 kB}}",
            "holds",
            ["holds"] * 2,
        ),
    ],
)
def test_a_list_of_levels_has_a_joint_verdict_and_one_per_member(
    text: str, joint: str, members: list[str]
) -> None:
    verdict = rule(text, STUDY)
    assert [member.ruling for member in verdict.members] == members
    assert verdict.ruling == joint, verdict.text
    for member in verdict.members:
        assert f"{member.ruling}: {member.claim.text}" in verdict.notes
        assert member.ruling == rule(member.claim.text, STUDY).ruling


def test_a_member_without_runs_leaves_the_joint_verdict_open() -> None:
    part = table_of({"load": ["0 B", "10 kB"]}, {RTT: line}, spread=3_000)
    verdict = rule(f"{RTT}: load 0 B < {{10 kB, 30 kB}}", part)
    assert [member.ruling for member in verdict.members] == ["holds", "undecided"]
    assert verdict.ruling == "undecided"
    assert "load 0 B < 30 kB" in verdict.text


def test_members_are_corrected_for_the_tests_of_all() -> None:
    table = table_of(SWITCHES, {RTT: line}, spread=300_000)
    text = f"{RTT} >= 1 ms where load = {{0 B, 10 kB}} and switches = 1"
    joint = rule(text, table)
    alone = [rule(member.claim.text, table) for member in joint.members]
    assert min(one.comparisons[0].p for one in alone) < min(one.p for one in joint.comparisons)


def test_a_curve_is_not_linear() -> None:
    table = table_of(
        LOADS, {RTT: lambda levels: 1e6 + (number(levels, "load") / 100) ** 2 * 10}, spread=2_000
    )
    assert rule(f"{RTT} is linear in load within 5 %", table).ruling == "refuted"


def test_a_dip_refutes_growth_even_when_the_end_is_higher() -> None:
    truth = {"0 B": 100.0, "10 kB": 60.0, "30 kB": 150.0, "60 kB": 200.0}
    table = table_of(LOADS, {RTT: lambda levels: truth[levels["load"]]})
    assert rule(f"{RTT} grows with load", table).ruling == "refuted"
    assert rule(f"{RTT}: load 10 kB < 0 B", table).ruling == "holds"


def test_a_flat_step_does_not_refute_growth_but_leaves_steady_growth_open() -> None:
    truth = {"0 B": 100.0, "10 kB": 150.0, "30 kB": 150.0, "60 kB": 200.0}
    table = table_of(LOADS, {RTT: lambda levels: truth[levels["load"]]})
    assert rule(f"{RTT} grows with load", table).ruling == "holds"
    assert rule(f"{RTT} steadily grows with load", table).ruling == "undecided"


def test_a_step_that_stays_exactly_level_does_not_refute_growth() -> None:
    truth = {"0 B": 100.0, "10 kB": 100.0, "30 kB": 150.0, "60 kB": 200.0}
    table = table_of(LOADS, {RTT: lambda levels: truth[levels["load"]]}, spread=0.0)
    assert rule(f"{RTT} grows with load", table).ruling == "holds"
    assert rule(f"{RTT} steadily grows with load", table).ruling == "refuted"
    turned = table_of(LOADS, {RTT: lambda levels: 300 - truth[levels["load"]]}, spread=0.0)
    assert rule(f"{RTT} falls with load", turned).ruling == "holds"
    assert rule(f"{RTT} grows with load", turned).ruling == "refuted"


STREAMS = {"streams": ["1", "3"], **LOADS}


def crossing(levels: Mapping[str, str]) -> float:
    """Three streams begin lower and end higher."""
    slope = 3e-3 if levels["streams"] == "3" else 1e-3
    return (60.0 if levels["streams"] == "3" else 100.0) + slope * number(levels, "load")


def test_a_crossing_holds_at_both_ends_and_not_turned_round() -> None:
    table = table_of(STREAMS, {RTT: crossing})
    assert rule(f"{RTT}: streams 3 < 1 at low load and > at high load", table).ruling == "holds"
    assert rule(f"{RTT}: streams 3 < 1 at load 10 kB and > at high load", table).ruling == "holds"
    assert rule(f"{RTT}: streams 1 < 3 at low load and > at high load", table).ruling == "refuted"
    assert rule(f"{RTT}: streams 3 < 1", table).ruling == "refuted"


def test_growth_is_compared_as_a_difference_of_differences() -> None:
    table = table_of(STREAMS, {RTT: crossing})
    assert rule(f"{RTT}: streams 3 > 1 in growth over load", table).ruling == "holds"
    assert rule(f"{RTT}: streams 1 > 3 in growth over load", table).ruling == "refuted"


def test_a_sum_is_added_run_by_run() -> None:
    """Goodput and lost rate vary together; their sum does not."""
    generator = np.random.default_rng(3)
    rows = []
    for point, load in enumerate(LOADS["load"]):
        for run in range(6):
            lost = number({"load": load}, "load") * 200 + float(generator.normal(0, 2e5))
            for metric, value in (("goodput", 95.2e6 - lost), ("lost_rate", lost)):
                rows.append(
                    RunValue(
                        f"p{point}-r{run}",
                        point,
                        {"load": load},
                        run,
                        "soft_switch",
                        "stream",
                        metric,
                        "mean",
                        value,
                        "bit/s",
                        1000,
                    )
                )
    table = RunTable(tuple(rows))
    assert (
        rule("stream.goodput.mean + stream.lost_rate.mean is constant over load within 1 %", table).ruling
        == "holds"
    )
    assert rule("stream.goodput.mean is constant over load within 1 %", table).ruling == "refuted"


def test_published_values_stand_beside_and_can_be_the_constant() -> None:
    reference = PublishedReference(
        "proxmox_switched_network.csv", "throughput", {"load_bytes": "0", "location": "Table 2"}
    )
    table = table_of({"load": ["0 B"]}, {"stream.goodput.mean": lambda levels: 95.3e6}, spread=1e4)
    verdict = rule("stream.goodput.mean within published +- 1 %", table, reference)
    assert verdict.ruling == "holds"
    assert "Published: 95.2 Mbit/s (proxmox-switched-network, Table 2)" in verdict.text
    assert verdict.comparison is not None
    assert verdict.comparison.required == pytest.approx((95.2e6 * 0.99, 95.2e6 * 1.01))


def test_published_values_say_in_what_they_differ() -> None:
    where = {"table": "Table 4", "platform": "KVM", "bridge": "Linux bridge"}
    reference = PublishedReference("ovs_scheduling.csv", "tcp_rr_round_trip_latency_mean", where)
    said = [str(value) for value in published_values(reference, PUBLISHED)]
    assert len(said) == 6
    assert {text.rpartition(", ")[2] for text in said} >= {"FIFO)", "SFQ)", "HTB)"}
    assert not any("Linux bridge" in text for text in said), "what is the same for all needs no words"
    one = PublishedReference("ovs_scheduling.csv", reference.metric, {**where, "qdisc": "FIFO"})
    assert [value.which for value in published_values(one, PUBLISHED)] == [""]


def test_an_order_is_judged_against_the_published_one() -> None:
    reference = PublishedReference(
        "proxmox_switched_network.csv", "throughput", {"location": "Table 2"}, "load_bytes"
    )
    factors = {"load": ["0 B", "30 kB", "65 kB"]}
    falling = table_of(
        factors, {"stream.goodput.mean": lambda levels: 95e6 - 200 * number(levels, "load")}, spread=1e4
    )
    rising = table_of(
        factors, {"stream.goodput.mean": lambda levels: 70e6 + 200 * number(levels, "load")}, spread=1e4
    )
    text = "stream.goodput.mean: load ordered as published"
    assert rule(text, falling, reference).ruling == "holds"
    assert rule(text, rising, reference).ruling == "refuted"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (
            PublishedReference("proxmox_switched_netwrk.csv", "throughput"),
            "did you mean 'proxmox_switched_network.csv'",
        ),
        (PublishedReference("proxmox_switched_network.csv", "thruput"), "did you mean 'throughput'"),
        (
            PublishedReference("proxmox_switched_network.csv", "throughput", {"load": "0"}),
            "'load' is not a column",
        ),
        (PublishedReference("proxmox_switched_network.csv", "throughput", {"load_bytes": "7"}), "no row"),
    ],
)
def test_a_wrong_published_reference_is_told_with_its_cure(reference: PublishedReference, words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        published_values(reference, PUBLISHED)


def test_too_wide_is_undecided_and_says_about_how_many_more_runs() -> None:
    table = table_of(
        {"vswitch": ["ovs", "linux_bridge"]},
        {RTT: lambda levels: 100.0 + (levels["vswitch"] == "ovs")},
        runs=5,
        spread=2.0,
    )
    verdict = rule(f"{RTT}: ovs > linux_bridge", table)
    assert verdict.ruling == "undecided"
    assert verdict.more_runs is not None
    assert verdict.more_runs > 5
    assert f"about {verdict.more_runs} more runs per design point would decide" in verdict.text
    assert exit_code([verdict]) == 4


@pytest.mark.slow
def test_the_runs_it_asks_for_mostly_decide() -> None:
    """80 % power by construction; 60 seeds, at least 60 % (below that with probability under 0.001)."""
    decided = asked = 0
    for seed in range(60):
        factors, truth = (
            {"vswitch": ["ovs", "linux_bridge"]},
            {RTT: lambda levels: 101.0 - (levels["vswitch"] == "ovs")},
        )
        first = rule(f"{RTT}: ovs < linux_bridge", table_of(factors, truth, runs=20, spread=1.7, seed=seed))
        if first.ruling != "undecided" or first.more_runs is None or first.more_runs > 400:
            continue
        asked += 1
        again = table_of(factors, truth, runs=20 + first.more_runs, spread=1.7, seed=1000 + seed)
        decided += rule(f"{RTT}: ovs < linux_bridge", again).ruling == "holds"
    assert asked >= 15
    assert decided / asked >= 0.6


def test_one_run_per_point_is_undecided_and_asks_for_a_second() -> None:
    verdict = rule(f"{RTT}: switches 1 < 2", table_of(SWITCHES, {RTT: line}, runs=1))
    assert verdict.ruling == "undecided"
    assert verdict.more_runs == 1
    assert "needs at least 2 runs" in verdict.text


def loss_table(ratio: float, packets: int, runs: int = 4) -> RunTable:
    return RunTable(
        tuple(
            RunValue(
                f"r{run}", 0, {"load": "0 B"}, run, "none", "probe", "loss", "ratio", ratio, "ratio", packets
            )
            for run in range(runs)
        )
    )


def test_runs_that_do_not_vary_are_taken_as_exact() -> None:
    table = table_of({"load": ["0 B", "10 kB"]}, {RTT: lambda levels: 7.0}, spread=0.0)
    assert rule(f"{RTT} <= 7 ns", table).ruling == "holds"
    assert rule(f"{RTT} < 7 ns", table).ruling == "refuted"
    assert rule(f"{RTT} > 6 ns", table).ruling == "holds"


def test_nothing_lost_among_few_packets_does_not_show_a_small_loss() -> None:
    """400 packets: at 0.1 % loss none is lost with probability 0.67; 3,688 packets would show it."""
    verdict = rule("probe.loss.ratio <= 0.1 %", loss_table(0.0, 100))
    assert verdict.ruling == "undecided"
    assert verdict.more_runs == 37 - 4
    assert verdict.estimate is not None
    assert verdict.estimate.high == pytest.approx(0.0092, abs=1e-4)
    assert rule("probe.loss.ratio <= 2 %", loss_table(0.0, 100)).ruling == "holds"
    assert rule("probe.loss.ratio <= 0.1 %", loss_table(0.0, 1000)).ruling == "holds"
    assert rule("probe.loss.ratio > 2 %", loss_table(0.0, 100)).ruling == "refuted"
    assert rule("probe.loss.ratio <= 0.1 %", loss_table(1.0, 100)).ruling == "refuted"


def test_no_values_is_undecided_with_the_reason() -> None:
    rows = tuple(
        RunValue(
            f"r{run}",
            0,
            {"load": "0 B"},
            run,
            "none",
            "load",
            "loss",
            "ratio",
            None,
            "ratio",
            0,
            "no load was asked for",
        )
        for run in range(3)
    )
    verdict = rule("load.loss.ratio <= 0.1 %", RunTable(rows))
    assert verdict.ruling == "undecided"
    assert verdict.comparison is None
    assert "no load was asked for" in verdict.text


def test_runs_over_different_link_realisations_are_never_pooled() -> None:
    """The same point by netem and by the soft switch, 10 % apart: each is judged by itself, and one of them
    fails."""

    def truth(levels: Mapping[str, str]) -> float:
        return 100.0

    table = table_of(
        {"load": ["0 B"]},
        {RTT: truth},
        runs=8,
        spread=0.1,
        realisation=lambda levels, run: "netem" if run % 2 else "soft_switch",
    )
    shifted = RunTable(
        tuple(
            RunValue(
                r.run,
                r.point,
                r.levels,
                r.repetition,
                r.realisation,
                r.role,
                r.metric,
                r.statistic,
                (r.value or 0.0) + (10.0 if r.realisation == "netem" else 0.0),
                r.unit,
                r.samples,
            )
            for r in table
        )
    )
    verdict = rule(f"{RTT} <= 105 ns", shifted)
    assert verdict.ruling == "refuted"
    assert [comparison.runs for comparison in verdict.comparisons] == [(4,), (4,)]
    assert {comparison.ruling for comparison in verdict.comparisons} == {"holds", "refuted"}
    assert any("several link realisations" in note for note in verdict.notes)


def test_a_comparison_across_realisations_says_so() -> None:
    table = table_of(
        {"switches": ["0", "1"]},
        {RTT: lambda levels: 100.0 + 10 * number(levels, "switches")},
        realisation=lambda levels, run: "none" if levels["switches"] == "0" else "soft_switch",
    )
    verdict = rule(f"{RTT}: switches 0 < 1", table)
    assert verdict.ruling == "holds"
    assert "compared across link realisations none, soft_switch" in verdict.notes


def test_several_comparisons_share_the_error_by_holm() -> None:
    """Five pairs; one whose own p is between 0.01 and 0.05 is not enough among four equal ones."""
    verdict = rule(
        f"{RTT}: switches 1 < 2",
        table_of(
            {"switches": ["1", "2"], "load": [f"{k} kB" for k in range(5)]},
            {RTT: lambda levels: 100.0},
            spread=1.0,
            seed=9,
        ),
    )
    assert len(verdict.comparisons) == 5
    assert verdict.ruling == "undecided"
    assert all(comparison.p == 1.0 or comparison.p >= 0.05 for comparison in verdict.comparisons)


def exactly(first: list[float], second: list[float], others: int = 0) -> RunTable:
    """Run values as given at two levels, and further pairs of levels whose values are all alike."""
    rows = []
    for load in range(1 + others):
        for switches, values in (("1", first), ("2", second)):
            for run, value in enumerate(values if load == 0 else [100.0, 101.0, 99.0]):
                levels = {"switches": switches, "load": f"{load} kB"}
                path = MetricPath.parse(RTT)
                index = 2 * load + int(switches)
                rows.append(
                    RunValue(
                        f"p{index}-r{run}", index, levels, run, "soft_switch", path.role, path.metric,
                        path.statistic, value, path.unit, 100,
                    )
                )  # fmt: skip
    return RunTable(tuple(rows))


@pytest.mark.parametrize(
    ("second", "others", "words"),
    [
        # it lies just outside 10 % by itself
        ([115.0, 118.5, 121.0], 4, "which does not refute it after correction for 5 comparisons"),
        # it lies just inside 10 % by itself
        ([103.5, 103.6, 103.7], 4, "which is not enough after correction for 5 comparisons"),
    ],
)
def test_an_interval_that_seems_to_decide_and_does_not_says_why(
    second: list[float], others: int, words: str
) -> None:
    verdict = rule(
        f"{RTT} is constant over switches within 10 %", exactly([97.5, 100.0, 102.5], second, others)
    )
    assert verdict.ruling == "undecided"
    assert words in verdict.text


def test_a_level_that_was_not_run_leaves_the_claim_undecided_with_the_cure() -> None:
    verdict = rule(f"{RTT}: switches 1 < 3", STUDY)
    assert verdict.ruling == "undecided"
    assert "'3' is not a level of switches" in verdict.text
    begun = RunTable(STUDY.rows, declared={"switches": ("1", "2", "3"), "load": tuple(LOADS["load"])})
    verdict = rule(f"{RTT}: switches 1 < 3", begun)
    assert (verdict.ruling, verdict.text) == (
        "undecided",
        f"{in_words(verdict.claim)}: undecided, no run has a value at switches 3.",
    )
    assert "'4' is not a level of switches" in rule(f"{RTT}: switches 1 < 4", begun).text


def test_effect_and_interval_go_with_every_verdict() -> None:
    verdict = rule(f"{RTT}: switches 2 - 1 within 244.16 us +- 10 % where load = 0 B", STUDY)
    assert verdict.estimate is not None
    assert verdict.estimate.low is not None
    assert verdict.estimate.high is not None
    assert verdict.estimate.low < 244_160 < verdict.estimate.high
    assert verdict.comparison is not None
    assert verdict.comparison.effect is not None
    assert verdict.comparison.effect > 10
    assert verdict.n == 12


def test_the_exit_code_is_the_worst_verdict() -> None:
    verdicts = [rule(f"{RTT} <= 10 ms", STUDY), rule(f"{RTT} <= 3 ms", STUDY)]
    assert exit_code(verdicts[:1]) == 0
    assert exit_code(verdicts) == 1


PLATFORMS_AND_J = {"vnic": ["virtio", "e1000"], "J": ["0.1", "0.5", "1.0"]}


def emulated_doubles(levels: Mapping[str, str]) -> float:
    """The second is at its worst where the load is least fair, the first where it is fairest, and still higher."""
    j = number(levels, "J")
    return 500.0 - 50.0 * j if levels["vnic"] == "virtio" else 100.0 + 100.0 * j


def test_each_is_compared_at_its_own_worst() -> None:
    table = table_of(PLATFORMS_AND_J, {"stream.packet_rate.mean": emulated_doubles})
    path = "stream.packet_rate.mean"
    found = rule(f"{path}: vnic virtio > e1000 at worst J", table)
    assert found.ruling == "holds"
    assert "vnic virtio (at J 1.0) - e1000 (at J 0.1)" in found.comparisons[0].label
    assert rule(f"{path}: vnic virtio < e1000 at worst J", table).ruling == "refuted"
    assert rule(f"{path}: vnic virtio > e1000 by 300 % at worst J", table).ruling == "holds"
    assert rule(f"{path}: vnic virtio > e1000 by 400 % at worst J", table).ruling == "refuted"


def test_the_worst_of_a_delay_is_the_longest() -> None:
    table = table_of(PLATFORMS_AND_J, {RTT: lambda levels: emulated_doubles(levels) - 250.0})
    assert rule(f"{RTT}: vnic virtio > e1000 at worst J", table).ruling == "holds"  # 245 and -50
    low = table_of(
        PLATFORMS_AND_J,
        {
            RTT: lambda levels: {"virtio": 100.0, "e1000": 90.0 + 20.0 * (levels["J"] == "0.5")}[
                levels["vnic"]
            ]
        },
    )
    assert (
        rule(f"{RTT}: vnic virtio < e1000 at worst J", low).ruling == "holds"
    )  # though shorter at two of three
    assert rule(f"{RTT}: vnic virtio > e1000 at worst J", low).ruling == "refuted"


@pytest.mark.slow
def test_of_equal_worsts_neither_is_shown_to_be_worse() -> None:
    rulings = [
        rule(
            "stream.packet_rate.mean: vnic virtio > e1000 at worst J",
            table_of(PLATFORMS_AND_J, {"stream.packet_rate.mean": lambda levels: 100.0}, seed=seed, runs=4),
        ).ruling
        for seed in range(200)
    ]
    assert rulings.count("holds") + rulings.count("refuted") <= 12  # 5 % of 200, both ways


def test_what_has_no_worse_direction_has_no_worst() -> None:
    claim = parse_claim("probe.rtt.mean / probe.rtt.min: vnic virtio > e1000 at worst J")
    (mistake,) = mistakes(claim, PLATFORMS_AND_J, {"probe": "rtt"})
    assert "which level of J is the worst is not known" in mistake.what
    (mistake,) = mistakes(
        parse_claim("probe.rtt.mean: vnic virtio > e1000 at worst K"), PLATFORMS_AND_J, {"probe": "rtt"}
    )
    assert "K" in mistake.what


@pytest.mark.parametrize(
    ("text", "ruling"),
    [
        (f"{RTT}: ovs < linux_bridge", "undecided"),
        (f"{RTT}: linux_bridge < ovs", "refuted"),  # it is the other way, however little
        (f"{RTT}: ovs < linux_bridge by 2 ns", "holds"),
        (f"{RTT}: ovs <= linux_bridge", "holds"),
        (f"{RTT}: ovs - linux_bridge < 0 ns", "undecided"),
        (f"{RTT} grows with load", "undecided"),
    ],
)
def test_an_order_without_a_margin_does_not_hold_on_three_nanoseconds_of_a_microsecond(
    text: str, ruling: str
) -> None:
    """Virtual time has no spread, so any difference is certain."""
    factors = {"vswitch": ["ovs", "linux_bridge"]}
    truth = {RTT: lambda levels: 1000.0 - 3.0 * (levels["vswitch"] == "ovs")}
    if "load" in text:
        factors = {"load": ["0 kB", "5 kB"]}
        truth = {RTT: lambda levels: 1000.0 + 3.0 * (levels["load"] == "5 kB")}
    verdict = rule(text, table_of(factors, truth, runs=3, spread=0.0))
    assert verdict.ruling == ruling
    assert any("too small to hold" in note for note in verdict.notes) == (ruling == "undecided")
    if ruling == "undecided":
        assert verdict.more_runs is None


def test_a_difference_of_two_values_counts_beside_the_larger_of_them() -> None:
    factors = {"load": ["0 kB"]}
    for apart, ruling in ((3.0, "undecided"), (6.0, "holds")):
        truth = {RTT: lambda _, more=apart: 1000.0 + more, PATH_RTT: lambda _: 1000.0}
        table = table_of(factors, truth, runs=3, spread=0.0)
        assert rule(f"{RTT} - {PATH_RTT} > 0 ns", table).ruling == ruling
