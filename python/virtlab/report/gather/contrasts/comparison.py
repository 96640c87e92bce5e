"""Results of several datasets and other sources beside each other, setting by setting: never pooled.

The report's own dataset is the reference. Another source (a dataset of another backend, profile or link
realisation; a computed bound) is shown beside it where it has a value of the same quantity at the same levels;
factors of one level count as levels too, written in any unit. The difference is the other source's mean less the
reference's, with Welch's interval over independent runs; beside a number without runs, a bound or a published one,
it has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from virtlab.analysis.shares import of_one_thing
from virtlab.errors import ExperimentError
from virtlab.lazy import np
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, Comparison, Factor, Pair, Quantity, Result, RunValue
from virtlab.report.gather.selection import LEADING, leads, primary
from virtlab.units import same_levels

if TYPE_CHECKING:
    from virtlab.stats import Estimate

SOURCE = "source"
BOUND = "bound"  # in place of how links were realised: the values were computed, and no run had them
JITTER = frozenset({("rtt", "mdev"), ("jitter_rfc3550", "final")})
NO_LINKS = frozenset({"none", "simulated"})


@dataclass(frozen=True, slots=True)
class Other:
    """A source beside the dataset: results of its own design, with what was the same in all of its runs."""

    label: str
    results: tuple[Result, ...]
    conditions: Mapping[str, str]
    file_differs: bool = False


def label_of(data: Gathered, realisation: str) -> str:
    """What a source is called: measured or simulated, and how its links were made."""
    how = (
        "measured"
        if data.origin.backend == "testbed"
        else data.origin.backend.replace("simulator", "simulated")
    )
    if realisation in NO_LINKS:
        return how
    shown = realisation.replace("_", " ")
    return shown if shown.startswith(how) else f"{how}, {shown}"


def others_of(data: Gathered, name: str, against: Gathered, taken: set[str]) -> list[Other]:
    """The sources of another dataset, one per link realisation; `taken` are labels in use, and gets the new ones."""
    found = []
    for realisation in data.realisations:
        label = label_of(data, realisation)
        if label in taken:
            label = f"{label} ({name})"
        taken.add(label)
        results = tuple(
            replace(one, cells=tuple(cell for cell in one.cells if cell.realisation == realisation))
            for one in data.results
        )
        differs = data.origin.experiment_text.split() != against.origin.experiment_text.split()
        differs |= data.world.pushbacks != against.world.pushbacks
        found.append(Other(label, results, data.design.conditions, differs))
    return found


def comparisons(data: Gathered, others: Sequence[Other]) -> tuple[Comparison, ...]:
    """Every quantity that another source has too, in the order of the report.

    ExperimentError when a source has several settings at one of the dataset's: what differs there is no factor here.
    """
    taken: dict[str, str] = {realisation: label_of(data, realisation) for realisation in data.realisations}
    found = []
    for result in data.results:
        pairs = []
        for other in others:
            match = next((one for one in other.results if one.quantity.path == result.quantity.path), None)
            if match is not None and _alike(match.quantity, result.quantity):
                pairs += _pairs(result, data.design.conditions, other, match)
        if pairs:
            labels = tuple(dict.fromkeys([*taken.values(), *(pair.label for pair in pairs)]))
            drawn = _drawn(result, taken, pairs)
            found.append(
                Comparison(result.quantity, next(iter(taken.values()), ""), labels, tuple(pairs), drawn)
            )
    return tuple(found)


def _alike(quantity: Quantity, other: Quantity) -> bool:
    """Whether both are of one goal and one unit: files may declare a metric by one name and mean two things."""
    return (quantity.goal, quantity.unit) == (other.goal, other.unit)


def other_goals(data: Gathered, others: Sequence[Other]) -> list[str]:
    """A sentence per source and role whose search had another goal: what such goals give is not set side by side."""
    goals = {result.quantity.path: result.quantity.goal for result in data.results}
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for other in others:
        for one in other.results:
            quantity = one.quantity
            if quantity.path in goals and goals[quantity.path] != quantity.goal:
                role = quantity.role.partition(".")[0]
                found.setdefault(
                    (other.label, role), (goals[quantity.path] or "none", quantity.goal or "none")
                )
    return [
        f"What the search of {role} found in {label} is not set beside: its goal is {theirs}, here {ours}."
        for (label, role), (ours, theirs) in found.items()
    ]


def other_shares(data: Gathered, others: Sequence[Other]) -> list[str]:
    """A sentence per source in which guests' shares are of something else at the same levels: shares of vCPUs are not
    set beside those of processors."""
    ours = {result.quantity.path: result for result in data.results}
    found: dict[str, set[str]] = {}
    for other in others:
        for one in other.results:
            mine = ours.get(one.quantity.path)
            if mine is not None and any(
                same_levels({**data.design.conditions, **cell.point}, {**other.conditions, **their.point})
                for cell in mine.cells
                for their in one.cells
                if not of_one_thing(cell.share_of, their.share_of)
            ):
                found.setdefault(other.label, set()).add(one.quantity.role)
    return [
        f"cpu_share of {', '.join(sorted(guests))} in {label} is not set beside ours: in one dataset it is a share of "
        "vCPUs, in the other of the processors that a guest without vCPUs may use."
        for label, guests in found.items()
    ]


def worth_drawing(data: Gathered) -> list[Comparison]:
    """The comparisons to draw: delay, jitter, throughput, what has a bound, and what a claim speaks about."""
    found = []
    for one in data.comparisons:
        quantity = one.quantity
        if quantity.declaration.of == "entity":
            continue
        leading = leads(quantity) or quantity.statistic in LEADING
        delay = (primary(quantity) and leading) or (quantity.metric, quantity.statistic) in JITTER
        if delay or BOUND in one.labels or quantity.path in data.claimed:
            found.append(one)
    return found


def source_factor(comparison: Comparison) -> Factor:
    """The factor that stands for the source in plots."""
    return Factor(SOURCE, comparison.labels)


def _pairs(result: Result, conditions: Mapping[str, str], other: Other, match: Result) -> list[Pair]:
    found = []
    for cell in result.cells:
        if not cell.present:
            continue
        here = {**conditions, **cell.point}
        alike = [
            one
            for one in match.cells
            if one.present
            and same_levels(here, {**other.conditions, **one.point})
            and of_one_thing(cell.share_of, one.share_of)
        ]
        if len(alike) > 1:
            names = {
                name
                for one in alike
                for name in one.point
                if name not in here and len({each.point.get(name) for each in alike}) > 1
            }
            raise ExperimentError(
                "--with",
                f"{other.label} has {len(alike)} settings at one of this dataset's ({', '.join(sorted(names))} varies)",
                "give a dataset with one level of it",
            )
        if alike:
            difference = _difference(cell, alike[0], result.quantity)
            found.append(Pair(cell.point, cell, other.label, alike[0], difference))
    return found


def _difference(reference: Cell, other: Cell, quantity: Quantity) -> Estimate | None:
    from virtlab.stats import Estimate, contrast

    if reference.estimate is None:
        return None
    level = reference.estimate.level
    if other.estimate is not None and other.realisation == BOUND:
        point = other.estimate.point - reference.estimate.point
        why = "a bound has no runs"
        return Estimate(
            quantity.metric, quantity.unit, point, None, None, level, len(reference.present), "", why
        )
    found = contrast([np.array(other.present), np.array(reference.present)], [1.0, -1.0])
    low, high = found.interval(level)
    why = "" if low is not None else "one run has no spread"
    runs = len(reference.present) + len(other.present)
    return Estimate(quantity.metric, quantity.unit, found.value, low, high, level, runs, "Welch t", why)


def _drawn(result: Result, taken: Mapping[str, str], pairs: Sequence[Pair]) -> Result:
    """Cells of all sources, each with its source as a level; published numbers stay beside the reference."""
    cells = [
        replace(cell, point={SOURCE: taken.get(cell.realisation, ""), **cell.point}) for cell in result.cells
    ]
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for pair in pairs:
        key = (pair.label, tuple(pair.point.items()))
        if key not in seen:
            seen.add(key)
            cells.append(replace(pair.other, point={SOURCE: pair.label, **pair.point}))
    first = next(iter(taken.values()), "")
    published = tuple(replace(one, point={SOURCE: first, **one.point}) for one in result.published)
    return Result(result.quantity, tuple(cells), published)


def bound_cell(point: Mapping[str, str], value: float, quantity: Quantity, why: str) -> Cell:
    """A computed upper bound as a cell."""
    from virtlab.stats import Estimate

    estimate = Estimate(
        quantity.metric, quantity.unit, value, None, None, 1.0, 0, f"bound: {why}", "a bound is computed"
    )
    return Cell(point, BOUND, (RunValue(BOUND, 0, value),), estimate)
