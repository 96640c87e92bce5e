"""`python -m tools.fuzz [--seed N] [--count N] [KIND ...]`, or `--replay FILE` for a finding of an earlier call.

One line for each kind of input: how many cases were accepted and refused, how long it took, and the longest case. Each
finding names its file and what came out. Exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tools.fuzz.workers import fuzz, kinds, replay

FOLDER = Path("target/fuzz")


def main() -> int:
    """Runs what the command line asks for; the exit code."""
    found = kinds()
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"of {', '.join(found)}; all when none is named"
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed makes other cases (1)")
    parser.add_argument("--count", type=int, default=0, help="cases of each kind, in place of a full round")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="one case again, as a finding left it")
    asked = parser.parse_args()
    if asked.replay:
        print(replay(asked.replay))
        return 0
    unknown = sorted(set(asked.kinds) - set(found))
    if unknown:
        parser.error(f"{unknown[0]} is no kind of input; there are {', '.join(found)}")
    failed = False
    for kind in asked.kinds or found:
        count = asked.count or found[kind].COUNT
        before = time.monotonic()
        outcome = fuzz(kind, seed=asked.seed, count=count, workers=asked.workers, folder=FOLDER)
        print(
            f"{kind}: {count:,} cases of seed {asked.seed} in {time.monotonic() - before:.0f} s: "
            f"{outcome.accepted:,} accepted, {outcome.refused:,} refused, {len(outcome.findings)} findings; "
            f"the longest took {outcome.longest_s:.2f} s of CPU time",
            flush=True,
        )
        for path, what in outcome.findings:
            failed = True
            print(f"  {path}: {what.strip().splitlines()[-1][:300]}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
