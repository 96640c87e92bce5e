"""Rates between the first and the last of a row of instants.

n packets over a time t between the first and the last give (n - 1) / t: the first opens the interval and does
not count, so an evenly spaced flow has exactly its own rate however short it is. The probe's own meter counts
so too.
"""

from __future__ import annotations

from typing import Any

from virtlab.lazy import NDArray, np


def rate_per_s(instant_ns: NDArray[Any], amount: NDArray[Any] | int) -> float | None:
    """Amount (per packet, or one for all) per second; None with fewer than two instants.

    >>> import numpy as np
    >>> rate_per_s(np.array([0, 1_000_000, 2_000_000]), 1)
    1000.0
    """
    if instant_ns.size < 2:
        return None
    first = int(np.argmin(instant_ns))
    span_ns = int(instant_ns.max()) - int(instant_ns[first])
    if span_ns <= 0:
        return None
    if isinstance(amount, int):
        total = amount * (instant_ns.size - 1)
    else:
        total = int(amount.sum(dtype=np.int64)) - int(amount[first])
    return total * 1e9 / span_ns


def jain(shares: NDArray[Any]) -> float | None:
    """Jain's fairness index (sum x)^2 / (n sum x^2); None when nothing was shared.

    >>> import numpy as np
    >>> jain(np.array([1.0, 1.0])), jain(np.array([1.0, 0.0]))
    (1.0, 0.5)
    """
    squares = float((shares.astype(float) ** 2).sum())
    return float(shares.sum()) ** 2 / (shares.size * squares) if squares > 0 else None
