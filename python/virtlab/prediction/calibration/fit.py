"""Costs from measurements: robust non-negative least squares, bootstrap intervals, and what the data cannot separate.

`design @ costs = excess`, all costs at least 0. Rows with large residuals count less (Huber's weights, tuning 1.345 of
the residuals' scale, the median absolute deviation / 0.6745). A cost is identified when no direction of the null space
of the design moves it: costs that always come together are known as a sum only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.lazy import NDArray, np, optimize

HUBER = 1.345
ROUNDS = 20
RESAMPLES = 400
RANK_TOLERANCE = 1e-9
DRAWS_KEPT = 40


@dataclass(frozen=True, slots=True)
class Fitted:
    """A cost with its 95 % interval; `together` names those it cannot be separated from, without itself."""

    name: str
    value: float
    low: float
    high: float
    identified: bool
    together: tuple[str, ...] = ()
    seen: bool = True  # some row depends on it


@dataclass(frozen=True, slots=True)
class Fit:
    """All costs, how many of them the rows can tell apart (`rank`), and how well (`condition`)."""

    costs: tuple[Fitted, ...]
    rank: int
    condition: float
    draws: tuple[tuple[float, ...], ...] = ()  # costs of some resamples, each all together


def fit(
    names: Sequence[str],
    design: NDArray[Any],
    excess: NDArray[Any],
    *,
    seed: int = 0,
    errors: NDArray[Any] | None = None,
) -> Fit:
    """Fits `excess` (rows, ns) by `design` (rows, costs); `errors` (rows, ns) are their standard errors, all alike when
    absent. Equal input and seed give equal output.

    ValueError without rows or where shapes differ.
    """
    matrix, target = np.asarray(design, dtype=np.float64), np.asarray(excess, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape != (target.size, len(names)) or not target.size:
        raise ValueError(f"design of shape {matrix.shape} for {target.size} rows and {len(names)} costs")
    weight = np.ones(target.size) if errors is None else 1.0 / np.asarray(errors, dtype=np.float64)
    matrix, target = matrix * weight[:, None], target * weight
    scale = np.abs(matrix).max(axis=0)
    seen = scale > 0
    scaled = matrix / np.where(seen, scale, 1.0)
    values = _robust(scaled, target)
    _, singular, right = np.linalg.svd(scaled, full_matrices=True)
    rank = int((singular > singular.max(initial=0.0) * RANK_TOLERANCE).sum())
    null = right[rank:]
    moved = np.abs(null).max(axis=0) > 1e-6 if len(null) else np.zeros(len(names), dtype=bool)
    projector = null.T @ null
    generator = np.random.default_rng(seed)
    drawn = np.array(
        [
            _robust(scaled[rows], target[rows])
            for rows in generator.integers(0, target.size, size=(RESAMPLES, target.size))
        ]
    )
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    factor = np.where(seen, scale, 1.0)
    costs = []
    for at, name in enumerate(names):
        entangled = tuple(
            other
            for index, other in enumerate(names)
            if index != at and seen[index] and seen[at] and abs(projector[at, index]) > 1e-6
        )
        ends = (float(min(low[at], values[at]) / factor[at]), float(max(high[at], values[at]) / factor[at]))
        costs.append(
            Fitted(
                name,
                float(values[at] / factor[at]),
                *ends,
                bool(seen[at] and not moved[at]),
                entangled,
                bool(seen[at]),
            )
        )
    least = singular[rank - 1] if rank else 0.0
    condition = float(singular[0] / least) if least > 0 else float("inf")
    kept = tuple(tuple(float(value) for value in row) for row in drawn[:DRAWS_KEPT] / factor)
    return Fit(tuple(costs), rank, condition, kept)


def _robust(matrix: NDArray, target: NDArray) -> NDArray:  # type: ignore[type-arg]
    """Huber's M-estimate by reweighting."""
    weights = np.ones(target.size)
    values = np.zeros(matrix.shape[1])
    for _ in range(ROUNDS):
        before = values
        root = np.sqrt(weights)
        values, _ = optimize.nnls(matrix * root[:, None], target * root)
        residuals = np.abs(target - matrix @ values)
        spread = float(np.median(residuals)) / 0.6745
        if spread <= 1e-9 or np.allclose(values, before, rtol=1e-6, atol=1e-6):
            break
        weights = np.minimum(1.0, HUBER * spread / np.maximum(residuals, 1e-12))
    return values
