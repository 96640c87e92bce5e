"""Figures of two clones beside each other: ratios of pairs, and what only one of them has."""

from __future__ import annotations

from tools.pairs import by_name, compared


def test_sizes_of_one_figure_are_told_apart_by_their_place() -> None:
    found = [
        {"name": "star", "value": 1, "hosts": 32},
        {"name": "star", "value": None},
        {"name": "star", "value": 3},
    ]
    assert {name: each["value"] for name, each in by_name(found).items()} == {"star": 1, "star (3)": 3}


def test_a_ratio_is_the_median_of_pairs_and_its_interval_needs_six() -> None:
    def told(old: float, new: float) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, object]]]:
        return {"a": {"value": old, "unit": "s"}}, {"a": {"value": new, "unit": "s", "goal": "<= 1"}}

    # The machine is twice as slow in every other round: medians of either side alone would hide what changed.
    rounds = [told(1.0 + number % 2, 1.1 * (1.0 + number % 2)) for number in range(6)]
    [line] = compared("one", rounds)
    assert (line["name"], line["unit"], line["goal"], line["rounds"]) == ("a", "s", "<= 1", 6)
    assert abs(line["ratio"] - 1.1) < 1e-9
    assert line["low"] <= line["ratio"] <= line["high"]
    [few] = compared("one", rounds[:5])
    assert (few["low"], few["high"]) == (None, None)


def test_figures_that_one_of_them_lacks_are_named_and_zeros_have_no_ratio() -> None:
    old = {"zero": {"value": 0.0}, "gone": {"value": 1.0}}
    new = {"zero": {"value": 3.0}, "added": {"value": 1.0}}
    lines = compared("one", [(old, new)])
    assert lines[0] | {"unit": None, "goal": None} == {
        "bench": "one", "name": "zero", "unit": None, "goal": None, "old": 0.0, "new": 3.0,
        "ratio": None, "low": None, "high": None, "rounds": 1,
    }  # fmt: skip
    assert lines[1:] == [{"bench": "one", "only_old": ["gone"]}, {"bench": "one", "only_new": ["added"]}]
