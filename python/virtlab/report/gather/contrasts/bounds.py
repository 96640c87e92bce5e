"""Computed worst cases of a dataset's own Plans as a source beside its results.

A bound holds for every echo of every run on an ideal platform, so it is shown beside the largest and the 99th
percentile. What guests and bridges cost comes on top: a measured value above it is no contradiction, but says how
much that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from virtlab.errors import ExperimentError
from virtlab.plan import Plan
from virtlab.prediction.bound import bounds_of
from virtlab.report.gather.contrasts.comparison import (
    BOUND,
    Other,
    bound_cell,
    comparisons,
    label_of,
    other_goals,
    other_shares,
    others_of,
)
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Result

STATISTICS = ("p99", "max")


def bounds_beside(data: Gathered, plans: Mapping[int, Plan]) -> tuple[Other | None, list[str]]:
    """The bounds by design point, and a sentence for each role that has none somewhere."""
    by_role: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    reasons: dict[str, str] = {}
    for plan in plans.values():
        point = {
            factor.name: plan.point[factor.name]
            for factor in data.design.factors
            if factor.name in plan.point
        }
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


def compared(data: Gathered, others: Iterable[tuple[str, Gathered]], plans: Mapping[int, Plan]) -> Gathered:
    """The report with other datasets (name, content), and the worst cases of its own Plans, beside it.

    ExperimentError where none of them has a value at one of the report's settings.
    """
    found, reasons = with_other_datasets(data, others, plans)
    if not found.comparisons:
        raise ExperimentError("--with", "; ".join(reasons), "name a dataset of the same experiment")
    return found


def with_other_datasets(
    data: Gathered, others: Iterable[tuple[str, Gathered]], plans: Mapping[int, Plan]
) -> tuple[Gathered, list[str]]:
    """The report with the values of other datasets that are comparable, and why the rest is not."""
    taken = {label_of(data, realisation) for realisation in data.realisations}
    sources = [source for name, other in others for source in others_of(other, name, data, taken)]
    bound, unbounded = bounds_beside(data, plans)
    sources += [bound] if bound is not None else []
    pairs = comparisons(data, sources)
    goals = [*other_goals(data, sources), *other_shares(data, sources)]
    differs = ", ".join(one.label for one in sources if one.file_differs)
    note = []
    if differs:
        note = [f"The file of {differs} is not this one's, or guests queue elsewhere; compare with care."]
    nothing = [] if pairs else ["no quantity has a value at the same levels in both"]
    found = replace(data, comparisons=pairs, notes=(*data.notes, *note, *goals, *unbounded))
    return found, [*nothing, *goals, *unbounded]
