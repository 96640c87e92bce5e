"""Factors span design points; references stand for levels anywhere in the file."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment, load_text
from virtlab.experiment.overrides import at_level, find_input

BASE = """
version: 1
name: base
hosts: 2
topology: {shape: line, switches: "${switches}"}
factors:
  switches: [1, 2]
  load: {from: 0 B, to: 20 kB, step: 10 kB}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1}
  load: {workload: burst_load, from: h1.g1, to: h2.g1, burst: "${load}"}
"""


def levels(experiment: Experiment) -> list[tuple[str, ...]]:
    return [tuple(point.levels.values()) for point in experiment.points()]


def test_the_first_factor_changes_slowest() -> None:
    assert levels(load_text(BASE)) == [
        ("1", "0 kB"), ("1", "10 kB"), ("1", "20 kB"), ("2", "0 kB"), ("2", "10 kB"), ("2", "20 kB"),
    ]  # fmt: skip


def test_exclusions_leave_combinations_out() -> None:
    assert levels(load_text(BASE + "exclude: [{switches: 1, load: [10 kB, 20 kB]}, {load: 0 kB}]\n")) == [
        ("2", "10 kB"), ("2", "20 kB"),
    ]  # fmt: skip


def test_a_level_of_several_values_sets_them_all() -> None:
    text = BASE.replace(
        "switches: [1, 2]", "switches: {few: {n: 1, rate: 10 Mbit/s}, many: {n: 3, rate: 1 Gbit/s}}"
    )
    text = text.replace("${switches}", "${switches.n}") + 'link: {rate: "${switches.rate}"}\n'
    experiment = load_text(text)
    studies = [experiment.study(point) for point in experiment.points()]
    assert [len(study.wiring.switches) for study in studies] == [1, 1, 1, 3, 3, 3]
    assert {cable.spec.rate for cable in studies[0].wiring.cables.values()} == {10_000_000}
    assert {cable.spec.rate for cable in studies[5].wiring.cables.values()} == {1_000_000_000}
    assert levels(experiment)[0] == ("few", "0 kB")


def test_a_reference_inside_text_is_inserted() -> None:
    text = BASE.replace("to: h2.g1}", 'to: h2.g1, interval: "${switches}0 ms"}', 1)
    experiment = load_text(text)
    intervals = {
        experiment.study(point).roles["probe"].parameters["interval_ns"] for point in experiment.points()
    }
    assert intervals == {10_000_000, 20_000_000}


def test_a_whole_section_can_be_a_level() -> None:
    text = BASE.replace("switches: [1, 2]", "switches: {a: none, b: {shape: star, switches: 4}}")
    experiment = load_text(
        text.replace('topology: {shape: line, switches: "${switches}"}', "topology: ${switches}")
    )
    assert [len(experiment.study(point).wiring.switches) for point in experiment.points()] == [
        0,
        0,
        0,
        4,
        4,
        4,
    ]


def test_no_load_makes_the_role_inactive() -> None:
    experiment = load_text(BASE)
    assert [experiment.study(point).roles["load"].active for point in experiment.points()][:3] == [
        False,
        True,
        True,
    ]


@pytest.mark.slow
def test_a_role_can_be_switched_off_by_a_factor() -> None:
    text = BASE.replace('burst: "${load}"', 'burst: "${load}", enabled: "${extra}"').replace(
        "factors:", "factors:\n  extra: [false, true]"
    )
    experiment = load_text(text)
    active = {
        point.levels["extra"] for point in experiment.points() if experiment.study(point).roles["load"].active
    }
    assert active == {"true"}


@pytest.mark.slow
@given(
    begin=st.integers(0, 1000),
    step=st.integers(1, 50),
    count=st.integers(1, 30),
    unit=st.sampled_from(["kB", "B", "KiB"]),
)
def test_a_range_holds_both_ends_and_equal_steps(begin: int, step: int, count: int, unit: str) -> None:
    end = begin + (count - 1) * step
    text = BASE.replace(
        "{from: 0 B, to: 20 kB, step: 10 kB}",
        f"{{from: {begin} {unit}, to: {end} {unit}, step: {step} {unit}}}",
    )
    text = (
        text.replace("${load}", "1 kB").replace("to: h2.g1}", "to: h2.g1, timeout: 1 s}", 1)
        + "collect: {counters: ['${load}']}\n"
    )
    expected = tuple(f"{begin + n * step} {unit}" for n in range(count))
    assert load_text(text).factors["load"] == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{from: 0.5 ms, to: 2 ms, step: 500 us}", ("500 us", "1000 us", "1500 us", "2000 us")),
        (
            "{from: 1 Mbit/s, to: 0.002 Gbit/s, step: 500 kbit/s}",
            ("1000 kbit/s", "1500 kbit/s", "2000 kbit/s"),
        ),
        ("{from: 64 B frame, to: 128 B frame, step: 64 B frame}", ("64 B frame", "128 B frame")),
        ("{from: 1, to: 2, step: 0.25}", ("1", "1.25", "1.5", "1.75", "2")),
    ],
)
def test_a_range_speaks_the_unit_of_its_step(written: str, expected: tuple[str, ...]) -> None:
    text = BASE.replace("{from: 0 B, to: 20 kB, step: 10 kB}", written).replace("${load}", "1 kB")
    assert load_text(text + "collect: {counters: ['x ${load}']}\n").factors["load"] == expected


def test_a_plain_dollar_brace_is_written_doubled() -> None:
    experiment = load_text(BASE + "collect: {counters: ['$${load} is ${load}']}\n")
    assert experiment.study(experiment.points()[1]).collect.counters == ["${load} is 10 kB"]


@pytest.mark.slow
def test_a_level_that_is_nothing_leaves_its_key_out() -> None:
    """Its parameter has its default then; the same file with that default written is the same study."""
    text = BASE.replace("factors:", "factors:\n  spaced: {usual: {gap: null}, wide: {gap: 40 ms}}").replace(
        "to: h2.g1}", 'to: h2.g1, interval: "${spaced.gap}"}', 1
    )
    experiment = load_text(text)
    found = {
        str(point.levels["spaced"]): experiment.study(point).roles["probe"].parameters["interval_ns"]
        for point in experiment.points()
    }
    plain = load_text(BASE)
    usual = plain.study(plain.points()[0]).roles["probe"].parameters["interval_ns"]
    assert found == {"usual": usual, "wide": 40_000_000}


def test_a_level_that_is_nothing_cannot_stand_inside_text() -> None:
    text = BASE.replace("factors:", "factors:\n  spaced: {usual: {gap: null}, wide: {gap: 40}}").replace(
        "to: h2.g1}", 'to: h2.g1, interval: "${spaced.gap} ms"}', 1
    )
    with pytest.raises(ExperimentError, match="level 'usual' of 'spaced' is nothing"):
        load_text(text)


def test_nothing_that_is_written_where_it_is_used_is_still_a_mistake() -> None:
    with pytest.raises(ExperimentError, match="interval"):
        load_text(BASE.replace("to: h2.g1}", "to: h2.g1, interval: null}", 1))


TWO = BASE.replace(
    "switches: [1, 2]",
    "pace: {slow: {gap: {one: 80 ms, two: null}}, fast: {gap: {one: 20 ms, two: 7 ms}}}\n  which: [one, two]",
)
TWO = TWO.replace('"${switches}"', "1").replace("to: h2.g1}", 'to: h2.g1, interval: "${pace.gap[which]}"}', 1)


def gaps(experiment: Experiment) -> dict[tuple[str, str], int]:
    return {
        (point.levels["pace"], point.levels["which"]): experiment.study(point)
        .roles["probe"]
        .parameters["interval_ns"]
        for point in experiment.points()
    }


@pytest.mark.slow
def test_a_value_may_depend_on_two_factors_and_be_nothing_at_one_combination() -> None:
    usual = load_text(BASE)
    unsaid = usual.study(next(iter(usual.points()))).roles["probe"].parameters["interval_ns"]
    found = gaps(load_text(TWO))
    assert found == {
        ("slow", "one"): 80_000_000, ("slow", "two"): unsaid,
        ("fast", "one"): 20_000_000, ("fast", "two"): 7_000_000,
    }  # fmt: skip
    inside = TWO.replace("two: null", "two: 9 ms").replace("${pace.gap[which]}", "1${ pace.gap [ which ] }")
    assert gaps(load_text(inside))["slow", "two"] == 19_000_000


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("${pace.gap[wich]}", "there is no factor 'wich'; did you mean 'which'?"),
        (
            "${pace.gap[load]}",
            "level 'slow' of 'pace' has no key 'gap.0 kB'; give it that key; its keys: one, two",
        ),
        ("${pace[which]}", "level 'slow' of 'pace' has no key 'one'; give it that key; its keys: gap"),
        ("1${pace.gap[which]}", "level 'slow' of 'pace' is nothing, which cannot stand inside text"),
    ],
)
def test_what_another_factor_names_is_checked_at_all_its_levels(written: str, told: str) -> None:
    text = TWO.replace("${pace.gap[which]}", written)
    with pytest.raises(ExperimentError) as error:
        load_text(text)
    assert told in str(error.value)


@pytest.mark.slow
def test_a_factor_that_only_chooses_a_key_is_used() -> None:
    with pytest.raises(ExperimentError, match="nothing uses the factor 'which'"):
        load_text(TWO.replace("${pace.gap[which]}", "${pace.gap.one}"))
    assert len(list(load_text(TWO).points())) == 12


@pytest.mark.slow
def test_one_level_of_a_factor_that_another_chooses_is_predicted_alone() -> None:
    experiment = load_text(TWO)
    alone = at_level({find_input(experiment, "which"): "two"})
    assert {which for _, which in gaps(alone)} == {"two"}
    assert gaps(alone)["fast", "two"] == 7_000_000


@pytest.mark.slow
def test_levels_of_several_factors_are_not_all_combined_where_a_key_is_missing() -> None:
    many = ", ".join(f"l{number}" for number in range(3000))
    text = TWO.replace("factors:", f"factors:\n  these: [{many}]\n  those: [{many}]", 1)
    text = text.replace("${pace.gap[which]}", "${pace.gap[these][those]}")
    with pytest.raises(ExperimentError) as error:
        load_text(text)
    assert (
        sum("has no key 'gap.l0'" in line for line in error.value.lines()) == 2
    )  # one for each level of `pace`


@pytest.mark.slow
def test_a_reference_that_is_repeated_is_checked_once() -> None:
    keys = ", ".join(f"k{number}: 1" for number in range(150))
    levels = ", ".join(f"l{number}: *keys" for number in range(1, 150))
    names = ", ".join(f"k{number}" for number in range(150))
    factors = f"factors:\n  f: {{l0: &keys {{{keys}}}, {levels}}}\n  k: [{names}]"
    text = TWO.replace("factors:", factors, 1).replace('"${pace.gap[which]}"', '"' + "${f[k]}" * 20_000 + '"')
    before = time.process_time()
    with pytest.raises(ExperimentError):
        load_text(text)
    assert time.process_time() - before < 20  # each of them alone takes 20 ms


def test_a_factor_that_names_a_key_of_its_own_level_has_one_level_in_both_places() -> None:
    text = TWO.replace(
        "pace: {slow: {gap: {one: 80 ms, two: null}}, fast: {gap: {one: 20 ms, two: 7 ms}}}\n  which: [one, two]",
        "pace: {slow: {slow: 80 ms}, fast: {fast: 20 ms}}",
    )
    assert text != TWO
    experiment = load_text(text.replace("${pace.gap[which]}", "${pace[pace]}"))
    intervals = [
        experiment.study(point).roles["probe"].parameters["interval_ns"] for point in experiment.points()
    ]
    assert set(intervals) == {80_000_000, 20_000_000}
