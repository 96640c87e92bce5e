"""Curves that the source draws to explain its model: the worst supply of a VM, and the three lines around its periods.

The supply is that of the source's first example, a budget of 3 in a period of 6 time units, with and without overhead
at each start. The three lines are drawn around one task set of the overhead study, at the two settings that the source
shows: one whose lines enclose periods, and one whose lines enclose none.
"""

from __future__ import annotations

import math
from fractions import Fraction

from virtlab.lazy import np
from virtlab.realtime.arrays import Family, exact_periods, response_curve
from virtlab.realtime.model import three_lines
from virtlab.realtime.studies import TICKS, Overheads, Row

PERIOD, BUDGET = 6, 3
ENCLOSING = ((0.3, Fraction(27, 50), 1), (0.1, Fraction(1, 5), 16))  # utilisation, share, overhead


def time_to_supply(demand: float, overhead: float) -> float:
    """Longest wait for that much execution; `f_inv(w) = (P-B) + w + ceil(w/(B-X)) (P-B+X)`.

    >>> time_to_supply(1, 0), time_to_supply(3, 0), time_to_supply(4, 0), time_to_supply(1, 1)
    (7, 9, 13, 8)
    """
    gap = PERIOD - BUDGET
    return gap + demand + math.ceil(demand / (BUDGET - overhead)) * (gap + overhead)


def worst_supply(overheads: tuple[int, ...] = (0, 1), periods: int = 4, steps: int = 8) -> list[Row]:
    """Time until each demand is met in the worst case; the same rows read the other way are the supply over time."""
    rows: list[Row] = []
    for overhead in overheads:
        longest = periods * (BUDGET - overhead)
        rows.append({"overhead": overhead, "demand": 0.0, "time": 0.0})
        for step in range(longest * steps):
            for demand in (step / steps + 1e-9, (step + 1) / steps):
                rows.append(
                    {"overhead": overhead, "demand": demand, "time": time_to_supply(demand, overhead)}
                )
    return rows


def lines_around(settings: Overheads) -> list[Row]:
    """Greatest R/T of one task set over the VM period, with the three lines of its model, per setting."""
    rows: list[Row] = []
    family = Family(
        settings.tasks, settings.shortest, settings.longest, settings.least_wcet, settings.spread, settings.wcets, TICKS
    )  # fmt: skip
    periods = list(range(settings.step, settings.longest_vm_period + 1, settings.step))
    for utilisation, share, overhead in ENCLOSING:
        setting = f"u {utilisation:g}, share {float(share):g}, X {overhead}"
        (first_period, first_wcet, _) = exact_periods(
            family,
            utilisation=utilisation,
            share=share,
            overhead=overhead * TICKS,
            sets=1,
            seed=settings.seed,
        )[0]
        ratios = response_curve(
            family, utilisation=utilisation, share=share, overhead=overhead * TICKS, sets=1, seed=settings.seed,
            periods=[period * TICKS for period in periods], cap=settings.cap,
        )[:, 0]  # fmt: skip
        lines = three_lines(
            share=float(share), utilisation=utilisation, overhead=overhead, first_period=first_period / TICKS,
            first_wcet=first_wcet / TICKS,
        )  # fmt: skip
        for period, ratio in zip(periods, ratios, strict=True):
            rows.append(
                {
                    "setting": setting,
                    "vm_period": period,
                    "ratio": float(ratio) if np.isfinite(ratio) else None,
                    "lower_bound": lines.slope * period + lines.offset,
                    "left_bound": lines.left,
                    "limit": 1.0,
                }
            )
    return rows
