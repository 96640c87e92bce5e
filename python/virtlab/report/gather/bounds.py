"""Computed worst cases of a dataset's own Plans as a source beside its results.

A bound holds for every echo of every run on an ideal platform, so it stands beside the largest and the 99th percentile. What
guests and bridges cost comes on top: a measured value above it is no contradiction, but says how much that was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from virtlab.prediction.bound import bounds_of
from virtlab.report.gather.comparison import Other, bound_cell
from virtlab.report.gather.model import Gathered, Result
from virtlab.report.tables.comparison import BOUND

if TYPE_CHECKING:
    from virtlab.plan import Plan

STATISTICS = ("p99", "max")


def bounds_beside(data: Gathered, plans: Mapping[int, Plan]) -> tuple[Other | None, list[str]]:
    """The bounds by design point, and a sentence for each role that has none somewhere."""
    by_role: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    reasons: dict[str, str] = {}
    for plan in plans.values():
        point = {factor.name: plan.point[factor.name] for factor in data.factors if factor.name in plan.point}
        for role, found in bounds_of(plan).items():
            if isinstance(found, str):
                reasons.setdefault(
                    role, f"No worst case of {role} can be computed at some settings: {found}."
                )
            else:
                by_role.setdefault(role, []).append((point, found.ns))
    results: list[Result] = []
    for result in data.results:
        quantity = result.quantity
        cells = by_role.get(quantity.role, ()) if quantity.metric == "rtt" else ()
        if cells and quantity.statistic in STATISTICS:
            bounds = tuple(bound_cell(point, value, quantity, "ideal platform") for point, value in cells)
            results.append(replace(result, cells=bounds, published=()))
    return (Other(BOUND, tuple(results), {}) if results else None), list(reasons.values())
