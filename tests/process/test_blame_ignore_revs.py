"""Commits that `git blame` passes over are commits of this history."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def git(*words: str) -> str:
    """What git prints in this repository; a skip where there is no history to ask for."""
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    told = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        pytest.skip(f"git cannot read this folder: {told.stderr.strip()}")
    return told.stdout


def test_every_listed_commit_is_in_the_history() -> None:
    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("a shallow clone does not have the whole history")
    lines = (ROOT / ".git-blame-ignore-revs").read_text(encoding="utf-8").splitlines()
    listed = {line for line in lines if line and not line.startswith("#")}
    assert listed
    assert sorted(listed - set(git("rev-list", "HEAD").split())) == []
