"""What stands around the results: facts below the title, how links were realised, the design, its runs, and the
source.
"""

from __future__ import annotations

from collections import Counter

from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Entry
from virtlab.report.gather.pushback import WORDS
from virtlab.report.tables.table import Block
from virtlab.report.words import plural


def facts(data: Gathered) -> list[tuple[str, str]]:
    """The facts below the title."""
    used, origin = sum(run.used for run in data.runs), data.origin
    runs = f"{used} of {len(data.runs)}" if used != len(data.runs) else str(used)
    links = " and ".join(name.replace("_", " ") for name in _realisations(data))
    found = [("dataset", origin.dataset), ("measured on", origin.backend), ("created", origin.created)]
    queued = "; ".join(WORDS[kind] for kind in data.world.pushbacks)
    told = (*found, ("runs", runs), ("links", links), ("pushback", queued))
    return [(name, words) for name, words in told if words]


def _realisations(data: Gathered) -> list[str]:
    """How links were realised; empty without links."""
    return [] if data.realisations == ["none"] else data.realisations


def world_note(data: Gathered) -> str:
    """How the links were realised, and that different realisations are kept apart."""
    if len(data.realisations) > 1:
        return (
            f"The dataset holds {len(data.realisations)} link realisations ({', '.join(data.realisations)}); "
            "they have panels of their own and are never pooled."
        )
    return "".join(f"Links were realised by: {name.replace('_', ' ')}." for name in _realisations(data))


def source_figure(entry: Entry, present: frozenset[str]) -> Block:
    """One row of the section on the source's figures: links to what this page has, words for what it does not."""
    of = f"in the report of {', '.join(entry.experiments)}" if entry.experiments else "not in this dataset"
    links: list[Block] = [{"id": name, "text": name} for name in entry.plots if name in present]
    links += [{"id": "", "text": f"{name} ({of})"} for name in entry.plots if name not in present]
    answer = f"answered by `{entry.command}`" if entry.command else ""
    words = "; ".join(part for part in (answer, entry.why_not, entry.not_yet, entry.note) if part)
    return {"figure": entry.figure, "shows": entry.shows, "links": links, "says": words}


def design(data: Gathered) -> list[Block]:
    """Factors with their levels, what is constant, and how many runs ended how."""
    statuses = Counter(run.status for run in data.runs)
    groups = {
        "Factors": [(factor.name, ", ".join(factor.levels)) for factor in data.design.factors],
        "The same in every run": list(data.design.conditions.items()),
        "Runs by status": [(status, str(count)) for status, count in sorted(statuses.items())],
    }
    return [{"title": title, "pairs": pairs} for title, pairs in groups.items() if pairs]


def design_about(data: Gathered) -> str:
    """The size of the design and its order."""
    points = plural(len(data.design.points), "design point")
    runs = Counter(tuple(sorted(run.point.items())) for run in data.runs if run.used)
    counts = sorted({runs[tuple(sorted(point.items()))] for point in data.design.points})
    if not counts:
        return f"{points}; no run yet."
    spread = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"{points}, {spread} valid run{'' if counts == [1] else 's'} each, in randomised, seeded order, "
        "interleaved over the factors. The unit of replication is the independent run, not the packet."
    )


def runs_about(data: Gathered) -> str:
    """How many runs count, and what happened to the others."""
    statuses = Counter(run.status for run in data.runs if not run.used)
    if not statuses:
        return "Every run counts: none was tainted, failed or repeated."
    words = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    return f"{plural(statuses.total(), 'run')} shown but not in any estimate ({words}); the reason is beside each."


def conditions(data: Gathered) -> list[Block]:
    """Machine, kernel, versions: as pairs, in groups."""
    return [
        {"title": title, "pairs": list(pairs.items())} for title, pairs in data.world.machine.items() if pairs
    ]
