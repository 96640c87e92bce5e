"""Steps in a series: found where they are, and seldom where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from virtlab.changes import steps_of


@pytest.mark.slow
def test_a_step_is_found_at_the_value_where_it_begins() -> None:
    generator = np.random.default_rng(3)
    values = [*(10 + 0.1 * generator.standard_normal(7)), *(11 + 0.1 * generator.standard_normal(5))]
    (step,) = steps_of(values)
    assert step.at == 7
    assert step.before == pytest.approx(10, abs=0.2)
    assert step.after == pytest.approx(11, abs=0.2)


@pytest.mark.slow
def test_two_steps_are_found_both() -> None:
    generator = np.random.default_rng(4)
    values = np.repeat([10.0, 12.0, 9.0], 8) + 0.1 * generator.standard_normal(24)
    assert [step.at for step in steps_of(list(values))] == [8, 16]


@pytest.mark.slow
def test_equal_values_have_no_step() -> None:
    assert steps_of([5.0] * 12) == []


def test_a_series_that_is_too_short_has_none() -> None:
    assert steps_of([1.0, 1.0, 9.0, 9.0]) == []


@pytest.mark.slow
def test_a_step_is_seen_by_chance_in_one_of_twenty_series() -> None:
    """2000 series of equal normal values: 5 % are 100, four standard deviations about it 39."""
    generator = np.random.default_rng(5)
    for length in (5, 12, 30):
        false = sum(bool(steps_of(list(generator.standard_normal(length)))) for _ in range(2000))
        assert abs(false - 100) <= 39, length
