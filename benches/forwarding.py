"""How long the quick form of the forwarding study takes: 12 guests x 5 frame sizes x 4 values of k, three runs of each.

A third of its runs is made, one round in the study's own order, by the command that a user gives; the time of all
is three times that. `ratio` is the time over its goal.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

QUICK = Path(__file__).parents[1] / "experiments" / "forwarding-fairness" / "quick.yaml"
GOAL_S = 600.0
ROUND = 20  # runs: one of every design point
ROUNDS = 3


def bench() -> Iterator[dict[str, Any]]:
    """Seconds of the whole study, and how many of the runs that were made count."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(shutil.copy(QUICK, folder))
        command = [str(Path(sys.executable).parent / "virtlab"), "run", file.name, "--max-runs", str(ROUND)]
        begin = time.monotonic()
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        taken_s = (time.monotonic() - begin) * ROUNDS
        records = [json.loads(path.read_text()) for path in Path(folder).glob("*.results/runs/*/run.json")]
    if not records:
        yield {
            "name": "forwarding.quick_study",
            "value": None,
            "unit": "s",
            "missing": "no run could be made here",
        }
        return
    good = sum(record["status"] == "ok" for record in records)
    yield {
        "name": "forwarding.quick_study", "value": round(taken_s, 1), "unit": "s", "peer": GOAL_S,
        "ratio": round(taken_s / GOAL_S, 3), "goal": "<= 1",
    }  # fmt: skip
    yield {
        "name": "forwarding.good_runs",
        "value": round(good / len(records), 3),
        "unit": "ratio",
        "of": len(records),
    }
