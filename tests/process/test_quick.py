"""The part of `make quick` in Python begins: its processes load no pytest-xdist, of whose groups `conftest.py`
speaks.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tools.shares import SECONDS

ROOT = Path(__file__).parents[2]
IN_A_GROUP = "tests/unit/house/test_studies.py"  # as it reads the studies' files (tests/shipped.py)


def words() -> list[str]:
    """The arguments that the Makefile gives, without the places."""
    recipe = re.search(
        r"^\tHYPOTHESIS_PROFILE=quick \S+ -m tools\.shares (.+)$", (ROOT / "Makefile").read_text(), re.M
    )
    assert recipe is not None
    return [word for word in shlex.split(recipe[1]) if not (ROOT / word).exists()]


def test_quick_collects_tests_of_a_group() -> None:
    known = SECONDS.read_bytes() if SECONDS.exists() else None
    listed = subprocess.run(
        [sys.executable, "-m", "tools.shares", *words(), "--collect-only", IN_A_GROUP],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert f"{IN_A_GROUP}::" in listed.stdout
    assert (SECONDS.read_bytes() if SECONDS.exists() else None) == known  # nothing ran, so nothing was timed
