"""All tests, for `make unit`: those that only compute run in the processor time that the others leave.

Tests of real worlds run in two processes (`tests/conftest.py`), and wait most of the time: for packets, for machines
that boot. A third process would starve the worlds of these two, unless it took only what they leave. So the tests that
start nothing, which are marked `alone` (`tests/alone.py`), and those marked `computes`, whose processes are late for
nothing, run in two processes of the policy SCHED_IDLE: they give their processor at once to whoever else wants it. (Beside
two of this policy that never rest, a process that sleeps for a millisecond wakes as promptly as without them.) What
these print comes after what the others print.

    python -m tools.beside
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTEST = (sys.executable, "-m", "pytest")
COMPUTING = "alone or computes"
# Groups in the order of tests/conftest.py, the longest first, not by how many tests each has.
IN_TWO = ("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
OTHERS = (*IN_TWO, "-m", f"not ({COMPUTING})")
ASIDE = (*IN_TWO, "-p", "no:cacheprovider", "-m", COMPUTING)


def main(arguments: Sequence[str]) -> int:
    """Runs both, each with these arguments; the exit code is that of the others, or else of those that compute."""
    with tempfile.TemporaryFile("w+") as said:
        aside = subprocess.Popen(
            [*PYTEST, *ASIDE, *arguments],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
        )  # fmt: skip
        os.sched_setscheduler(aside.pid, os.SCHED_IDLE, os.sched_param(0))
        others = subprocess.Popen([*PYTEST, *OTHERS, *arguments], cwd=ROOT)
        with suppress(KeyboardInterrupt):  # it reaches both, which then end
            others.wait()
            aside.wait()
        others.wait()
        aside.wait()
        said.seek(0)
        print("\ntests that only compute, beside the others:", said.read(), sep="\n", end="")
    return others.returncode or aside.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
