"""Old against new: each finding, what is named, how many runs are asked for, and that they suffice."""

from __future__ import annotations

import numpy as np
import pytest

from virtlab.changes import Baseline, Margins, Measured, Quantity, differences
from virtlab.errors import ExperimentError

RTT = "probe.rtt.mean"


def quantity(
    *values: float, path: str = RTT, unit: str = "ns", better: str = "lower", goal: str = "", **levels: str
) -> Quantity:
    measured = [Measured(levels=levels, links="soft_switch", values=list(values))]
    return Quantity.model_validate(
        {"path": path, "unit": unit, "better": better, "goal": goal, "measured": measured}
    )


def baseline(*quantities: Quantity, name: str = "a", **more: object) -> Baseline:
    return Baseline.model_validate(
        {
            "schema": "virtlab.baseline/1", "name": name, "created": "2026-01-01T00:00:00Z", "backend": "testbed",
            "experiment_sha256": "0", "runs": 5, "facts": {"kernel": "6.1"}, "quantities": list(quantities),
        } | more
    )  # fmt: skip


def found(old: Quantity, new: Quantity, *margins: str) -> str:
    (row,) = differences(baseline(old), baseline(new), Margins.parse(margins)).rows
    return row.finding


BEFORE = (100.0, 101.0, 99.0, 100.5, 99.5)


def test_a_longer_delay_is_worse_and_a_shorter_one_better() -> None:
    after = [value * 1.2 for value in BEFORE]
    assert found(quantity(*BEFORE), quantity(*after)) == "worse"
    assert found(quantity(*after), quantity(*BEFORE)) == "better"


def test_more_goodput_is_better() -> None:
    path, unit, better = "stream.goodput.mean", "bit/s", "higher"
    old = quantity(*BEFORE, path=path, unit=unit, better=better)
    new = quantity(*(value * 1.2 for value in BEFORE), path=path, unit=unit, better=better)
    assert found(old, new) == "better"


def test_a_metric_without_a_better_direction_is_different() -> None:
    old, new = (quantity(*values, better="neither") for values in (BEFORE, [value + 50 for value in BEFORE]))
    assert found(old, new) == "different"


def test_a_clear_difference_within_the_margin_is_equivalent() -> None:
    after = [value + 3 for value in BEFORE]
    assert found(quantity(*BEFORE), quantity(*after)) == "equivalent"
    assert found(quantity(*BEFORE), quantity(*after), "1 %") == "worse"
    assert found(quantity(*BEFORE), quantity(*after), f"{RTT}=5 ns") == "equivalent"


def test_noise_is_undecided_and_says_how_many_more_runs() -> None:
    wide = (80.0, 120.0, 90.0, 110.0)
    (row,) = differences(
        baseline(quantity(*wide)), baseline(quantity(*reversed(wide), 101.0)), Margins()
    ).rows
    assert row.finding == "undecided"
    assert row.more_runs is not None
    assert row.more_runs > 10


def test_fewer_than_three_runs_are_undecided() -> None:
    changes = differences(baseline(quantity(*BEFORE)), baseline(quantity(500.0, 501.0)), Margins())
    assert (changes.rows[0].finding, changes.rows[0].why) == ("undecided", "2 runs, 3 are needed")
    assert changes.rows[0].more_runs == 1
    assert changes.exit_code == 4


def test_a_loss_of_zero_stays_equivalent() -> None:
    path, none = "probe.loss.ratio", (0.0, 0.0, 0.0)
    old = quantity(*none, path=path, unit="ratio")
    assert found(old, quantity(*none, path=path, unit="ratio")) == "equivalent"
    assert found(old, quantity(0.0, 0.001, 0.0, 0.0005, path=path, unit="ratio")) == "equivalent"
    assert found(old, quantity(0.1, 0.11, 0.09, path=path, unit="ratio")) == "worse"


def test_a_value_that_is_gone_is_undecided_and_a_quantity_that_is_gone_is_named() -> None:
    old = baseline(quantity(*BEFORE), quantity(*BEFORE, path="probe.rtt.p99"))
    changes = differences(old, baseline(quantity()), Margins())
    assert [row.why for row in changes.rows] == ["the new dataset has no value"] * 2
    assert "probe.rtt.p99 is in the old dataset only." in changes.notes
    assert changes.exit_code == 4


def test_settings_are_matched_by_levels_in_any_unit_and_the_rest_is_named() -> None:
    old = baseline(quantity(*BEFORE, load="30 kB", links="1"))
    new = quantity(*BEFORE, load="30000 B")
    further = Measured(levels={"load": "60 kB"}, links="soft_switch", values=[1.0])
    changes = differences(
        old, baseline(new.model_copy(update={"measured": [*new.measured, further]})), Margins()
    )
    assert [row.finding for row in changes.rows] == ["equivalent"]
    assert any("load 60 kB" in note and "new dataset only" in note for note in changes.notes)


def test_links_made_in_another_way_are_not_pooled() -> None:
    other = Measured(levels={}, links="netem", values=list(BEFORE))
    new = baseline(quantity(*BEFORE).model_copy(update={"measured": [other]}))
    changes = differences(baseline(quantity(*BEFORE)), new, Margins())
    assert [row.finding for row in changes.rows] == ["undecided"]


def test_machines_backends_files_units_and_goals_that_differ_are_named() -> None:
    old = baseline(quantity(*BEFORE), quantity(*BEFORE, path="a.ndr.ratio", goal="loss 0 %"))
    new = baseline(
        quantity(*BEFORE), quantity(*BEFORE, path="a.ndr.ratio", goal="loss 1 %"),
        backend="simulator", experiment_sha256="1", facts={"kernel": "6.2", "cpus": "4"},
    )  # fmt: skip
    notes = differences(old, new, Margins()).notes
    assert notes == (
        "The backend was testbed, now simulator.",
        "The experiment file differs; settings are matched by the levels that both have.",
        "The kernel was 6.1, now 6.2.",
        "The cpus was not recorded, now 4.",
        "a.ndr.ratio is not compared: its goal was loss 0 %, now loss 1 %.",
    )


def test_another_unit_is_not_compared() -> None:
    with pytest.raises(ExperimentError, match="its unit was ns, now bit/s"):
        differences(baseline(quantity(*BEFORE)), baseline(quantity(*BEFORE, unit="bit/s")), Margins())


def test_a_quantity_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(ExperimentError, match=r"did you mean 'probe.rtt.mean'"):
        differences(
            baseline(quantity(*BEFORE)), baseline(quantity(*BEFORE)), Margins(), paths=["probe.rtt.maen"]
        )


@pytest.mark.parametrize("text", ["5", "0 %", "5 us", "probe.rtt.mean=5 %%", "-1 %"])
def test_a_margin_that_is_wrong_is_one_error(text: str) -> None:
    with pytest.raises(ExperimentError, match="--margin"):
        differences(baseline(quantity(*BEFORE)), baseline(quantity(*BEFORE)), Margins.parse([text]))


def pair(
    generator: np.random.Generator, runs: int, quantities: int, shift: float
) -> tuple[Baseline, Baseline]:
    """Two datasets of several noisy quantities; of the new one, the first is larger by a share."""

    def one(number: int, share: float) -> Quantity:
        mean = 100.0 * (1 + share) if number == 0 else 100.0
        return quantity(*(mean + 2 * generator.standard_normal(runs)), path=f"r{number}.rtt.mean")

    def drawn(share: float) -> Baseline:
        return baseline(*(one(number, share) for number in range(quantities)))

    return drawn(0.0), drawn(shift)


@pytest.mark.slow
def test_equal_systems_raise_an_alarm_in_one_of_twenty_comparisons_at_most() -> None:
    """Eight quantities at once, 800 pairs: 5 % are 40; four standard deviations more are 65."""
    generator = np.random.default_rng(1)
    alarms = sum(differences(*pair(generator, 6, 8, 0.0), Margins()).exit_code == 1 for _ in range(800))
    assert alarms <= 65


@pytest.mark.slow
def test_the_runs_that_are_asked_for_find_five_percent_more_delay() -> None:
    """Pairs of four runs ask for more; with those, 5 % more is found in nine of ten."""
    generator = np.random.default_rng(2)
    seen = asked = 0
    for _ in range(200):
        (row, *_) = differences(*pair(generator, 4, 4, 0.05), Margins()).rows
        if row.finding != "undecided" or row.more_runs is None:
            continue
        asked += 1
        again = differences(*pair(generator, 4 + row.more_runs, 4, 0.05), Margins()).rows[0]
        seen += again.finding == "worse"
    assert asked >= 50
    assert seen >= 0.9 * asked
