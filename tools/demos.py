"""How often a claim stays undecided beside processor hogs: `python -m tools.demos --runs 20 [--file FILE]`.

Without a file it is `virtlab demo --real` that is repeated, within a minute each, and all its claims have to hold;
with one it is `virtlab run FILE`, and its claims have to be decided. Each is made anew, in a folder of its own; the
last line is JSON. Exit code 1 when more than one in twenty left a claim open or took longer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.hogs import hogs

MOST_S = 60.0  # of a demonstration
VIRTLAB = Path(sys.executable).with_name("virtlab")


def answered(arguments: list[str | Path], folder: str) -> dict[str, Any]:
    """What a command of virtlab prints as JSON, once it has made its runs."""
    command: list[str | Path] = [VIRTLAB, *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1, 4}:
        raise SystemExit(f"virtlab {arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def demonstration(folder: str) -> dict[str, Any]:
    """The answers of a demonstration with real packets."""
    answer: dict[str, Any] = answered(["demo", "--real"], folder)["answers"]["testbed"]
    return answer


def experiment(file: Path) -> Callable[[str], dict[str, Any]]:
    """The same of an experiment file."""
    arguments: list[str | Path] = ["run", file.resolve(), "--dataset", "made.results", "--no-report"]
    return lambda folder: answered(arguments, folder)


def one(make: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Its verdicts, seconds, and how many runs were spoilt."""
    with tempfile.TemporaryDirectory(prefix="virtlab-demos-") as folder:
        begun = time.monotonic()
        told = make(folder)
        seconds = time.monotonic() - begun
    verdicts = {each["id"]: each["verdict"] for each in told["verdicts"]}
    return {"seconds": round(seconds, 1), "verdicts": verdicts, "runs": told["runs"]}


def main() -> int:
    """0 when at least 19 of 20 decided every claim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--hogs", type=int, default=2)
    parser.add_argument("--file", type=Path)
    asked = parser.parse_args()
    make, good = (
        (demonstration, {"holds"}) if asked.file is None else (experiment(asked.file), {"holds", "refuted"})
    )
    found = []
    with hogs(asked.hogs):
        for _ in range(asked.runs):
            found.append(one(make))
            print(json.dumps(found[-1]), flush=True)
    open_ones = sum(not set(each["verdicts"].values()) <= good for each in found)
    seconds = sorted(each["seconds"] for each in found)
    counted = {"decided": len(found) - open_ones, "not decided": open_ones, "hogs": asked.hogs}
    print(json.dumps({**counted, "slowest_s": seconds[-1], "median_s": seconds[len(seconds) // 2]}))
    late = sum(each > MOST_S for each in seconds) if asked.file is None else 0
    return int(max(open_ones, late) > asked.runs / 20)


if __name__ == "__main__":
    sys.exit(main())
