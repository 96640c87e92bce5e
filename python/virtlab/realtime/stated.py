"""Which statements of the source hold here: every row of `realtime_scheduling_statements.csv`, judged by computing it.

Each judge returns whether the statement holds and what was found here. What the source calls *almost zero*, *very
close* and *much shorter* has a number, written before anything was computed: a spread up to `SMALL`, a mean of at least
`CLOSE` of the bound, a set below `FAR` of it. Spreads are of the largest T_VM itself, as its figures' captions have
them; that of T_VM/T_1 is in the answer beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol

from virtlab.realtime.analysis import front, least_budget, periods
from virtlab.realtime.arrays import Family, generate
from virtlab.realtime.examples import THREE_TASKS, UNIT_NS, example
from virtlab.realtime.studies import TICKS, Overheads, Row
from virtlab.realtime.tasks import Task, TaskSet

SMALL = 0.02  # of a spread: almost zero
CLOSE = 0.9  # of the bound: very close
FAR = 0.5  # of the bound: a much shorter period
ALIKE = 0.1  # by which results for different numbers of tasks may differ
Answer = tuple[bool | None, str]


class Studied(Protocol):
    """The two studies, each run at most once."""

    sets: int
    seed: int

    def cells(self) -> list[Row]:
        """Results of the scenarios."""

    def overhead_cells(self) -> list[Row]:
        """Results of the overhead study with ten tasks."""

    def more_tasks(self) -> list[Row]:
        """Results of the overhead study with twenty tasks."""


Judge = Callable[[Studied], Answer]


def _of(studied: Studied, used: float, where: Callable[[Row], bool] = lambda _: True) -> list[Row]:
    return [cell for cell in studied.cells() if cell["utilisation"] == used and where(cell)]


def _above(cell: Row, by: float = 0.0) -> bool:
    """Whether the share of a scenario is more than `by` above its utilisation."""
    return float(cell["share"]) > float(cell["utilisation"]) + by + 1e-9


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)


# -- the example of three tasks


def _largest(share: Fraction) -> Any:
    return periods(example(*THREE_TASKS), share=share)


def _period_grows(_: Studied) -> Answer:
    found = [float(_largest(Fraction(tenth, 10)).max_period_ns or 0) / UNIT_NS for tenth in range(3, 10)]
    return all(low <= high for low, high in pairwise(found)), (f"at shares 0.3 to 0.9: {_listed(found)}")


def _critical(share: Fraction, task: str) -> Judge:
    def judge(_: Studied) -> Answer:
        found = _largest(share).critical_task
        return found == task, f"task {found}"

    return judge


def _period_is(share: Fraction, period: int) -> Judge:
    def judge(_: Studied) -> Answer:
        found = _largest(share).max_period_ns / UNIT_NS
        return found == period, f"{float(found):g}"

    return judge


# -- scenarios without overhead


def _below_bound(studied: Studied) -> Answer:
    cells = studied.cells()
    against = [cell for cell in cells if cell["largest_ratio"] >= cell["bound"]]
    return not against, f"in {len(cells) - len(against)} of {len(cells)} scenarios"


def _spread_small(studied: Studied) -> Answer:
    cells = _of(studied, 0.1, _above)
    own, ratio = _spreads(cells)
    return max(own) <= SMALL, f"T_VM itself up to {max(own):.3g}, T_VM/T_1 up to {max(ratio):.3g}"


def _spreads(cells: list[Row]) -> tuple[list[float], list[float]]:
    """The spreads of T_VM itself, and of T_VM/T_1."""
    return (
        [cell["period_spread"] for cell in cells if cell["period_spread"] is not None],
        [cell["spread"] for cell in cells if cell["spread"] is not None],
    )


def _ratio_grows(used: float) -> Judge:
    def judge(studied: Studied) -> Answer:
        curves = _curves(studied, used)
        falls = [n for n, means in curves.items() if any(b < a for a, b in pairwise(means))]
        shown = "; ".join(f"n {n}: {means[0]:.3g} to {means[-1]:.3g}" for n, means in curves.items())
        return not falls, shown

    return judge


def _curves(studied: Studied, used: float) -> dict[int, list[float]]:
    """Means of T_VM/T_1 over shares above the utilisation, by number of tasks."""
    found: dict[int, list[float]] = {}
    for cell in _of(studied, used, _above):
        found.setdefault(cell["tasks"], []).append(cell["mean_ratio"] or 0.0)
    return found


def _near_bound(used: float | None, above: float) -> Judge:
    def judge(studied: Studied) -> Answer:
        cells = [
            c for c in studied.cells() if (used is None or c["utilisation"] == used) and _above(c, above)
        ]
        parts = [(cell["mean_ratio"] or 0.0) / cell["bound"] for cell in cells]
        return min(parts) >= CLOSE, f"means of {min(parts):.0%} to {max(parts):.0%} of the bound"

    return judge


def _not_schedulable(used: float) -> Judge:
    def judge(studied: Studied) -> Answer:
        cells = _of(studied, used, lambda cell: not _above(cell))
        return not any(cell["schedulable"] for cell in cells), (
            f"{max(cell['schedulable'] for cell in cells):.0%} of the sets have a period"
        )

    return judge


def _spread_peaks(used: float, share: float, but: tuple[int, float] | None = None) -> Judge:
    """The spread peaks at a share for every n and is small at all others; `but`: n and share where it may be more."""

    def judge(studied: Studied) -> Answer:
        cells = _of(studied, used, _above)
        at = [cell for cell in cells if cell["share"] == share]
        other = [c for c in cells if c["share"] != share and (c["tasks"], c["share"]) != but]
        (own, ratio), (own_else, ratio_else) = _spreads(at), _spreads(other)
        said = (
            f"T_VM itself {_listed(own)}, elsewhere up to {max(own_else):.3g}; "
            f"T_VM/T_1 {_listed(ratio)}, elsewhere up to {max(ratio_else):.3g}"
        )
        return max(own_else) <= SMALL < min(own), said

    return judge


def _spread_also(studied: Studied) -> Answer:
    (cell,) = _of(studied, 0.3, lambda c: c["share"] == 0.5 and c["tasks"] == 10)
    (first,) = _of(studied, 0.3, lambda c: c["share"] == 0.4 and c["tasks"] == 10)
    return cell["period_spread"] > SMALL, (
        f"T_VM itself {cell['period_spread']:.3g} (at share 0.4 {first['period_spread']:.3g}); "
        f"T_VM/T_1 {cell['spread']:.3g} (at share 0.4 {first['spread']:.3g})"
    )


def _mixed(used: float, share: float) -> Judge:
    def judge(studied: Studied) -> Answer:
        cells = _of(studied, used, lambda cell: cell["share"] == share)
        least = [cell["least_ratio"] / cell["bound"] for cell in cells if cell["least_ratio"]]
        most = [cell["largest_ratio"] / cell["bound"] for cell in cells]
        said = f"sets from {min(least):.0%} to {max(most):.0%} of the bound"
        return all(one >= CLOSE for one in most) and all(one < FAR for one in least), said

    return judge


def _mean_below(studied: Studied) -> Answer:
    cells = _of(studied, 0.2, lambda cell: cell["share"] == 0.3)
    parts = [(cell["mean_ratio"] or 0.0) / cell["bound"] for cell in cells]
    return max(parts) < CLOSE, f"means of {min(parts):.0%} to {max(parts):.0%} of the bound"


def _spread_falls(studied: Studied) -> Answer:
    cells = _of(studied, 0.3, lambda cell: cell["share"] == 0.4)
    own, ratio = _spreads(cells)
    return own == sorted(
        own, reverse=True
    ), f"n 10, 20, 30: T_VM itself {_listed(own)}; T_VM/T_1 {_listed(ratio)}"


def _independent_of_n(studied: Studied) -> Answer:
    worst, where = 0.0, ""
    for used in (0.1, 0.2, 0.3):
        for share in sorted({cell["share"] for cell in _of(studied, used, _above)}):
            means = [cell["mean_ratio"] or 0.0 for cell in _of(studied, used) if cell["share"] == share]
            apart = (max(means) - min(means)) / max(means) if max(means) else 0.0
            if apart > worst:
                worst, where = apart, f"u {used:g}, share {share:g}"
    return worst <= ALIKE, f"means of T_VM/T_1 differ by up to {worst:.0%} ({where})"


def _spread_only_above(studied: Studied) -> Answer:
    cells = [cell for cell in studied.cells() if _above(cell, 0.1)]
    own, ratio = _spreads(cells)
    return max(own) <= SMALL, f"T_VM itself up to {max(own):.3g}, T_VM/T_1 up to {max(ratio):.3g}"


# -- overhead


def _trade_off(_: Studied) -> Answer:
    found = front(example(*THREE_TASKS), overhead_ns=UNIT_NS // 10)
    pairs = [(float(one.period_ns) / UNIT_NS, float(one.budget_ns / one.period_ns)) for one in found]
    shares = [share for _, share in pairs]
    shown = "; ".join(
        f"period {period:.3g} needs share {share:.3g}" for period, share in (pairs[0], pairs[-1])
    )
    return len(pairs) > 1 and shares == sorted(shares), shown


def _short_is_best(_: Studied) -> Answer:
    asked = [Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(5), Fraction(10)]
    shares = []
    for period in asked:
        budget = least_budget(example(*THREE_TASKS), period_ns=period * UNIT_NS).budget_ns
        shares.append(1.0 if budget is None else float(budget / (period * UNIT_NS)))
    return shares == sorted(shares), f"least shares at periods 0.01, 0.1, 1, 5, 10: {_listed(shares)}"


def _shortest_is_critical(studied: Studied) -> Answer:
    settings = Overheads()
    family = Family(settings.tasks, settings.shortest, settings.longest, settings.least_wcet)
    hits = tried = 0
    for used, share, overhead in ((0.1, 0.2, 1), (0.2, 0.36, 2), (0.3, 0.54, 1)):
        task_periods, wcets = generate(family, used, min(studied.sets, 100), studied.seed)
        for times, costs in zip(task_periods, wcets, strict=True):
            tasks = TaskSet(
                [
                    Task(str(place), Fraction(int(time)), Fraction(int(cost)))
                    for place, (time, cost) in enumerate(zip(times, costs, strict=True))
                ]
            )
            found = periods(tasks, share=Fraction(str(share)), overhead_ns=overhead * TICKS)
            tried += found.max_period_ns is not None
            hits += found.max_period_ns is not None and found.critical_task == "0"
    return hits * 2 > tried, f"in {hits} of {tried} task sets"


def _inside_model(studied: Studied) -> Answer:
    cells = studied.overhead_cells()
    inside = [cell["exact_inside_model"] for cell in cells]
    return min(inside) == 1.0, (
        f"all exact periods lie inside in {sum(one == 1.0 for one in inside)} of {len(cells)} combinations, "
        f"in the worst for {min(inside):.0%} of the task sets"
    )


def _swapped(studied: Studied) -> Answer:
    """A set without an interval counts as inside where it has no period."""
    cells = studied.overhead_cells()
    swapped = [cell for cell in cells if cell["model_possible"] < 1]
    (shown,) = _chosen(studied, 0.1, lambda c: c["share"] == 0.2 and c["overhead"] == 16)
    return all(cell["exact_inside_model"] == 1 for cell in swapped), (
        f"u 0.1, share 0.2, X 16: no interval for {1 - shown['model_possible']:.0%} of the task sets, "
        f"no period for {1 - shown['schedulable_somewhere']:.0%}"
    )


def _chosen(studied: Studied, used: float, where: Callable[[Row], bool]) -> list[Row]:
    return [cell for cell in studied.overhead_cells() if cell["utilisation"] == used and where(cell)]


def _more_tasks(studied: Studied) -> Answer:
    def key(cell: Row) -> tuple[float, ...]:
        return cell["utilisation"], cell["share"], cell["overhead"]

    ten = {key(cell): cell["mean_curve_below_one"] for cell in studied.overhead_cells()}
    twenty = {key(cell): cell["mean_curve_below_one"] for cell in studied.more_tasks()}
    alike = sum(ten[one] == twenty[one] for one in ten)
    return alike >= (1 - ALIKE) * len(ten), f"{alike} of {len(ten)} combinations alike with 10 and 20 tasks"


def _reaches(used: float, where: Callable[[Row], bool], expected: bool, most: bool = False) -> Judge:
    """Whether the mean curve comes down to 1 (`expected`) in all cells, or in `most` of them."""

    def judge(studied: Studied) -> Answer:
        mine = _chosen(studied, used, where)
        hits = sum(cell["mean_curve_below_one"] == expected for cell in mine)
        some = max(cell["schedulable_somewhere"] for cell in mine)
        least = min(cell["schedulable_somewhere"] for cell in mine)
        said = (
            f"the mean curve {'reaches' if expected else 'stays above'} 1 in {hits} of {len(mine)} combinations; "
            f"{least:.0%} to {some:.0%} of the sets have a period"
        )
        return (hits * 2 > len(mine) if most else hits == len(mine)), said

    return judge


def _only_at_02(studied: Studied) -> Answer:
    mine = _chosen(studied, 0.1, lambda c: c["overhead"] in {2, 4})
    right = sum(c["mean_curve_below_one"] == (c["share"] == 0.2) for c in mine)
    return right == len(mine), f"as stated in {right} of {len(mine)} combinations"


def _left_bound(_: Studied) -> Answer:
    found = [math.ceil(overhead / (0.54 - 0.3) - 1e-9) for overhead in (1, 2)]
    return found == [5, 9], f"{found[0]} and {found[1]}"


JUDGES: dict[str, Judge] = {
    "period-grows-with-share": _period_grows,
    "critical-task-3-at-04": _critical(Fraction(2, 5), "3"),
    "critical-task-1-at-05": _critical(Fraction(1, 2), "1"),
    "period-10-at-04": _period_is(Fraction(2, 5), 10),
    "period-14-at-05": _period_is(Fraction(1, 2), 14),
    "ratio-below-bound": _below_bound,
    "spread-small-u01": _spread_small,
    "ratio-grows-with-share-u01": _ratio_grows(0.1),
    "near-bound-u01": _near_bound(0.1, 0.0),
    "not-schedulable-u01-share01": _not_schedulable(0.1),
    "spread-only-at-03-u02": _spread_peaks(0.2, 0.3),
    "mixed-sets-at-03-u02": _mixed(0.2, 0.3),
    "near-bound-above-03-u02": _near_bound(0.2, 0.1),
    "ratio-grows-with-share-u02": _ratio_grows(0.2),
    "not-schedulable-u02": _not_schedulable(0.2),
    "mean-below-bound-at-03-u02": _mean_below,
    "spread-at-04-u03": _spread_peaks(0.3, 0.4, but=(10, 0.5)),
    "spread-at-05-u03-n10": _spread_also,
    "mixed-sets-at-04-u03": _mixed(0.3, 0.4),
    "spread-falls-with-n": _spread_falls,
    "period-independent-of-n": _independent_of_n,
    "spread-only-just-above-u": _spread_only_above,
    "near-bound-far-above-u": _near_bound(None, 0.2),
    "long-period-against-low-share": _trade_off,
    "short-periods-best-without-overhead": _short_is_best,
    "shortest-task-usually-critical": _shortest_is_critical,
    "valid-interval-between-crossings": _inside_model,
    "no-interval-when-crossings-swap": _swapped,
    "n-no-major-difference-with-overhead": _more_tasks,
    "u01-x8-x16-never": _reaches(0.1, lambda c: c["overhead"] in {8, 16}, expected=False),
    "u01-x1-always": _reaches(0.1, lambda c: c["overhead"] == 1, expected=True),
    "u01-x2-x4-only-02": _only_at_02,
    "u02-x16-never": _reaches(0.2, lambda c: c["overhead"] == 16, expected=False),
    "u02-x124-mostly": _reaches(0.2, lambda c: c["overhead"] in {1, 2, 4}, expected=True, most=True),
    "u02-x8-at-04": _reaches(0.2, lambda c: c["overhead"] == 8 and c["share"] == 0.4, expected=True),
    "u03-054-06": _reaches(0.3, lambda c: c["share"] in {0.54, 0.6}, expected=True),
    "left-bound-grows-with-x": _left_bound,
}
