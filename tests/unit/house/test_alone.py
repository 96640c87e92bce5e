"""Tests are where their folder says, and those of one room are alone."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "tests" / "unit"


def connect() -> None:
    with socket.socket() as made:
        made.connect(("127.0.0.1", 9))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: subprocess.run(["true"], check=False), "starts a process"),
        (lambda: os.system("true"), "starts a process"),
        (os.fork, "starts a process"),
        (multiprocessing.get_context("spawn").Process(target=print).start, "starts a process"),
        (connect, "connects to a machine"),
    ],
    ids=["subprocess", "system", "fork", "spawn", "connect"],
)
def test_what_is_not_alone_fails_at_the_call(call: Callable[[], object], what: str) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=rf"test_alone.*{what}; move it to tests/process, or mark it"
    ):
        call()


def test_every_folder_of_unit_tests_is_one_of_the_package() -> None:
    folders = {path.parent.relative_to(UNIT) for path in UNIT.rglob("*.py")} - {Path("house")}
    assert [str(folder) for folder in folders if not (ROOT / "python" / "virtlab" / folder).is_dir()] == []
    assert Path() not in folders


def test_no_unit_test_may_start_a_process() -> None:
    word = "mark." + "process"
    assert [path.name for path in UNIT.rglob("test_*.py") if word in path.read_text(encoding="utf-8")] == []
