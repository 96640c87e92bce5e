"""Many task sets at once: numpy arrays in, numpy arrays out.

Arrays have shape (sets, tasks), int64, rows by priority (highest first), one time unit throughout (ns, or any other).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from virtlab.errors import ExperimentError
from virtlab.lazy import NDArray, np

BEYOND = 2**63 - 1
"""Written where a response time exceeds the limit: larger than any deadline, so `wcrt <= deadline` stays right."""


@dataclass(frozen=True, slots=True)
class Family:
    """Random task sets: periods in [shortest, longest] whole time units, execution times in ticks of a time unit.

    `wcets` 'scaled': uniform in [least_wcet, T_i], then scaled to the utilisation; 'uunifast': UUniFast-discard.
    `spread` of periods: 'uniform' or 'log'.
    """

    tasks: int
    shortest: int
    longest: int
    least_wcet: int = 1
    spread: str = "uniform"
    wcets: str = "scaled"
    ticks: int = 1_000_000

    def row(self) -> tuple[int, int, int, bool, int, bool, int]:
        """As the exact core takes it. ExperimentError for unknown words."""
        if self.spread not in {"uniform", "log"} or self.wcets not in {"scaled", "uunifast"}:
            raise ExperimentError(
                "family", f"spread '{self.spread}' or wcets '{self.wcets}' is unknown",
                "choose uniform or log, scaled or uunifast",
            )  # fmt: skip
        return (
            self.tasks, self.shortest, self.longest, self.spread == "log", self.least_wcet,
            self.wcets == "uunifast", self.ticks,
        )  # fmt: skip


def response_times(
    period: NDArray[np.int64],
    wcet: NDArray[np.int64],
    *,
    vm_period: int,
    budget: int,
    overhead: int = 0,
    deadline: NDArray[np.int64] | None = None,
    polling: bool = False,
    limit_ratio: float = 1.0,
    threads: int = 1,
) -> NDArray[np.int64]:
    """Worst-case response times of all tasks of all sets, exact; `BEYOND` above `limit_ratio` times the deadline.

    `R_i = f_inv(C_i + sum_{j<i} ceil(R_i/T_j) C_j)`, `f_inv(w) = (P-B) + w + ceil(w/(B-X)) (P-B+X)`. `threads` 0: all
    cores. ValueError for shapes that differ and tasks that make no sense.

    >>> import numpy as np
    >>> response_times(np.array([[8, 15]]), np.array([[1, 3]]), vm_period=6, budget=3)
    array([[ 7, 14]])
    """
    from virtlab._native import rt_response_times

    def rows(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.ascontiguousarray(values, dtype=np.int64)

    found: NDArray[np.int64] = rt_response_times(
        rows(period), rows(wcet), None if deadline is None else rows(deadline), vm_period, budget, overhead, polling,
        limit_ratio, threads,
    )  # fmt: skip
    return found


def generate(
    family: Family, utilisation: float, sets: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(T, C) in ticks, shape (sets, tasks), periods ascending. Set k depends on the seed and k alone."""
    from virtlab._native import rt_generate

    period, wcet = rt_generate(family.row(), utilisation, sets, seed)
    return period, wcet


def largest_ratios(
    family: Family,
    utilisations: list[float],
    shares: list[Fraction],
    *,
    sets: int,
    seed: int,
    threads: int = 0,
) -> NDArray[np.float64]:
    """P/T_1 of the largest exact VM period (X = 0), shape (utilisation, share, set); 0 where no period is enough."""
    from virtlab._native import rt_largest_ratios

    pairs = [(share.numerator, share.denominator) for share in shares]
    flat: NDArray[np.float64] = rt_largest_ratios(family.row(), utilisations, pairs, sets, seed, threads)
    return flat.reshape(len(utilisations), len(shares), sets)


def response_curve(
    family: Family, *, utilisation: float, share: Fraction, overhead: int, periods: list[int], sets: int, seed: int,
    cap: float = 4.0, threads: int = 0,
) -> NDArray[np.float64]:  # fmt: skip
    """Greatest R_i/T_i of each set at each VM period (ticks), shape (period, set); infinite beyond `cap`."""
    from virtlab._native import rt_response_curve

    flat: NDArray[np.float64] = rt_response_curve(
        family.row(),
        utilisation,
        (share.numerator, share.denominator),
        overhead,
        periods,
        sets,
        seed,
        cap,
        threads,
    )
    return flat.reshape(len(periods), sets)


def exact_periods(
    family: Family,
    *,
    utilisation: float,
    share: Fraction,
    overhead: int,
    sets: int,
    seed: int,
    threads: int = 0,
) -> list[tuple[int, int, list[tuple[float, float]]]]:
    """Per set: T_1, C_1 and the exact set of VM periods (intervals), ticks."""
    from virtlab._native import rt_exact_periods

    pair = (share.numerator, share.denominator)
    found: list[tuple[int, int, list[tuple[float, float]]]] = rt_exact_periods(
        family.row(), utilisation, pair, overhead, sets, seed, threads
    )
    return found
