"""Whether a study's `figures.yaml` leaves nothing out of its source: each figure has an entry, each number a plot.

The table of figures, `published/figures.csv`, has a row for each figure and table of each source (`source`, `number`),
and names the printed numbers that it holds (`values_in`).
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tools.figures import Problem

from virtlab.documents import read_table
from virtlab.report.gather.model import Entry
from virtlab.report.gather.sources.source_figures import read_figures
from virtlab.report.names import slug

DECLINED_MAX = 5  # figures of one source that its study may decline
_NUMBERED = re.compile(r"(Fig|Table)\b")


def check_rows(figures_file: Path | str, table: Path) -> list[Problem]:
    """Every mistake of a `figures.yaml` against the table of figures: a figure of its source that has no entry or
    several, an entry of none, and more declined than `DECLINED_MAX`. ExperimentError if a file cannot be read.
    """
    figures = read_figures(Path(figures_file))
    if not figures.rows:
        return [Problem(str(figures_file), f"names no source of {table.name}", "add 'rows: NAME'")]
    numbers = [row["number"] for row in figure_rows(table) if row["source"] == figures.rows]
    if not numbers:
        return [Problem("rows", f"'{figures.rows}' is not a source of {table.name}", "correct 'rows'")]
    counted = Counter(entry.figure for entry in figures.entries)
    found = [
        Problem(
            number, "has no entry" if not counted[number] else f"has {counted[number]} entries", "write one"
        )
        for number in numbers
        if counted[number] != 1
    ]
    found += [
        Problem(
            name, f"is not a figure of {figures.rows}", f"name it as column 'number' of {table.name} does"
        )
        for name in counted
        if _NUMBERED.match(name) and name not in numbers
    ]
    declined = [entry.figure for entry in figures.entries if entry.why_not]
    if len(declined) > DECLINED_MAX:
        what = f"{len(declined)} figures are declined ({', '.join(declined)})"
        found.append(Problem("rows", what, f"decline at most {DECLINED_MAX}"))
    return found


def check_marks(figures_file: Path | str, table: Path) -> list[Problem]:
    """Every printed number that a figure of the source holds and that lies on no plot of its entry, and no reason is
    given for; and every reason that is given for nothing. The table of figures names them: `values_in`.
    """
    figures = read_figures(Path(figures_file))
    entries = {entry.figure: entry for entry in figures.entries}
    named = set()
    found = []
    for row in figure_rows(table) if figures.published else ():
        if row["source"] != figures.rows or row["number"] not in entries:
            continue
        entry = entries[row["number"]]
        for file, metric in _values_in(row["values_in"]):
            named.add(metric)
            drawn = [one for one in figures.published if one.file == file and _is_of(one.metric, metric)]
            if metric not in figures.not_marked and not any(_drawn(one.path, entry) for one in drawn):
                cure = "draw it under 'published', or say why not under 'not_marked'"
                found.append(Problem(entry.figure, f"'{metric}' of {file} lies on none of its plots", cure))
    found += [
        Problem("not_marked", f"no figure of {figures.rows} holds '{metric}'", "remove it")
        for metric in figures.not_marked
        if metric not in named
    ]
    return found


def _values_in(text: str) -> list[tuple[str, str]]:
    """Files and metrics of a cell such as `a.csv: rtt_mean, jitter (Table 5); b.csv: loss`."""
    found = []
    for part in re.sub(r"\([^)]*\)", "", text).split(";"):
        file, _, metrics = part.partition(":")
        found += [(file.strip(), metric.strip()) for metric in metrics.split(",") if metric.strip()]
    return found


def _is_of(metric: str, named: str) -> bool:
    """Whether a metric is the one that is named, or a scenario of it: `iperf_throughput: one direction`."""
    return metric == named or metric.startswith(f"{named}:")


def _drawn(path: str, entry: Entry) -> bool:
    """Whether a plot or table of an entry shows a path."""
    role_metric = path.rpartition(".")[0]
    names = slug(path), f"table-of-{slug(role_metric)}"
    return any(plot == name or plot.startswith(f"{name}-by-") for plot in entry.plots for name in names)


def figure_rows(table: Path) -> list[dict[str, str]]:
    """The rows of the table of figures. ExperimentError when the table cannot be read."""
    return [row for _, row in read_table(table, ("source", "number"), cure="name the table of figures")]
