"""A fit gives back the costs that made the data, and names those that the data cannot tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from virtlab.prediction.calibration.fit import fit

NAMES = ("send", "crossing", "byte")
COSTS = np.array([5200.0, 900.0, 0.35])


def rows(count: int) -> np.ndarray:
    drawn = np.random.default_rng(3)
    crossings = drawn.integers(2, 9, count)
    return np.column_stack(
        [drawn.integers(0, 2, count), crossings, crossings * drawn.integers(64, 1500, count)]
    )


def test_known_costs_come_back_exactly_without_noise() -> None:
    design = rows(30)
    found = fit(NAMES, design, design @ COSTS)
    assert [one.value for one in found.costs] == pytest.approx(list(COSTS), rel=1e-6)
    assert all(one.identified for one in found.costs)
    assert found.rank == 3


@pytest.mark.slow
def test_a_tenth_of_wild_rows_does_not_move_the_costs_and_the_intervals_hold_them() -> None:
    design = rows(120)
    noise = np.random.default_rng(5).normal(0, 100, 120)
    noise[::10] += 1e6
    found = fit(NAMES, design, design @ COSTS + noise)
    assert [one.value for one in found.costs] == pytest.approx(list(COSTS), rel=0.1)
    assert all(one.low <= one.value <= one.high for one in found.costs)


def test_costs_that_always_come_together_are_named_and_their_sum_is_right() -> None:
    design = rows(40)
    doubled = np.column_stack([design, design[:, 0], np.zeros(40)])
    found = fit((*NAMES, "wakeup", "never"), doubled, design @ COSTS)
    by_name = {one.name: one for one in found.costs}
    assert by_name["send"].together == ("wakeup",)
    assert by_name["wakeup"].together == ("send",)
    assert not by_name["send"].identified
    assert by_name["crossing"].identified
    assert not by_name["never"].seen
    assert by_name["send"].value + by_name["wakeup"].value == pytest.approx(5200.0, rel=1e-6)


@pytest.mark.slow
def test_no_cost_is_ever_negative() -> None:
    design = rows(30)
    found = fit(NAMES, design, design @ np.array([-4000.0, 900.0, 0.35]))
    assert min(one.value for one in found.costs) >= 0


def test_a_design_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="3 costs"):
        fit(NAMES, np.zeros((2, 2)), np.zeros(2))


@pytest.mark.slow
def test_resamples_move_costs_that_come_together_and_keep_what_is_known_of_them() -> None:
    design = rows(60)
    noise = np.random.default_rng(7).normal(0, 200, 60)
    doubled = np.column_stack([design, design[:, 0]])
    found = fit((*NAMES, "wakeup"), doubled, design @ COSTS + noise)
    draws = np.array(found.draws)
    assert draws.shape == (40, 4)
    assert (draws >= 0).all()
    sums = draws[:, 0] + draws[:, 3]
    assert abs(float(sums.mean()) - 5200) < 5 * float(sums.std()) < 1500
    again = fit((*NAMES, "wakeup"), doubled, design @ COSTS + noise)
    assert again.draws == found.draws
