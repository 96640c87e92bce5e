"""Turns of tests: shared ones go on beside each other, an undisturbed one goes on beside none."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import conftest as shared

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


def player(kind: str, folder: Path, *, within: bool = False) -> subprocess.Popen[str]:
    """A process that asks for a turn, and keeps it until it is told to go; `within`: it is of a test that has one."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTLAB_TEST_TURN"}
    if within:
        environment["VIRTLAB_TEST_TURN"] = "1"
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


def wait_until_nobody_may_begin(folder: Path) -> None:
    """Until a process that waits for the others to end holds the lock that every process needs to begin."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with (folder / "turns.py").open() as door:
            try:
                fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
        time.sleep(0.01)
    pytest.fail("an undisturbed test that waits lets others begin")


def test_no_test_begins_while_an_undisturbed_one_waits(folder: Path) -> None:
    first = player("shared", folder)
    heard(first)
    alone = player("undisturbed", folder)
    wait_until_nobody_may_begin(folder)
    second = player("shared", folder)
    ended(first)
    heard(alone)
    ends = int(ended(alone))
    assert int(ended(second).split()[0]) > ends


def test_what_a_test_starts_has_the_turn_of_that_test(folder: Path) -> None:
    first = player("shared", folder)
    begins = int(heard(first))
    inner = player("undisturbed", folder, within=True)
    assert int(heard(inner)) > begins  # it began while the first goes on
    ended(inner)
    ended(first)


def test_groups_of_real_worlds_begin_before_other_tests_with_what_must_be_undisturbed() -> None:
    def item(said: str) -> Any:
        group, _, undisturbed = said.partition(" ")
        marks = {
            "xdist_group": SimpleNamespace(args=(group,)) if group else None,
            "undisturbed": undisturbed or None,
        }
        return SimpleNamespace(get_closest_marker=marks.get)

    said = ["", "tests/process/test_site.py", "pages", "moves", "programs", "machine", "machine undisturbed"]
    assert sorted(said, key=lambda each: shared.place(item(each))) == [
        "machine undisturbed", "machine", "programs", "moves", "pages", "", "tests/process/test_site.py",
    ]  # fmt: skip
    assert {*shared.GROUPS, shared.OTHERS, shared.PAGES} == set(shared.ORDER)
