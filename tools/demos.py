"""How often `virtlab demo --real` leaves a claim undecided beside processor hogs: `python -m tools.demos --runs 20`.

Each demonstration is made anew, in a folder of its own; the last line is JSON. Exit code 1 when more than one in
twenty left a claim undecided or found one refuted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tools.hogs import hogs

VIRTLAB = Path(sys.executable).with_name("virtlab")


def one() -> dict[str, Any]:
    """A demonstration: its verdicts with real packets, seconds, and how many runs were spoilt."""
    with tempfile.TemporaryDirectory(prefix="virtlab-demos-") as folder:
        begun = time.monotonic()
        command = [VIRTLAB, "demo", "--real", "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begun
        if done.returncode not in {0, 1, 4}:
            raise SystemExit(f"virtlab demo ended with {done.returncode}: {done.stderr.strip()}")
        told = json.loads(done.stdout)["answers"]["testbed"]
        verdicts = {each["id"]: each["verdict"] for each in told["verdicts"]}
        return {"seconds": round(seconds, 1), "verdicts": verdicts, "runs": told["runs"]}


def main() -> int:
    """0 when at least 19 of 20 decided every claim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--hogs", type=int, default=2)
    asked = parser.parse_args()
    found = []
    with hogs(asked.hogs):
        for _ in range(asked.runs):
            found.append(one())
            print(json.dumps(found[-1]), flush=True)
    whole = Counter(
        "decided" if set(each["verdicts"].values()) == {"holds"} else "not decided" for each in found
    )
    seconds = sorted(each["seconds"] for each in found)
    print(
        json.dumps(
            {**whole, "hogs": asked.hogs, "slowest_s": seconds[-1], "median_s": seconds[len(seconds) // 2]}
        )
    )
    return int(whole["not decided"] > asked.runs / 20)


if __name__ == "__main__":
    sys.exit(main())
