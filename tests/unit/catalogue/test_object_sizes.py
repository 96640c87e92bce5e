"""Distributions of sizes: cut into parts of equal probability, whose means are those of the distribution."""

from __future__ import annotations

from collections.abc import Iterator
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.catalogue.object_sizes import OBJECT_SIZES, PARTS, exponential, lognormal, uniform

FINE = 2000  # points of a part
MEAN = 10_000.0


def means(quantiles: np.ndarray) -> np.ndarray:
    """Of each part, the mean of so many of its quantiles."""
    return quantiles.reshape(PARTS, FINE).mean(axis=1)


def levels() -> np.ndarray:
    return (np.arange(PARTS * FINE) + 0.5) / (PARTS * FINE)


def normal(at: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    return np.asarray(ndtri(at))


@pytest.mark.parametrize(
    ("parts", "quantiles"),
    [
        (uniform(1000, 9000), 1000 + 8000 * levels()),
        (exponential(MEAN), -MEAN * np.log1p(-levels())),
        *(
            (
                lognormal(MEAN, variation),
                MEAN * np.exp(sqrt(log(1 + variation**2)) * normal(levels()) - log(1 + variation**2) / 2),
            )
            for variation in (0.3, 1.0, 2.0)
        ),
    ],
)
def test_each_part_is_the_mean_of_its_quantiles(parts: Iterator[float], quantiles: np.ndarray) -> None:
    assert list(parts) == pytest.approx(means(quantiles), rel=2e-3)


@given(st.floats(0.01, 3), st.integers(1000, 10_000_000))
def test_the_mean_is_the_stated_one_and_sizes_rise(variation: float, mean: int) -> None:
    for parts in (list(exponential(mean)), list(lognormal(mean, variation))):
        assert sum(parts) / PARTS == pytest.approx(mean, rel=1e-9)
        assert parts == sorted(parts)
        assert parts[0] >= 0


@pytest.mark.parametrize(
    "value",
    [
        {"uniform": ["1 kB", "20 kB"]},
        {"exponential": "10 kB"},
        {"lognormal": {"mean": "10 kB", "variation": "200 %"}},
    ],
)
def test_a_distribution_is_sizes_with_shares(value: dict[str, object]) -> None:
    name, sizes = OBJECT_SIZES.parse(value)
    assert name == "object_sizes"
    assert sum(share for _, share in sizes) == PARTS
    assert all(isinstance(size, int) for size, _ in sizes)
    mean = 10_500 if "uniform" in value else 10_000
    assert sum(size * share for size, share in sizes) / PARTS == pytest.approx(mean, rel=1e-3)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"uniform": ["20 kB", "1 kB"]}, "'20 kB' is not less than '1 kB'"),
        ({"uniform": ["1 kB"]}, "is not a range"),
        ({"lognormal": "3 kB"}, "'3 kB' has not both"),
        ({"exponential": "0 B"}, "must be more than zero"),
        ({"pareto": "3 kB"}, "or a distribution: uniform, exponential, lognormal"),
    ],
)
def test_what_is_no_distribution_is_told(value: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        OBJECT_SIZES.parse(value)
