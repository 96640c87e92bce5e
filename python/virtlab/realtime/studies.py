"""The studies: 81 scenarios of task sets, and the effect of the overhead. Seeded; any number of sets; all cores.

Spread is the standard deviation over the mean. Sets at no period schedulable count as 0 ('zero', as the source
counts) or are left out of mean and spread ('leave_out'); the share of sets schedulable is given with either, with
its interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from virtlab.lazy import NDArray, np
from virtlab.realtime.arrays import Family, exact_periods, generate, largest_ratios, response_curve
from virtlab.realtime.model import period_bound, three_lines

TICKS = 1_000_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Scenarios:
    """Settings of the 81-scenario study."""

    sets: int = 1000
    seed: int = 1
    tasks: tuple[int, ...] = (10, 20, 30)
    utilisations: tuple[float, ...] = (0.1, 0.2, 0.3)
    shares: tuple[Fraction, ...] = tuple(Fraction(tenth, 10) for tenth in range(1, 10))
    shortest: int = 1000
    longest: int = 10_000
    least_wcet: int = 1000
    spread: str = "uniform"
    wcets: str = "scaled"
    unschedulable: str = "leave_out"
    threads: int = 0


@dataclass(frozen=True)
class Overheads:
    """Settings of the overhead study; the VM period runs over whole time units up to `longest_vm_period`."""

    sets: int = 100
    seed: int = 1
    tasks: int = 10
    utilisations: tuple[float, ...] = (0.1, 0.2, 0.3)
    factors: tuple[Fraction, ...] = (Fraction(7, 5), Fraction(8, 5), Fraction(9, 5), Fraction(2))
    overheads: tuple[int, ...] = (1, 2, 4, 8, 16)
    shortest: int = 100
    longest: int = 1000
    least_wcet: int = 100
    longest_vm_period: int = 500
    step: int = 1
    spread: str = "uniform"
    wcets: str = "scaled"
    threads: int = 0
    cap: float = 4.0


@dataclass(frozen=True)
class Study:
    """A study's tables, ready for CSV, plots and judging."""

    cells: list[Row]
    curves: list[Row] = field(default_factory=list)


def wilson(hits: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % interval of a share (Wilson's score).

    >>> [round(end, 3) for end in wilson(0, 10)]
    [0.0, 0.278]
    """
    if trials == 0:
        return 0.0, 1.0
    share = hits / trials
    middle = share + z * z / (2 * trials)
    width = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max((middle - width) / scale, 0.0), min((middle + width) / scale, 1.0)


def scenarios(settings: Scenarios) -> Study:
    """One row per (n, u, share): mean and spread of P/T_1, the bound, the share of sets with any period."""
    cells: list[Row] = []
    for tasks in settings.tasks:
        family = Family(
            tasks,
            settings.shortest,
            settings.longest,
            settings.least_wcet,
            settings.spread,
            settings.wcets,
            TICKS,
        )
        ratios = largest_ratios(
            family, list(settings.utilisations), list(settings.shares), sets=settings.sets, seed=settings.seed,
            threads=settings.threads,
        )  # fmt: skip
        for u_place, utilisation in enumerate(settings.utilisations):
            task_periods, _ = generate(family, utilisation, settings.sets, settings.seed)
            shortest = task_periods[:, 0] / TICKS
            for a_place, share in enumerate(settings.shares):
                values = ratios[u_place, a_place]
                counted = slice(None) if settings.unschedulable == "zero" else values > 0
                hits = int((values > 0).sum())
                low, high = wilson(hits, settings.sets)
                mean, spread = _mean_and_spread(values[counted])
                period, period_spread = _mean_and_spread((values * shortest)[counted])
                cells.append(
                    {
                        "tasks": tasks,
                        "utilisation": utilisation,
                        "share": float(share),
                        "mean_ratio": mean,
                        "spread": spread,
                        "mean_period": period,
                        "period_spread": period_spread,
                        "least_ratio": float(values[values > 0].min()) if hits else None,
                        "largest_ratio": float(values.max()),
                        "bound": period_bound(float(share)),
                        "schedulable": hits / settings.sets,
                        "schedulable_low": low,
                        "schedulable_high": high,
                        "sets": settings.sets,
                    }
                )
    return Study(cells)


def overheads(settings: Overheads) -> Study:
    """Cells (u, share, X): the model against the exact sets. Curves: max R/T and the share of sets schedulable, over
    P.
    """
    cells: list[Row] = []
    curves: list[Row] = []
    family = Family(
        settings.tasks,
        settings.shortest,
        settings.longest,
        settings.least_wcet,
        settings.spread,
        settings.wcets,
        TICKS,
    )
    periods = list(range(settings.step, settings.longest_vm_period + 1, settings.step))
    for utilisation in settings.utilisations:
        for factor in settings.factors:
            share = Fraction(str(utilisation)) * factor
            if share >= 1:
                continue
            for overhead in settings.overheads:
                label = {"utilisation": utilisation, "share": float(share), "overhead": overhead}
                ratios = response_curve(
                    family, utilisation=utilisation, share=share, overhead=overhead * TICKS,
                    periods=[period * TICKS for period in periods], sets=settings.sets, seed=settings.seed,
                    cap=settings.cap, threads=settings.threads,
                )  # fmt: skip
                curves += _curve(label, periods, ratios, settings.cap)
                cells.append(label | _model_cell(family, settings, utilisation, share, overhead, ratios))
    return Study(cells, curves)


def _curve(label: Row, periods: list[int], ratios: NDArray[np.float64], cap: float) -> list[Row]:
    rows = []
    for period, values in zip(periods, ratios, strict=True):
        hits = int((values <= 1).sum())
        low, high = wilson(hits, len(values))
        finite = values[np.isfinite(values)]
        rows.append(
            label
            | {
                "vm_period": period,
                # Sets beyond the cap have no value: a mean over the others would flatter.
                "mean_ratio": float(values.mean()) if len(finite) == len(values) else None,
                "censored": int(len(values) - len(finite)),
                "mean_ratio_at_least": float(np.minimum(values, cap).mean()),
                "schedulable": hits / len(values),
                "schedulable_low": low,
                "schedulable_high": high,
            }
        )
    return rows


def _model_cell(
    family: Family,
    settings: Overheads,
    utilisation: float,
    share: Fraction,
    overhead: int,
    ratios: NDArray[np.float64],
) -> Row:
    """How the three-line model does: sets whose exact periods lie inside, and how much of its interval is empty."""
    exact = exact_periods(
        family, utilisation=utilisation, share=share, overhead=overhead * TICKS, sets=settings.sets,
        seed=settings.seed, threads=settings.threads,
    )  # fmt: skip
    inside = agree = possible = any_period = 0
    empty: list[float] = []
    lefts = []
    for first_period, first_wcet, parts in exact:
        lines = three_lines(
            share=float(share), utilisation=utilisation, overhead=overhead, first_period=first_period / TICKS,
            first_wcet=first_wcet / TICKS,
        )  # fmt: skip
        lefts.append(lines.left)
        possible += lines.possible
        any_period += bool(parts)
        agree += lines.possible == bool(parts)
        if lines.low is None or lines.high is None:
            inside += not parts
            continue
        ends = [(low / TICKS, high / TICKS) for low, high in parts]
        slack = 1e-9 * lines.high
        inside += all(low >= lines.low - slack and high <= lines.high + slack for low, high in ends)
        covered = sum(max(min(high, lines.high) - max(low, lines.low), 0.0) for low, high in ends)
        width = lines.high - lines.low
        empty.append(1 - covered / width if width > 0 else float(not parts))
    low, high = wilson(any_period, len(exact))
    everywhere = (ratios <= 1).all(axis=1)
    return {
        "left_bound": lefts[0],
        "model_possible": possible / len(exact),
        "schedulable_somewhere": any_period / len(exact),
        "schedulable_somewhere_low": low,
        "schedulable_somewhere_high": high,
        "model_agrees": agree / len(exact),
        "exact_inside_model": inside / len(exact),
        "model_interval_empty": sum(empty) / len(empty) if empty else None,
        "best_period_share": float((ratios <= 1).mean(axis=1).max()),
        "a_period_safe_for_all": bool(everywhere.any()),
        "mean_curve_below_one": bool((ratios.mean(axis=1) <= 1).any()),
        "sets": len(exact),
    }


def _mean_and_spread(values: NDArray[np.float64]) -> tuple[float | None, float | None]:
    if len(values) == 0:
        return None, None
    mean = float(values.mean())
    if len(values) < 2 or mean == 0:
        return mean, None
    return mean, float(values.std(ddof=1)) / mean
