"""Quantiles of a run's samples are numpy's, to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.analysis.values import statistics_of
from virtlab.metrics import STATISTICS

QUANTILES = [key for key, one in STATISTICS.items() if one.quantile is not None]


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(st.integers(-(2**53), 2**53), st.floats(-1e15, 1e15, allow_nan=False)),
        min_size=1,
        max_size=60,
    ),
    st.booleans(),
    st.integers(1, 40),
)
def test_quantiles_are_those_of_numpy(values: list[float], whole: bool, repeats: int) -> None:
    samples = np.tile(np.array(values, dtype=np.int64 if whole else np.float64), repeats)
    for key, found in statistics_of(samples, QUANTILES).items():
        quantile = STATISTICS[key].quantile
        assert quantile is not None
        if samples.size < STATISTICS[key].least_samples:
            assert found is None
        else:
            assert found == float(np.quantile(samples, quantile))


def test_a_sample_that_is_no_number_has_no_quantiles() -> None:
    found = statistics_of(np.array([1.0, math.nan, 3.0]), ["median"])
    assert found["median"] is not None
    assert math.isnan(found["median"])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_samples_have_a_median(size: int) -> None:
    samples = np.arange(size, dtype=np.int32) * 7
    assert statistics_of(samples, ["median"])["median"] == float(np.median(samples))
