"""The mistakes of a study's `figures.yaml`, found without running anything: `python -m tools.figures FILE...`

`drawable` derives from an experiment file every plot that its report can hold, so a plot that is named here and will
never be is told with the nearest that will.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.drawable import names_of_experiment, names_of_study

from virtlab.report.gather.model import Entry
from virtlab.report.gather.sources.source_figures import read_figures
from virtlab.units import closest


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in an entry, and the cure."""

    figure: str
    what: str
    cure: str

    def __str__(self) -> str:
        return f"{self.figure}: {self.what}; {self.cure}"


def check_figures(figures_file: Path | str, experiments: Sequence[Path | str] = ()) -> list[Problem]:
    """Every mistake of a `figures.yaml`; empty when each named plot is one that its experiment's report will
    hold, and each experiment of an entry holds one of its plots.

    `experiments` are used for entries that name none; names are looked up beside the file. ExperimentError
    when a file cannot be read at all.
    """
    path = Path(figures_file)
    default = [str(one) for one in experiments]
    known: dict[str, dict[str, str]] = {}
    problems = []
    for entry in read_figures(path).entries:
        problems += _shape(entry)
        files = list(entry.experiments) or default
        if entry.plots and not files:
            problems.append(Problem(entry.figure, "names no experiment", "add 'experiment'"))
            continue
        for name in files:
            if name not in known:
                known[name] = names_of_study(path.parent / name) or names_of_experiment(path.parent / name)
        available = [known[name] for name in files]
        missing = [plot for plot in entry.plots if not any(plot in one for one in available)]
        for plot in missing:
            near = closest(plot, {key for one in available for key in one}, alike=0.3)
            cure = f"the nearest is '{near}'" if near else "see docs/reference/report.md"
            problems.append(Problem(entry.figure, f"no report of {', '.join(files)} holds '{plot}'", cure))
        for name in entry.experiments if entry.plots and not missing else ():
            if not set(entry.plots) & set(known[name]):
                what = f"the report of {name} holds none of its plots"
                problems.append(Problem(entry.figure, what, f"remove {name}, or name a plot of it"))
    return problems


def _shape(entry: Entry) -> list[Problem]:
    """Whether an entry says exactly one thing, and what its figure shows."""
    found = []
    said = [
        key
        for key, value in (
            ("plots", entry.plots),
            ("command", entry.command),
            ("why_not", entry.why_not),
            ("not_yet", entry.not_yet),
        )
        if value
    ]
    if len(said) != 1:
        what = f"has {' and '.join(said)}" if said else "has neither plots, nor a command, nor a why_not"
        found.append(Problem(entry.figure, what, "keep exactly one of plots, command, why_not, not_yet"))
    if not entry.shows:
        found.append(Problem(entry.figure, "does not say what it shows", "add 'shows'"))
    return found


def main() -> int:
    """Prints the mistakes of each file; 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tools.figures", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    found = [f"{file}: {problem}" for file in parser.parse_args().files for problem in check_figures(file)]
    print("\n".join(found) if found else "every named plot will exist")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
