"""The load split: the published numbers, and what must hold for every split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fairness import fairness

from virtlab.catalogue.split import combined_latency_ns, shares

PUBLISHED = (0.0850, 0.1701, 0.2551, 0.3401, 0.4251, 0.5101)  # N = 12, q = 0.01, k = 1..6


def test_the_published_indices_of_twelve_guests() -> None:
    """To one unit of the last printed digit: the source has .1701 where the formula gives .17005."""
    for k, expected in enumerate(PUBLISHED, 1):
        assert fairness(12, k, 0.01) == pytest.approx(expected, abs=1e-4)
    assert fairness(12, 11, 0.01) == pytest.approx(0.9342, abs=5e-5)
    assert fairness(12, 12, 0.01) == 1.0


splits = st.integers(1, 64).flatmap(
    lambda guests: st.tuples(st.just(guests), st.integers(1, guests), st.floats(0.0, 0.5))
)


@pytest.mark.slow
@given(splits)
def test_shares_make_a_whole_and_their_jain_index_is_the_closed_form(split: tuple[int, int, float]) -> None:
    guests, strong, weak = split
    parts = shares(guests, strong, weak)
    assert len(parts) == guests
    assert sum(parts) == pytest.approx(1.0)
    jain = sum(parts) ** 2 / (guests * sum(part * part for part in parts))
    assert fairness(guests, strong, weak) == pytest.approx(jain)
    assert 1 / guests - 1e-9 <= fairness(guests, strong, weak) <= 1 + 1e-9


def test_combined_latency_weighs_the_groups_and_is_the_plain_mean_of_all_strong() -> None:
    assert combined_latency_ns([100.0, 300.0], [1000.0], 0.01) == pytest.approx(0.01 * 200 + 0.99 * 1000)
    assert combined_latency_ns([], [100.0, 300.0], 0.01) == 200.0
    with pytest.raises(ValueError, match="no strong guest"):
        combined_latency_ns([1.0], [], 0.01)


@pytest.mark.parametrize(
    ("guests", "strong", "weak"), [(0, 1, 0.1), (3, 0, 0.1), (3, 4, 0.1), (3, 1, 1.0), (3, 1, -0.1)]
)
def test_an_impossible_split_is_refused(guests: int, strong: int, weak: float) -> None:
    with pytest.raises(ValueError, match=r"write|name"):
        shares(guests, strong, weak)
