"""Blocks of the page as plain structures: what stands in each section, ready for the template.

Tables are the text behind every plot: whatever a picture shows, a table holds in numbers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.report import names, theme
from virtlab.report.curves import grouped
from virtlab.report.figure import REALISATION, Figure
from virtlab.report.model import Entry, Gathered, Realisation, Result, Verdict
from virtlab.report.quantities import Display, display, interval
from virtlab.report.words import plural

Block = dict[str, Any]


def cell(text: str, kind: str = "") -> Block:
    """One cell of a table; `kind` is a class: 'number', 'text', 'absent', 'differs'."""
    return {"text": text, "kind": kind}


def head(*columns: str, numbers: Sequence[str] = ()) -> list[Block]:
    """The heads of a table's columns."""
    return [{"text": column, "number": column in numbers} for column in columns]


def facts(data: Gathered) -> list[tuple[str, str]]:
    """What stands below the title."""
    used = sum(run.used for run in data.runs)
    found = [("dataset", data.dataset), ("measured on", data.backend), ("created", data.created)]
    found.append(("runs", f"{used} of {len(data.runs)}" if used != len(data.runs) else str(used)))
    if data.realisations and data.realisations != ["none"]:
        found.append(("links", " and ".join(name.replace("_", " ") for name in data.realisations)))
    return [(name, text) for name, text in found if text]


def verdict_facts(verdict: Verdict) -> list[tuple[str, str]]:
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


def metric_sections(data: Gathered, figures: Sequence[Figure], pictures: Mapping[str, str]) -> list[Block]:
    """One section per role and metric: plots as tabs, then the tables behind them."""
    from markupsafe import Markup

    about = {entry["key"]: entry["definition"] for entry in data.glossary if "key" in entry}
    groups: dict[str, list[Result]] = {}
    for result in data.results:
        groups.setdefault(f"{result.quantity.role}.{result.quantity.metric}", []).append(result)
    blocks = []
    for path, results in groups.items():
        first = results[0].quantity
        drawn = [figure for figure in figures if figure.group == path]
        shown = []
        for index, figure in enumerate(drawn):
            picture = theme.themable(pictures[figure.name]) if index == 0 and figure.name in pictures else ""
            shown.append(
                {
                    "name": figure.name,
                    "title": figure.title,
                    "subtitle": figure.subtitle,
                    "alt": figure.alt,
                    "empty": figure.empty,
                    "tab": figure.statistic + (f" by {figure.x}" if figure.x else ""),
                    "svg": Markup(picture),  # noqa: S704 - drawn by Vega, which escapes text
                }
            )
        title = first.title or first.metric.replace("_", " ")
        blocks.append(
            {
                "id": f"results-{names.slug(path)}",
                "title": f"{title[:1].upper()}{title[1:]} of {first.role}",
                "short": path,
                "about": about.get(first.metric, ""),
                "constant": _constant(results) if not drawn else "",
                "figures": shown,
                "tables": [*_settings_tables(data, results), _values_table(data, path, results)],
            }
        )
    return blocks


def _constant(results: Sequence[Result]) -> str:
    values = {value for result in results for one in result.cells for value in one.present}
    runs = sum(len(one.present) for one in results[0].cells)
    if not values:
        return "No run has a value; that is not zero."
    shown = display(results[0].quantity.unit, values)
    if len(values) == 1:
        return f"Always {shown.text(values.pop())}, in {plural(runs, 'run')}; nothing to draw."
    return "The table holds every value; a plot is drawn when a claim or the source's figures ask for one."


def _settings_tables(data: Gathered, results: Sequence[Result]) -> list[Block]:
    return [_settings_table(data, result) for result in results if any(one.estimate for one in result.cells)][
        :4
    ]


def _settings_table(data: Gathered, result: Result) -> Block:
    """Per design point: runs, mean with interval, spread, published."""
    split = len({one.realisation for one in result.cells}) > 1
    shown = display(result.quantity.unit, [value for one in result.cells for value in one.present])
    with_published = bool(result.published)
    numbers = [
        "runs",
        f"mean ({shown.unit})" if shown.unit else "mean",
        "low",
        "high",
        "smallest run",
        "largest run",
    ]
    columns = [
        *data.varying,
        *([REALISATION] if split else []),
        *numbers,
        *(["published"] if with_published else []),
    ]
    rows = []
    for one in result.cells:
        cells = [cell(one.point.get(name, "")) for name in data.varying]
        cells += [cell(one.realisation)] if split else []
        cells.append(cell(f"{len(one.present)}", "number"))
        cells += _estimate_cells(one.estimate, one.present, shown)
        if with_published:
            cells.append(cell(published_words(result, one.point), "text"))
        rows.append({"cells": cells, "out": not one.present})
    level = next((one.estimate.level for one in result.cells if one.estimate), 0.95)
    method = next((one.estimate.method for one in result.cells if one.estimate), "")
    return {
        "id": names.slug(f"settings of {result.quantity.path}"),
        "title": f"{result.quantity.statistic} per setting",
        "caption": f"{result.quantity.path}: mean of the runs' values with {level * 100:g} % interval"
        + (f" ({method})" if method else ""),
        "head": head(*columns, numbers=numbers),
        "rows": rows,
    }


def _estimate_cells(estimate: Any, present: Sequence[float], shown: Display) -> list[Block]:
    if not present:
        return [cell("no value", "absent")] + [cell("", "absent")] * 4
    middle = estimate.point if estimate is not None else sum(present) / len(present)
    cells = [cell(shown.number(middle, 5), "number")]
    for end in (estimate.low, estimate.high) if estimate is not None else (None, None):
        cells.append(cell("not estimable", "absent") if end is None else cell(shown.number(end, 5), "number"))
    return [
        *cells,
        cell(shown.number(min(present), 5), "number"),
        cell(shown.number(max(present), 5), "number"),
    ]


def published_words(result: Result, point: Mapping[str, str]) -> str:
    """What the source states for a setting, with its hedges."""
    says = []
    for number in result.published:
        if all(point.get(name) == level for name, level in number.point.items()):
            shown = display(result.quantity.unit, [number.high])
            to = f" to {shown.text(number.high)}" if number.high != number.low else ""
            says.append(f"{number.qualifier} {shown.text(number.low)}{to}".strip())
    return "; ".join(dict.fromkeys(says))


def _values_table(data: Gathered, path: str, results: Sequence[Result]) -> Block:
    """One row per run, one column per statistic; an absent value is said."""
    split = len({one.realisation for one in results[0].cells}) > 1
    displays = [display(r.quantity.unit, [v for one in r.cells for v in one.present]) for r in results]
    columns = [
        f"{result.quantity.statistic} ({shown.unit})" if shown.unit else result.quantity.statistic
        for result, shown in zip(results, displays, strict=True)
    ]
    rows: dict[str, list[Block]] = {}
    for result in results:
        for one in result.cells:
            for value in one.values:
                start = [cell(value.run)] + [cell(one.point.get(name, "")) for name in data.varying]
                rows.setdefault(value.run, start + ([cell(one.realisation)] if split else []))
    width = len(data.varying) + 1 + split
    for at, (result, shown) in enumerate(zip(results, displays, strict=True)):
        for one in result.cells:
            for value in one.values:
                row = rows[value.run]
                row += [cell("no value", "absent")] * (width + at - len(row))
                row.append(
                    cell("no value", "absent")
                    if value.value is None
                    else cell(shown.number(value.value, 6), "number")
                )
    for row in rows.values():
        row += [cell("no value", "absent")] * (width + len(results) - len(row))
    role, _, metric = path.rpartition(".")
    return {
        "id": names.values_table(role, metric),
        "title": f"values per run ({grouped(len(rows))})",
        "caption": f"{path}: every statistic of every valid run",
        "head": head("run", *data.varying, *([REALISATION] if split else []), *columns, numbers=columns),
        "rows": [{"cells": rows[run], "out": False} for run in sorted(rows)],
    }


def source_figure(entry: Entry, present: frozenset[str]) -> Block:
    """One row of the section on the source's figures: links to what stands in this page, words for what does not."""
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
        f"{points}, {spread} valid run{'' if repetitions == [1] else 's'} each, in randomised, seeded order, interleaved "
        "over the factors. The unit of replication is the independent run, not the packet."
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
    """Objects in groups that were intended, applied and read back alike; what was read back differently is marked."""
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
    """Names that were applied with one value and read back with another."""
    return [
        name for name, value in one.applied.items() if name in one.read_back and one.read_back[name] != value
    ]


def _facts(values: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)

    return ", ".join(f"{name} {text(value)}" for name, value in values.items()) or "—"
