"""The two kinds of test that every claim comes down to, both on weighted sums of cell means.

*Sided*: the sum lies on one side of a limit. *Inside*: it lies between two limits (two one-sided tests). One-sided p
values are doubled in both, so before correction for several comparisons a test holds exactly when the two-sided
interval that is shown lies wholly on the claimed side or inside the limits, and is refuted when it lies wholly outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.lazy import NDArray
from virtlab.stats.comparison import ONE_RUN, cliffs_delta, hedges_g
from virtlab.stats.contrasts import Contrast, contrast
from virtlab.stats.estimate import Estimate
from virtlab.stats.proportions import p_share_above, p_share_below, proportion_interval

MATTERS = 0.005
"""Share of what is compared by which means have to differ for an order to hold that states no margin. Without spread
between runs, as in virtual time, any difference is certain, 3 ns of a microsecond too, and says nothing.
"""
SEEN = 0.025  # one-sided p below which a difference is there, however small it is
TOO_SMALL = (
    f"a difference of less than {MATTERS:.1%} of what is compared is too small to hold; "
    "state the margin that matters with 'by'"
)


@dataclass(frozen=True, slots=True)
class Test:
    """A test before correction. `distance` from the nearest limit, in the unit of `deciding`, says how many
    more runs."""

    label: str
    estimate: Estimate
    required: tuple[float | None, float | None]
    p_holds: float
    p_refuted: float
    runs: tuple[int, ...]
    words: tuple[str, str]  # finding when it holds, when it is refuted
    deciding: Contrast | None  # None: decided by what was counted
    distance: float
    one_sided_share: float  # of alpha that a deciding one-sided test may use
    effect: float | None = None
    effect_name: str = ""
    decides: bool = True
    note: str = ""
    limit: float = 0.0
    count_per_run: float = 1.0


@dataclass(frozen=True, slots=True)
class Subject:
    """What a test is about: its label, and how its estimate is named."""

    label: str
    metric: str
    unit: str
    level: float
    decides: bool = True
    note: str = ""

    def estimate(self, contrast: Contrast) -> Estimate:
        """The weighted sum with its interval."""
        low, high = contrast.interval(self.level)
        why = "" if low is not None else ONE_RUN
        return Estimate(
            self.metric, self.unit, contrast.value, low, high, self.level, sum(contrast.runs), "Welch t", why
        )


def effect_of(cells: Sequence[NDArray[Any]]) -> tuple[float | None, str]:
    """Hedges' g of two cells; Cliff's delta where no run varies; nothing for other numbers of cells."""
    if len(cells) != 2:
        return None, ""
    size = hedges_g(cells[0], cells[1])
    if size is not None and math.isfinite(size):
        return size, "Hedges g"
    return cliffs_delta(cells[0], cells[1]), "Cliff's delta"


def sided(
    subject: Subject,
    cells: Sequence[NDArray[Any]],
    weights: Sequence[float],
    comparator: str,
    limit: float,
    *,
    shown: Estimate | None = None,
    required: tuple[float | None, float | None] | None = None,
    matters: float = 0.0,
) -> Test:
    """The weighted sum is `<`, `<=`, `>` or `>=` the limit. `shown` and `required` replace what is
    reported. `matters`: the least distance from the limit that is seen for it to hold."""
    found = contrast(cells, weights)
    down = comparator[0] == "<"
    towards, away = (
        (found.p_below(limit), found.p_above(limit)) if down else (found.p_above(limit), found.p_below(limit))
    )
    seen = towards < SEEN
    small = seen and 0.0 < abs(found.value - limit) < matters
    if small:
        towards = 1.0
    if found.se == 0 and found.value == limit:
        towards, away = (0.0, 1.0) if comparator.endswith("=") else (1.0, 0.0)
    effect, name = effect_of(cells)
    two = len(cells) > 1
    return Test(
        subject.label,
        shown or subject.estimate(found),
        required or ((None, limit) if down else (limit, None)),
        min(1.0, 2 * towards),
        min(1.0, 2 * away),
        found.runs,
        ("different", "different, the other way") if two else ("within", "beyond"),
        found,
        0.0 if small else abs(found.value - limit),
        0.5,
        effect,
        name,
        subject.decides,
        "; ".join(filter(None, (subject.note, TOO_SMALL if small and subject.decides else ""))),
    )


def smallest(cells: Sequence[NDArray[Any]], comparator: str) -> float:
    """The least difference between cells that an order without a margin counts; 0 for `<=` and `>=`, which allow
    none.
    """
    return 0.0 if comparator.endswith("=") else MATTERS * max(abs(float(cell.mean())) for cell in cells)


def counted(subject: Subject, share: float, count: int, runs: int, *, comparator: str, limit: float) -> Test:
    """A share that is the same in all runs against a limit, by what was counted over all of them."""
    hits = round(share * count)
    below, above = p_share_below(hits, count, limit), p_share_above(hits, count, limit)
    down = comparator[0] == "<"
    towards, away = (below, above) if down else (above, below)
    shown = proportion_interval(hits, count, level=subject.level, metric=subject.metric, runs=runs)
    assert shown is not None
    return Test(
        subject.label,
        shown,
        (None, limit) if down else (limit, None),
        min(1.0, 2 * towards),
        min(1.0, 2 * away),
        (runs,),
        ("within", "beyond"),
        None,
        abs(share - limit),
        0.5,
        decides=subject.decides,
        note=subject.note,
        limit=limit,
        count_per_run=count / runs,
    )


def inside(
    subject: Subject,
    cells: Sequence[NDArray[Any]],
    weights_above: Sequence[float],
    weights_below: Sequence[float],
    *,
    limits: tuple[float, float],
    shown: Estimate,
    required: tuple[float, float],
) -> Test:
    """The first sum is above limits[0] and the second below limits[1]."""
    above, below = contrast(cells, weights_above), contrast(cells, weights_below)
    p_holds = min(1.0, 2 * max(above.p_above(limits[0]), below.p_below(limits[1])))
    p_refuted = min(1.0, 2 * min(above.p_below(limits[0]), below.p_above(limits[1])))
    room_below, room_above = above.value - limits[0], limits[1] - below.value
    deciding, room = (above, room_below) if room_below < room_above else (below, room_above)
    effect, name = effect_of(cells)
    return Test(
        subject.label,
        shown,
        required,
        p_holds,
        p_refuted,
        above.runs,
        ("equivalent", "different") if len(cells) > 1 else ("within", "beyond"),
        deciding,
        abs(room),
        0.5,
        effect,
        name,
        subject.decides,
        subject.note,
    )
