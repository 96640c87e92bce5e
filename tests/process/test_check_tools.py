"""What `make` installs: named before it happens, and not at all with NO_INSTALL=1.

`apt-get` is a program that keeps what it was asked and what had been said by then: a test that installs would change
the machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APT = """#!/bin/sh
read said <"${0%apt-get}said"
echo "$1 $2 after: $said" >>"${0%apt-get}asked"
"""


def checked(folder: Path, *options: str, no_install: str) -> tuple[int, str, list[str]]:
    """The check on a machine that has an `apt-get` and nothing else: exit code, what it said, what apt was asked."""
    (folder / "apt-get").write_text(APT)
    (folder / "apt-get").chmod(0o755)
    (folder / "asked").touch()
    environment = {**os.environ, "PATH": str(folder), "NO_INSTALL": no_install}
    command = [sys.executable, ROOT / "tools" / "check_tools.py", *options]
    with (folder / "said").open("w") as said:
        code = subprocess.run(command, env=environment, stderr=said, check=False).returncode
    return code, (folder / "said").read_text(), (folder / "asked").read_text().splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs without sudo")
def test_what_is_installed_is_said_before(tmp_path: Path) -> None:
    _, said, asked = checked(tmp_path, "--install", "--needed", no_install="")
    first = "virtlab: installing gcc (apt-get install; NO_INSTALL=1 refuses)"
    assert asked == [f"update -qq after: {first}", f"install -y after: {first}"]
    assert "virtlab: gcc is missing" in said  # this apt brings nothing


@pytest.mark.parametrize("options", [["--install"], ["--install", "--platforms"], ["--install", "--arm64"]])
def test_nothing_is_installed_when_that_was_refused(options: list[str], tmp_path: Path) -> None:
    code, said, asked = checked(tmp_path, *options, no_install="1")
    assert (code, asked) == (3, [])
    assert "virtlab: gcc is missing: it links the Rust programs; cure: apt-get install gcc\n" in said
    assert "virtlab: no Rust toolchain" in said
