"""The folder at the top of the repository holds what belongs there, and nothing that a program left behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AT_THE_TOP = """
.dockerignore .git-blame-ignore-revs .gitignore ARCHITECTURE.md CHANGELOG.md CITATION.cff CONTRIBUTING.md Cargo.lock
Cargo.toml Containerfile LICENSE Makefile NOTICE README.md SECURITY.md action.yml clippy.toml pyproject.toml
requirements-benches.lock requirements-dev.lock requirements-installers.lock requirements-oracles.lock
requirements-wheel.lock requirements.lock rustfmt.toml
"""


def git(*words: str) -> list[str]:
    """The lines that git prints of this clone; skips where there is none."""
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    told = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode > 1:
        pytest.skip(f"no clone: {told.stderr.strip()}")
    return told.stdout.splitlines()


def test_the_tracked_files_at_the_top_are_those_that_belong_there() -> None:
    assert sorted(path for path in git("ls-files") if "/" not in path) == sorted(AT_THE_TOP.split())


def test_what_fio_leaves_where_it_runs_is_not_offered_to_git() -> None:
    left = "local-verify-0-verify.state"  # a job's name, its number, and these words
    assert git("check-ignore", left) == [left]
