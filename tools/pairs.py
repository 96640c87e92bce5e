"""What `make bench` gives before and after a change: `python -m tools.pairs OLD BENCH... [--rounds 10]`.

OLD is another clone that was set up (`make setup`). Each round runs each bench in both, in an order that is swapped
from round to round, so that what else the machine does falls on both. A line of JSON per figure has both medians and
the ratio new : old, the median over rounds, in an interval that holds it with 95 % (order statistics; an end that so
few rounds cannot bound is null). Figures that one of them lacks are named. Nothing is judged: which way is better, the
goal says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from virtlab.stats.quantiles import quantile_interval

HERE = Path(__file__).resolve().parents[1]


def measured(tree: Path, bench: str) -> dict[str, dict[str, Any]]:
    """The figures that a bench of a clone gives. SystemExit where it does not run."""
    command = [tree / ".venv/bin/python", tree / "benches/run.py", bench]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not found:
        said = done.stderr.strip().splitlines() or ["no figure"]
        raise SystemExit(f"{tree}: the bench '{bench}' ended with {done.returncode}: {said[-1]}")
    return by_name(found)


def by_name(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Those that have a value. A name that a bench gives several times, as it does for several sizes, has its place
    too.

    >>> list(by_name([{"name": "a", "value": 1}, {"name": "b", "value": None}, {"name": "a", "value": 2}]))
    ['a', 'a (2)']
    """
    figures: dict[str, dict[str, Any]] = {}
    places: Counter[str] = Counter()
    for each in found:
        places[each["name"]] += 1
        place = places[each["name"]]
        if isinstance(each.get("value"), int | float):
            figures[each["name"] + (f" ({place})" if place > 1 else "")] = each
    return figures


def compared(bench: str, rounds: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """A line per figure of rounds, each with what the old and the new clone gave."""
    values: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for old, new in rounds:
        for name in old.keys() & new.keys():
            values[name].append((old[name]["value"], new[name]["value"]))
    lines = []
    for name, pairs in values.items():
        ratios = [new / old for old, new in pairs if old > 0]
        interval = quantile_interval(ratios, 0.5)
        figure = rounds[-1][1][name]
        lines.append({
            "bench": bench, "name": name, "unit": figure.get("unit"), "goal": figure.get("goal"),
            "old": median(old for old, _ in pairs), "new": median(new for _, new in pairs),
            "ratio": interval and interval.point, "low": interval and interval.low,
            "high": interval and interval.high, "rounds": len(pairs),
        })  # fmt: skip
    for place, side in enumerate(("old", "new")):
        alone = sorted({name for each in rounds for name in each[place]} - values.keys())
        if alone:
            lines.append({"bench": bench, f"only_{side}": alone})
    return lines


def main() -> int:
    """Prints the lines of each bench as soon as its rounds are over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="the clone to compare with")
    parser.add_argument("bench", nargs="+", help="by name, as in benches/")
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    old = asked.old.resolve()
    if not (old / ".venv/bin/python").exists():
        parser.error(f"{old} is not set up; run 'make setup' there")
    for bench in asked.bench:
        rounds = []
        for number in range(asked.rounds):
            order = (old, HERE) if number % 2 == 0 else (HERE, old)
            told = {tree: measured(tree, bench) for tree in order}
            rounds.append((told[old], told[HERE]))
            print(f"{bench}: round {number + 1} of {asked.rounds}", file=sys.stderr, flush=True)
        for line in compared(bench, rounds):
            print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
