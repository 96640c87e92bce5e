"""Intervals of a mean over independent runs: Student's t, and BCa bootstrap for any statistic.

The array functions take experiments as leading axes and runs as the last one, so that their coverage can be
tested over thousands of experiments at once. They know neither runs nor metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from virtlab.lazy import ArrayLike, NDArray, np, special
from virtlab.stats.estimate import Estimate

TOO_FEW = "one run has no spread; an interval needs at least 2"
BCA_LEAST = 5
RESAMPLES = 4000


def t_quantile(level: float, degrees: Any) -> Any:
    """The two-sided Student quantile of a level, for one or an array of degrees of freedom.

    >>> round(float(t_quantile(0.95, 9)), 4)
    2.2622
    """
    return special.stdtrit(degrees, 0.5 + level / 2)


def t_bounds(values: NDArray[Any], level: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """(low, high) of the mean along the last axis, of at least 2 values.

    Source: Student 1908; mean +- t(n - 1) s / sqrt(n). A spread below the rounding error of the mean counts as zero.
    """
    n = values.shape[-1]
    mean = values.mean(axis=-1)
    spread = values.std(axis=-1, ddof=1)
    spread = np.where(spread < 1e-12 * np.abs(mean), 0.0, spread)
    half = t_quantile(level, n - 1) * spread / np.sqrt(n)
    return mean - half, mean + half


def mean_interval(
    values: ArrayLike, *, level: float = 0.95, metric: str = "", unit: str = ""
) -> Estimate | None:
    """The mean over runs with its t interval; None without values, ends None with one.

    >>> mean_interval([1.0, 2.0, 3.0]).low
    -0.48413771175033027
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        return None
    point = float(array.mean())
    if array.size == 1:
        return Estimate(metric, unit, point, None, None, level, 1, "t", TOO_FEW)
    low, high = t_bounds(array, level)
    return Estimate(metric, unit, point, float(low), float(high), level, int(array.size), "t")


def bca_bounds(
    values: NDArray[Any],
    level: float,
    statistic: Callable[..., Any],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """(low, high) of a statistic of one sample by the bias-corrected and accelerated bootstrap.

    `statistic(array, axis=-1)` reduces the last axis. Source: Efron 1987; Efron and Tibshirani 1993, section
    14.3: bias z0 from the share of resamples below the point (ties count half), acceleration from the
    jackknife.
    """
    n = values.shape[-1]
    generator = np.random.default_rng(seed)
    drawn = statistic(values[generator.integers(0, n, size=(resamples, n))], axis=-1)
    left_out = np.broadcast_to(values, (n, n))[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    return accelerated_bounds(drawn, float(statistic(values, axis=-1)), [statistic(left_out, axis=-1)], level)


def accelerated_bounds(
    drawn: NDArray[Any], point: float, left_out: list[NDArray[Any]], level: float
) -> tuple[float, float]:
    """BCa ends from bootstrap draws, the point, and the jackknife values of each sample involved."""
    below = float(np.mean(drawn < point) + 0.5 * np.mean(drawn == point))
    if not 0.0 < below < 1.0:
        return float(np.min(drawn)), float(np.max(drawn))
    bias = special.ndtri(below)
    influence = [(sample.mean() - sample) * (sample.size - 1) / sample.size for sample in left_out]
    square = sum(float((part**2).sum()) for part in influence)
    cube = sum(float((part**3).sum()) for part in influence)
    acceleration = cube / (6.0 * square**1.5) if square > 0 else 0.0
    tails = special.ndtri(np.array([0.5 - level / 2, 0.5 + level / 2]))
    shifted = special.ndtr(bias + (bias + tails) / (1.0 - acceleration * (bias + tails)))
    low, high = np.quantile(drawn, shifted)
    return float(low), float(high)


def bootstrap_interval(
    values: ArrayLike,
    *,
    statistic: Callable[..., Any] | None = None,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
    metric: str = "",
    unit: str = "",
) -> Estimate | None:
    """A statistic (the mean unless given) with its BCa bootstrap interval; ends None with fewer than 5
    values.

    Runs whose values are far from normal (skewed, bounded) are better served by it than by t; with few runs
    both err. The same values and seed give the same interval.
    """
    array = np.asarray(values, dtype=np.float64)
    of: Callable[..., Any] = np.mean if statistic is None else statistic
    if array.size == 0:
        return None
    point = float(of(array, axis=-1))
    method = "BCa bootstrap"
    if array.size < BCA_LEAST:
        why = f"{array.size} runs, the bootstrap needs {BCA_LEAST}"
        return Estimate(metric, unit, point, None, None, level, int(array.size), method, why)
    low, high = bca_bounds(array, level, of, seed=seed, resamples=resamples)
    return Estimate(metric, unit, point, low, high, level, int(array.size), method)
