"""Estimates are those that SciPy gives for the same numbers. It takes a second to import, which one process pays."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.stats import bootstrap_interval, compare, mean_interval, proportion_interval, quantile_interval
from virtlab.stats.proportions import p_share_above, p_share_below

RUNS = np.random.default_rng(1).normal(100.0, 3.0, size=12)
OTHER = np.random.default_rng(2).normal(104.0, 6.0, size=9)


@pytest.fixture(scope="module")
def peer() -> ModuleType:
    from scipy import stats

    return stats


@pytest.mark.slow
def test_the_t_interval_is_scipys(peer: ModuleType) -> None:
    found = mean_interval(RUNS)
    assert found is not None
    expected = peer.ttest_1samp(RUNS, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.slow
def test_welchs_test_is_scipys(peer: ModuleType) -> None:
    found = compare(RUNS, OTHER)
    assert found is not None
    expected = peer.ttest_ind(RUNS, OTHER, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.difference.low, found.difference.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.slow
def test_the_bca_interval_is_near_scipys_and_repeats_with_its_seed(peer: ModuleType) -> None:
    values = np.random.default_rng(3).gamma(2.0, 1.0, 40)
    ours = bootstrap_interval(values, seed=7, resamples=20_000)
    again = bootstrap_interval(values, seed=7, resamples=20_000)
    expected = peer.bootstrap((values,), np.mean, n_resamples=20_000, method="BCa", rng=1).confidence_interval
    assert ours == again
    assert ours is not None
    assert ours.low == pytest.approx(expected.low, rel=0.02)
    assert ours.high == pytest.approx(expected.high, rel=0.02)


@pytest.mark.slow
@given(st.integers(2, 400), st.sampled_from([0.1, 0.5, 0.9, 0.95, 0.99]))
def test_order_statistics_hold_the_stated_level_exactly(peer: ModuleType, n: int, quantile: float) -> None:
    """Of ranks 0..n-1 as values: P(low <= q-quantile <= high) from the binomial is at least 95 %."""
    found = quantile_interval(np.arange(n), quantile)
    assert found is not None
    low = (
        0 if found.low is None else int(found.low) + 1
    )  # rank from 1; at least so many lie below the quantile
    high = n + 1 if found.high is None else int(found.high) + 1
    covered = peer.binom.cdf(high - 1, n, quantile) - peer.binom.cdf(low - 1, n, quantile)
    assert covered >= 0.95 - 1e-12


@pytest.mark.slow
def test_clopper_pearson_is_scipys(peer: ModuleType) -> None:
    for hits, count in ((0, 30), (3, 40), (40, 40)):
        found = proportion_interval(hits, count)
        expected = peer.binomtest(hits, count).proportion_ci(0.95, "exact")
        assert found is not None
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
        assert p_share_below(hits, count, 0.2) == pytest.approx(
            peer.binomtest(hits, count, 0.2, "less").pvalue
        )
        assert p_share_above(hits, count, 0.2) == pytest.approx(
            peer.binomtest(hits, count, 0.2, "greater").pvalue
        )
