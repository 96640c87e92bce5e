"""Do results come out the same when a test is repeated? Variance within a run against variance between runs.

A run is one draw: its samples vary about the run's own mean (within), and the means vary from run to run (between). The
one-way random model, with unweighted means: S^2 of the means is between + within / n. Samples of one run follow each
other and are alike, so n is not their number but how many independent ones tell as much (batch means).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from virtlab.lazy import np, special

BATCHES = 20


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Standard deviations in the unit of the samples; `icc` is the share of the variance that lies between runs,
    0..1.
    """

    runs: int
    within_sd: float
    between_sd: float
    icc: float
    low: float
    high: float
    level: float
    effective_samples: float  # harmonic mean over runs


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What of a run's samples is needed: `batch_variance` is of the means of 20 equal batches in order (None: too
    few).
    """

    samples: int
    mean: float
    variance: float
    batch_variance: float | None = None

    @property
    def effective_samples(self) -> float:
        """How many independent samples tell as much of the mean: variance over that of batch means, times batches.

        Source: batch means (Conway 1963; Law and Kelton). Between 1 and the number of samples.
        """
        if not self.batch_variance or self.variance == 0.0:
            return float(self.samples)
        return min(max(BATCHES * self.variance / self.batch_variance, 1.0), float(self.samples))


def recurrence(runs: Sequence[RunSummary], level: float = 0.95) -> Recurrence | None:
    """Components of variance of samples by run, and the intra-class correlation with its interval.

    Source: Searle, Linear Models (1971), for balanced data; Thomas and Hultquist, Annals of Statistics 6 (1978), for
    unequal n, with the harmonic mean of the effective numbers. None with fewer than two runs of two samples, or without
    variance.

    >>> recurrence([RunSummary(samples=4, mean=2.5, variance=5 / 3)] * 3).icc
    0.0
    """
    used = [run for run in runs if run.samples > 1]
    if len(used) < 2:
        return None
    within = float(np.mean([run.variance for run in used]))
    if within == 0.0:
        return None
    numbers = [run.effective_samples for run in used]
    count, n = len(used), len(used) / sum(1.0 / number for number in numbers)
    of_means = float(np.var([run.mean for run in used], ddof=1))
    between = max(0.0, of_means - within / n)
    ratio, free = n * of_means / within, max(sum(numbers) - count, 1.0)
    tail = (1.0 - level) / 2.0
    ends = []
    for share in (1.0 - tail, tail):
        theta = max(0.0, (ratio / float(special.fdtri(count - 1, free, share)) - 1.0) / n)
        ends.append(theta / (1.0 + theta))
    icc = between / (between + within)
    return Recurrence(count, math.sqrt(within), math.sqrt(between), icc, ends[0], ends[1], level, n)
