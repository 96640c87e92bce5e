"""Blocks of the page as plain structures: what stands in each section, ready for the template.

Tables are the text behind every plot: whatever a picture shows, a table holds in numbers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from virtlab.report.gather.model import Entry, Gathered, Realisation, Verdict
from virtlab.report.quantities import display, interval
from virtlab.report.tables.table import Block, cell, head
from virtlab.report.words import plural


def facts(data: Gathered) -> list[tuple[str, str]]:
    """What stands below the title."""
    used = sum(run.used for run in data.runs)
    found = [("dataset", data.dataset), ("measured on", data.backend), ("created", data.created)]
    found.append(("runs", f"{used} of {len(data.runs)}" if used != len(data.runs) else str(used)))
    if data.realisations and data.realisations != ["none"]:
        found.append(("links", " and ".join(name.replace("_", " ") for name in data.realisations)))
    return [(name, text) for name, text in found if text]


def verdict_facts(verdict: Verdict, with_published: bool) -> list[tuple[str, str]]:
    """Interval, effect size, number of runs, published value, and how many more runs would decide."""
    found: list[tuple[str, str]] = []
    if verdict.estimate is not None:
        estimate = verdict.estimate
        shown = display(verdict.unit or estimate.unit, [estimate.point])
        level = f"{estimate.level * 100:g} % interval"
        found.append((f"estimate with {level}", interval(estimate.low, estimate.point, estimate.high, shown)))
    if verdict.effect:
        found.append(("effect size", verdict.effect))
    if verdict.n:
        found.append(("runs", verdict.n))
    if with_published:
        found.append(("published", verdict.published or "no number"))
    if verdict.more_runs:
        found.append(("would decide", f"about {plural(verdict.more_runs, 'more run')} per setting"))
    return found


def world_note(data: Gathered) -> str:
    """How the links were realised, and that different realisations are kept apart."""
    if len(data.realisations) > 1:
        return (
            f"The dataset holds {len(data.realisations)} link realisations ({', '.join(data.realisations)}); "
            "they stand in panels of their own and are never pooled."
        )
    if data.realisations and data.realisations != ["none"]:
        return f"Links were realised by: {data.realisations[0].replace('_', ' ')}."
    return ""


def source_figure(entry: Entry, present: frozenset[str]) -> Block:
    """One row of the section on the source's figures: links to what stands in this page, words for what does
    not.
    """
    links: list[Block] = [{"id": name, "text": name} for name in entry.plots if name in present]
    missing = [name for name in entry.plots if name not in present]
    says = [entry.why_not, entry.note]
    if missing:
        where = (
            f" (in the report of {', '.join(entry.experiments)})"
            if entry.experiments
            else " (not in this dataset)"
        )
        links += [{"id": "", "text": name + where} for name in missing]
    return {
        "figure": entry.figure,
        "shows": entry.shows,
        "links": links,
        "says": "; ".join(part for part in says if part),
    }


def design(data: Gathered) -> list[Block]:
    """Factors with their levels, what is constant, the order of runs."""
    groups = [
        {"title": "Factors", "pairs": [(factor.name, ", ".join(factor.levels)) for factor in data.factors]},
        {"title": "The same in every run", "pairs": list(data.conditions.items())},
    ]
    counts = Counter(run.status for run in data.runs)
    groups.append(
        {
            "title": "Runs by status",
            "pairs": [(status, str(count)) for status, count in sorted(counts.items())],
        }
    )
    return [group for group in groups if group["pairs"]]


def design_about(data: Gathered) -> str:
    """The size of the design and its order."""
    points = plural(len(data.points), "design point")
    repetitions = sorted(
        {Counter(_key(run.point) for run in data.runs if run.used)[_key(point)] for point in data.points}
    )
    if not repetitions:
        return f"{points}; no run yet."
    spread = str(repetitions[0]) if len(repetitions) == 1 else f"{repetitions[0]} to {repetitions[-1]}"
    return (
        f"{points}, {spread} valid run{'' if repetitions == [1] else 's'} each, in randomised, seeded order, "
        "interleaved over the factors. The unit of replication is the independent run, not the packet."
    )


def _key(point: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(point.items()))


def runs_about(data: Gathered) -> str:
    """How many runs count, and what happened to the others."""
    out = [run for run in data.runs if not run.used]
    if not out:
        return "Every run counts: none was tainted, failed or repeated."
    says = ", ".join(
        f"{count} {status}" for status, count in sorted(Counter(run.status for run in out).items())
    )
    return f"{plural(len(out), 'run')} shown but not in any estimate ({says}); the reason stands beside each."


def runs_table(data: Gathered) -> Block:
    """Every run and attempt with its status and, when it is out, why."""
    numbers = ["repetition", "attempt"]
    columns = ["run", *data.varying, *numbers, "links", "status", "why"]
    rows = []
    for run in data.runs:
        cells = [cell(run.run), *(cell(run.point.get(name, "")) for name in data.varying)]
        cells += [
            cell(str(run.repetition), "number"),
            cell(str(run.attempt), "number"),
            cell(run.realisation),
        ]
        status = run.status if run.used or run.status != "ok" else "ok, not used"
        cells += [cell(status), cell("; ".join(run.reasons), "text")]
        rows.append({"cells": cells, "out": not run.used})
    return {"head": head(*columns, numbers=numbers), "rows": rows}


def conditions(data: Gathered) -> list[Block]:
    """Machine, kernel, versions: as pairs, in groups."""
    return [{"title": title, "pairs": list(pairs.items())} for title, pairs in data.machine.items() if pairs]


def quality_table(data: Gathered) -> Block | None:
    """Lateness of the switch and delay it added, per realisation, over all runs in use."""
    if not data.link_quality:
        return None
    columns = list(data.link_quality[0])
    rows = [
        {"cells": [cell(str(row.get(name, ""))) for name in columns], "out": False}
        for row in data.link_quality
    ]
    return {"head": head(*columns), "rows": rows}


def realised_table(data: Gathered) -> Block | None:
    """Objects in groups that were intended, applied and read back alike; what was read back differently is
    marked.
    """
    if not data.realised:
        return None
    rows = []
    for one in data.realised:
        wrong = differing(one)
        cells = [cell(one.path, "text"), cell(one.by), cell(str(one.runs), "number")]
        cells += [cell(_facts(one.intended), "text"), cell(_facts(one.applied), "text")]
        cells.append(cell(_facts(one.read_back), "text differs" if wrong else "text"))
        rows.append({"cells": cells, "out": False})
    return {
        "head": head("object", "by", "runs", "intended", "applied", "read back", numbers=["runs"]),
        "rows": rows,
    }


def differing(one: Realisation) -> list[str]:
    """Names that were intended or applied with one value and read back with another of the same kind."""
    wanted = {**one.intended, **one.applied}
    return [
        name
        for name, value in wanted.items()
        if name in one.read_back and type(one.read_back[name]) is type(value) and one.read_back[name] != value
    ]


def _facts(values: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)

    return ", ".join(f"{name} {text(value)}" for name, value in values.items()) or "—"
