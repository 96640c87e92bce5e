"""Turns of tests: shared ones go on beside each other, an undisturbed one goes on beside none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
PLAYER = """
import sys, time
import turns
print("waits", flush=True)
with turns.turn(undisturbed=sys.argv[1] == "undisturbed"):
    print(time.monotonic_ns(), flush=True)
    sys.stdin.readline()
    print(time.monotonic_ns(), flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The module with files of its own to lock: this very test has a turn in the other folder."""
    for name in ("turns.py", "conftest.py"):
        shutil.copyfile(HERE / name, tmp_path / name)
    return tmp_path


def player(kind: str, folder: Path) -> subprocess.Popen[str]:
    """A process that asks for a turn, and keeps it until it is told to go."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTLAB_TEST_TURN"}
    process = subprocess.Popen(
        [sys.executable, "-c", PLAYER, kind],
        env=environment | {"PYTHONPATH": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert heard(process) == "waits"
    return process


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: subprocess.Popen[str]) -> str:
    """What it said after it was told to go, and before that where nobody has read it."""
    out, _ = process.communicate("go\n", timeout=60)
    assert process.returncode == 0
    return out


def test_a_test_does_not_wait_for_others_that_share_their_turns(folder: Path) -> None:
    first, second = player("shared", folder), player("shared", folder)
    began = [int(heard(first)), int(heard(second))]  # the second began while the first goes on
    assert int(ended(first)) > max(began)
    ended(second)


def test_an_undisturbed_test_begins_when_the_others_have_ended_and_others_after_it(folder: Path) -> None:
    first = player("shared", folder)
    heard(first)
    alone = player("undisturbed", folder)
    ends = int(ended(first))
    begins = int(heard(alone))
    assert begins > ends
    last = player("shared", folder)
    ends = int(ended(alone))
    assert int(ended(last).split()[0]) > ends
