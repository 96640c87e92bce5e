"""Where the warm-up of a series ends: MSER-5.

A run's warm-up is kept out by its timeline: load starts, time passes, then the window `measured` begins. This
file checks whether that was enough. It cuts nothing: cutting by what the data show would make runs differ in
length and hide a set-up that needs a longer warm-up.
"""

from __future__ import annotations

from typing import Any

from virtlab.lazy import NDArray, np

BATCH = 5
LEAST_BATCHES = 40


def mser5(samples: NDArray[Any]) -> int | None:
    """How many leading samples MSER-5 would cut; None with fewer than 200: over short series it cuts noise.

    Source: White, Cobb and Spratt 2000: means of batches of 5, Z_1..Z_m; cut the d <= m/2 batches that
    minimise sum_{i>d} (Z_i - mean of those)^2 / (m - d)^2, the squared width of the remaining mean's
    interval.

    >>> import numpy as np
    >>> level = np.tile([1.0, 2.0], 200)
    >>> mser5(level), mser5(np.concatenate([np.full(50, 40.0), level]))
    (0, 50)
    """
    batches = samples.size // BATCH
    if batches < LEAST_BATCHES:
        return None
    means = samples[: batches * BATCH].astype(np.float64).reshape(batches, BATCH).mean(axis=1)
    means -= means.mean()
    remaining = np.arange(batches, 0, -1, dtype=np.float64)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum((means**2)[::-1])[::-1]
    spread = np.maximum(squares - sums**2 / remaining, 0.0) / remaining**2
    return int(np.argmin(spread[: batches // 2 + 1])) * BATCH
