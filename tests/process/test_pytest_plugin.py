"""The pytest plug-in, tried as its users do: off until named, and a test fails unless every claim holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtlab.experiment.templates import template

TESTS = """
def test_the_network_holds(virtlab_run):
    assert len(virtlab_run("holds.yaml").verdicts) == 3

def test_the_network_does_not(virtlab_run):
    virtlab_run("refuted.yaml")

def test_judged_here(virtlab_run):
    assert virtlab_run("refuted.yaml", check=False).exit_code == 1

def test_a_wrong_file(virtlab_run):
    virtlab_run("wrong\\x1b[2J.yaml")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    good = template("demo", "demo")
    (tmp_path / "holds.yaml").write_text(good)
    (tmp_path / "refuted.yaml").write_text(good.replace("within 2441.6 us +- 15 %", "within 1 us +- 15 %"))
    (tmp_path / "wrong\x1b[2J.yaml").write_text("version: 1\nname: w\nhosts: x\n")
    (tmp_path / "test_network.py").write_text(TESTS)
    return tmp_path


def run(folder: Path, *options: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, f"--rootdir={folder}", "test_network.py"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    return done.stdout


def test_a_test_fails_with_the_sentences_of_its_claims(folder: Path) -> None:
    said = run(folder, "-p", "virtlab.pytest", "--virtlab-backend", "simulator")
    assert "2 failed, 2 passed" in said
    assert "refuted: The second switch delays each frame once more: no" in said
    assert "wrong\u241b[2J.yaml: " in said  # what its name orders a terminal to do is shown, and not done
    assert "\x1b[2J" not in said
    assert "Traceback" not in said


def test_it_is_off_until_it_is_named(folder: Path) -> None:
    assert "fixture 'virtlab_run' not found" in run(folder)
