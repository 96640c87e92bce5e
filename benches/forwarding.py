"""What the forwarding study needs: a generator and a receiver of twelve flows, and a quick form that is quick.

Twelve flows of 64 B frames, each with number and time stamp, beside a single flow and beside what trafgen sends from
one CPU without either; they take turns, and medians are compared: `ratio` is value over `peer`. Then the quick form: 12
guests x 5 frame sizes x 4 values of k, three runs of each. A third of its runs is made, one round in the study's own
order, by the command that a user gives; the time of all is three times that, its `ratio` the time over its goal.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import probe
from probe import pw

QUICK = Path(__file__).parents[1] / "experiments" / "forwarding-fairness" / "quick.yaml"
GOAL_S = 600.0
ROUND = 20  # runs: one of every design point
ROUNDS = 3


FLOWS = "raw_stream of 12 flows"


def bench() -> Iterator[dict[str, Any]]:
    """Rates of twelve flows beside peers; seconds of the whole study, and how many of the runs that were made count."""
    why_not = pw.missing()
    if why_not is None:
        with pw.two_guests() as world:
            yield from flows(world)
    else:
        yield {"name": FLOWS, "value": None, "unit": "packet/s", "missing": why_not}
    yield from study()


def flows(world: pw.World) -> Iterator[dict[str, Any]]:
    """Frames per second of twelve flows that arrive."""
    ours = probe.flood(world)
    turns = {"raw_stream": lambda: ours("raw_stream")[0], FLOWS: lambda: ours("raw_stream", flows=12)[0]}
    if shutil.which("trafgen"):
        turns["trafgen"] = lambda: probe.trafgen(world)
    rate = {name: statistics.median(values) for name, values in probe.interleaved(turns).items()}
    for peer, goal in (("raw_stream", "ratio >= 0.85"), ("trafgen", "ratio >= 0.65")):
        figure = {"name": f"{FLOWS}, peer {peer}", "value": round(rate[FLOWS]), "unit": "packet/s"}
        if peer in rate:
            figure |= {"peer": round(rate[peer]), "ratio": round(rate[FLOWS] / rate[peer], 3), "goal": goal}
        else:
            figure |= {"missing": "trafgen (Debian package netsniff-ng) is not installed"}
        yield figure


def study() -> Iterator[dict[str, Any]]:
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
        "ratio": round(taken_s / GOAL_S, 3), "goal": "ratio <= 1",
    }  # fmt: skip
    yield {
        "name": "forwarding.good_runs",
        "value": round(good / len(records), 3),
        "unit": "ratio",
        "of": len(records),
    }
