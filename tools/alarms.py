"""How often `virtlab compare` is wrong: short real runs with busy neighbours, recorded once, then drawn in pairs.

    python -m tools.alarms record FOLDER --runs 400     resumes; beside one busy process
    python -m tools.alarms judge FOLDER                 counts over all pairs, in seconds
    python -m tools.alarms live FOLDER --pairs 10       pairs of datasets made now, compared by the command itself

The file has one factor, the propagation of a link, at 2 ms and 5 % more; its runs alternate, so noise that comes and
goes meets both. A pair is two blocks of runs that follow each other in time, as two datasets of a day do. Of equal
blocks an alarm is `better` or `worse` in any quantity. Of unequal ones the difference is found when the mean round
trip is `worse`, at once or after as many further runs as the first answer asks for. Pairs begin at every run: they
overlap, so their share is an unbiased figure with fewer independent pairs behind it than are counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.hogs import hogs

from virtlab.changes import Baseline, Changes, Margins, Measured, differences
from virtlab.cli.dataset.sources import read_source
from virtlab.stats import proportion_interval

ALARMS_MOST, FOUND_LEAST = 0.05, 0.9
QUANTITY = "probe.rtt.mean"
LEVELS = ("2 ms", "2.1 ms")
MARGIN = "2 %"  # a twentieth more propagation has to be beyond it
FILE = """\
version: 1
name: alarms
title: Runs that are compared with each other
factors: {{propagation: [{levels}]}}
hosts: 2
topology: line
link: {{rate: 10 Mbit/s, propagation: "${{propagation}}"}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 200 B ip_packet, interval: 10 ms, count: 30}}
timing: {{warmup: 50 ms, pause: 50 ms, drain: 50 ms}}
repeat: {repeat}
"""
VIRTLAB = Path(sys.executable).with_name("virtlab")


@dataclass
class Tally:
    """Answers about pairs, by what each should be."""

    equal: Counter[str] = field(default_factory=Counter)
    unequal: Counter[str] = field(default_factory=Counter)

    def share(self, answers: Counter[str], *words: str) -> dict[str, Any]:
        """How many of the answers are among the words, with the exact interval as if pairs were independent."""
        hits, count = sum(answers[word] for word in words), sum(answers.values())
        found = proportion_interval(hits, count)
        return {
            "hits": hits,
            "pairs": count,
            "share": found.point if found else None,
            "interval": [found.low, found.high] if found else None,
            "answers": dict(answers),
        }


def block(source: Baseline, level: str, begin: int, count: int) -> Baseline:
    """The runs of a level from one on, as a dataset of one setting."""
    quantities = []
    for one in source.quantities:
        values = next(each.values for each in one.measured if each.levels["propagation"] == level)
        part = Measured(levels={}, links="", values=values[begin : begin + count])
        quantities.append(one.model_copy(update={"measured": [part]}))
    return source.model_copy(update={"quantities": quantities})


def length(source: Baseline) -> int:
    """Runs that both levels have."""
    return min(len(each.values) for one in source.quantities for each in one.measured)


def word(changes: Changes) -> str:
    """The answer about a whole pair: an alarm of any quantity before what is unclear or equal."""
    found = {row.finding for row in changes.rows}
    return next(
        (each for each in ("worse", "better", "different", "undecided") if each in found), "equivalent"
    )


def judged(source: Baseline, runs: int) -> Tally:
    """All pairs of blocks of so many runs."""
    tally, margins, every = Tally(), Margins.parse([MARGIN]), length(source)
    for begin in range(every - 2 * runs + 1):
        for level in LEVELS:
            pair = block(source, level, begin, runs), block(source, level, begin + runs, runs)
            tally.equal[word(differences(*pair, margins))] += 1
        tally.unequal[_slower(source, begin, runs, margins, every)] += 1
    return tally


def _slower(source: Baseline, begin: int, runs: int, margins: Margins, every: int) -> str:
    """The answer about a block and a slower one after it, at the number of runs that the first answer asks for."""
    count = runs
    while True:
        pair = block(source, LEVELS[0], begin, count), block(source, LEVELS[1], begin + count, count)
        (row,) = (one for one in differences(*pair, margins).rows if one.path == QUANTITY)
        if row.finding != "undecided" or count > runs:
            return row.finding
        count += row.more_runs or 0
        if row.more_runs is None or begin + 2 * count > every:
            return "more runs than were recorded"


def record(folder: Path, runs: int, neighbours: int) -> None:
    """One dataset of all runs; continued where it ended."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "alarms.yaml"
    file.write_text(FILE.format(levels=", ".join(LEVELS), repeat=runs // len(LEVELS)), encoding="utf-8")
    with hogs(neighbours):
        _virtlab("run", file, "--dataset", folder / "alarms.results", "--no-report", allowed={0, 4})
    _virtlab("compare", folder / "alarms.results", "--save-baseline", folder / "alarms.json")


def live(folder: Path, pairs: int, runs: int, neighbours: int) -> Counter[str]:
    """Pairs of equal datasets made now, and what `virtlab compare` says of each by its exit code."""
    told: Counter[str] = Counter()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "live.yaml"
    file.write_text(FILE.format(levels=LEVELS[0], repeat=runs), encoding="utf-8")
    for number in range(pairs):
        names = [folder / f"live-{number}-{side}.results" for side in ("old", "new")]
        with hogs(neighbours):
            for name in names:
                _virtlab("run", file, "--dataset", name, "--no-report", allowed={0, 4})
        done = _virtlab("compare", *names, "--margin", MARGIN, "--json", allowed={0, 1, 4})
        found = {row["finding"] for row in json.loads(done.stdout)["changes"]}
        told["alarm" if found & {"worse", "better", "different"} else "no alarm"] += 1
    return told


def _virtlab(
    *words: str | Path, allowed: frozenset[int] | set[int] = frozenset({0})
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([VIRTLAB, *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in allowed:
        raise SystemExit(f"virtlab {words[0]} ended with {done.returncode}")
    return done


def main() -> int:
    """0 when both figures are met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["record", "judge", "live"])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--runs", type=int, help="recorded: of both levels (400); judged, live: on each side of a pair (8)"
    )
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--hogs", type=int, default=1)
    asked = parser.parse_args()
    if asked.what == "record":
        record(asked.folder, asked.runs or 400, asked.hogs)
        return 0
    if asked.what == "live":
        told = live(asked.folder, asked.pairs, asked.runs or 8, asked.hogs)
        print(json.dumps({"live": told}))
        return int(told["alarm"] > ALARMS_MOST * asked.pairs)
    file = asked.folder / "alarms.json"
    tally = judged(
        read_source(file if file.exists() else asked.folder / "alarms.results", [], every=False),
        asked.runs or 8,
    )
    equal = tally.share(tally.equal, "worse", "better", "different")
    unequal = tally.share(tally.unequal, "worse")
    print(json.dumps({"equal pairs that alarm": equal, "slower pairs that are found": unequal}, indent=1))
    return int((equal["share"] or 0) > ALARMS_MOST or (unequal["share"] or 0) < FOUND_LEAST)


if __name__ == "__main__":
    sys.exit(main())
