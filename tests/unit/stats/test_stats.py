"""Estimates carry what they rest on; what too few values cannot show is not estimable, and says so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.stats import (
    StoppingRule,
    bootstrap_interval,
    cliffs_delta,
    compare,
    contrast,
    hedges_g,
    holm,
    mean_interval,
    mser5,
    planned_sizes,
    quantile_interval,
    ratio_interval,
    samples_needed,
)
from virtlab.stats.proportions import count_needed, p_share_below
from virtlab.stats.quantiles import upper_rank

RUNS = np.random.default_rng(1).normal(100.0, 3.0, size=12)
OTHER = np.random.default_rng(2).normal(104.0, 6.0, size=9)


def test_no_values_give_no_estimate_and_one_gives_no_interval() -> None:
    assert mean_interval([]) is None
    assert bootstrap_interval([]) is None
    assert quantile_interval([], 0.5) is None
    assert compare([], [1.0]) is None
    one = mean_interval([5.0], metric="rtt", unit="ns")
    assert one is not None
    assert (one.point, one.low, one.high, one.n) == (5.0, None, None, 1)
    assert "interval not estimable: one run has no spread" in str(one)


def test_few_runs_are_not_bootstrapped() -> None:
    found = bootstrap_interval([1.0, 2.0, 3.0])
    assert found is not None
    assert found.low is None
    assert "the bootstrap needs 5" in found.why


@pytest.mark.parametrize(("quantile", "needed"), [(0.99, 299), (0.95, 59), (0.999, 2995), (0.5, 5)])
def test_an_upper_bound_needs_as_many_values_as_theory_says(quantile: float, needed: int) -> None:
    assert samples_needed(quantile) == needed
    assert upper_rank(needed - 1, quantile, 0.95) is None
    assert upper_rank(needed, quantile, 0.95) == needed


def test_one_end_of_a_quantile_may_be_estimable_and_the_other_not() -> None:
    found = quantile_interval(np.arange(100), 0.99)
    assert found is not None
    assert found.high is None
    assert found.low is not None
    assert "upper end needs 368" in found.why


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_at_least_the_raw_p_and_at_most_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for raw, found in zip(p_values, adjusted, strict=True):
        assert raw <= found <= min(1.0, len(p_values) * raw) + 1e-12
    order = np.argsort(p_values)
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()


def test_three_findings_different_equivalent_undecided() -> None:
    low, near, far = RUNS, RUNS + 0.01, RUNS + 20
    assert [compare(low, other, margin=5.0).finding for other in (near, far)] == ["equivalent", "different"]  # type: ignore[union-attr]
    assert compare(low, near).finding == "undecided"  # type: ignore[union-attr]


@pytest.mark.slow
def test_equivalence_is_exactly_the_interval_inside_the_margin() -> None:
    generator = np.random.default_rng(6)
    for _ in range(200):
        a, b = generator.normal(0, 1, 5), generator.normal(0.2, 1, 6)
        found = compare(a, b, margin=1.5)
        assert found is not None
        assert found.difference.low is not None
        assert found.difference.high is not None
        inside = found.difference.low > -1.5 and found.difference.high < 1.5
        assert inside == (found.finding == "equivalent")


def test_a_ratio_to_something_near_zero_is_unbounded_and_says_so() -> None:
    found = ratio_interval([1.0, 1.1, 0.9], [0.1, -0.2, 0.2])
    assert found is not None
    assert found.low is None
    assert "unbounded" in found.why
    assert ratio_interval([1.0], [0.0]) is None


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=8), st.lists(st.integers(0, 9), min_size=1, max_size=8)
)
def test_cliffs_delta_counts_pairs(first: list[int], second: list[int]) -> None:
    pairs = [(a > b) - (a < b) for a in first for b in second]
    assert cliffs_delta(first, second) == pytest.approx(sum(pairs) / len(pairs))


def test_hedges_g_needs_spread() -> None:
    assert hedges_g([1.0, 1.0], [2.0, 2.0]) is None
    assert hedges_g([1.0], [2.0, 3.0]) is None


def test_more_runs_shrink_with_the_distance() -> None:
    found = contrast([RUNS, OTHER], [1.0, -1.0])
    needed = [found.runs_to_decide(distance, alpha=0.025) for distance in (0.5, 1.0, 2.0)]
    assert all(more is not None for more in needed)
    assert needed == sorted(needed, reverse=True, key=lambda more: more or 0)  # type: ignore[arg-type]
    assert found.runs_to_decide(0.0, alpha=0.025) is None
    assert found.runs_to_decide(1e-6, alpha=0.025) is None


def test_a_share_needs_so_many_counted() -> None:
    needed = count_needed(0.0, 0.001, 0.025)
    assert needed is not None
    assert p_share_below(0, needed, 0.001) <= 0.025 < p_share_below(0, needed - 1, 0.001)
    assert count_needed(0.5, 0.5, 0.025) is None


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(0, 200))
def test_planned_sizes_rise_from_the_minimum_to_the_maximum(minimum: int, more: int) -> None:
    sizes = planned_sizes(minimum, minimum + more)
    assert sizes[0] == minimum
    assert sizes[-1] == minimum + more
    assert all(a < b for a, b in itertools.pairwise(sizes))
    assert len(sizes) <= 18


@pytest.mark.slow
def test_a_stopping_rule_looks_only_at_planned_sizes_and_says_why() -> None:
    rule = StoppingRule((4, 8, 12), relative=0.01)
    noisy = np.random.default_rng(8).normal(100, 20, 12)
    assert rule.look(noisy[:3]).why == "looks again at 4 runs"
    assert rule.look(noisy[:5]).estimate is None
    assert rule.look(noisy[:4]).next_size == 8
    assert rule.look(noisy).why == "all 12 planned runs are made"
    narrow = rule.look(np.array([100.0, 100.01, 99.99, 100.0]))
    assert narrow.stop
    assert narrow.estimate is not None
    assert narrow.estimate.level == 0.95


def test_a_rule_without_a_width_makes_all_runs_and_corrects_nothing() -> None:
    rule = StoppingRule((3, 6))
    assert not rule.look(RUNS[:3]).stop
    assert rule.interval(RUNS[:6]) == mean_interval(RUNS[:6])
    with pytest.raises(ValueError, match="must rise"):
        StoppingRule((5, 5))
    with pytest.raises(ValueError, match="not both"):
        StoppingRule((5,), relative=0.1, absolute=1.0)


def test_mser_finds_where_the_warm_up_ends() -> None:
    generator = np.random.default_rng(9)
    settled = generator.normal(10, 1, 1000)
    warming = 10 + 30 * np.exp(-np.arange(150) / 40) + generator.normal(0, 1, 150)
    cut = mser5(np.concatenate([warming, settled]))
    assert cut is not None
    assert 80 <= cut <= 250
    assert mser5(settled[:150]) is None


def test_runs_that_are_alike_have_no_spread_whatever_rounding_makes_of_their_mean() -> None:
    alike = [46927211.68 + 0.1 * step for step in range(40)]
    noisy = [value for value in alike if np.std([value] * 3, ddof=1) > 0]
    assert noisy, "of these some have a mean of three that is not the value"
    for value in noisy:
        found = mean_interval([value] * 3)
        assert found is not None
        assert found.low == found.high == pytest.approx(value, rel=1e-12)
        assert hedges_g([value] * 3, [2 * value] * 3) is None
    barely = mean_interval([1.0, 1.0 + 1e-9, 1.0])
    assert barely is not None
    assert barely.low is not None
    assert barely.low < barely.high
