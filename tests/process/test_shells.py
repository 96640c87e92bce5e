"""Completion in a real bash, and colours that NO_COLOR takes away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from virtlab.experiment.templates import template

VIRTLAB = Path(sys.executable).with_name("virtlab")
ENVIRONMENT = {**os.environ, "PATH": f"{VIRTLAB.parent}{os.pathsep}{os.environ['PATH']}"}


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    given = " ".join(f"'{word}'" for word in ("virtlab", *words))
    script = (
        "source <(virtlab completion bash)\n"
        f"COMP_WORDS=({given}); COMP_CWORD={len(words)}\n_virtlab\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[:-1]


def test_bash_completes_commands_options_and_levels(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(template("load", "demo"))
    assert completed(tmp_path, "chec") == ["check"]
    assert completed(tmp_path, "run", "--jun") == ["--junit"]
    assert completed(tmp_path, "run", "demo.yaml", "--points", "load", "=", "2") == ["20\\ kB"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_another_shell_is_one_that_it_reads(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    script = subprocess.run([VIRTLAB, "completion", shell], capture_output=True, text=True, check=True).stdout
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_no_color_takes_colours_away(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(template("demo", "demo"))
    command = [VIRTLAB, "run", "demo.yaml", "--backend", "simulator", "--no-report", "--jobs", "1"]

    def said(**more: str) -> str:
        environment = {name: value for name, value in ENVIRONMENT.items() if name != "NO_COLOR"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | {"FORCE_COLOR": "1", "TERM": "xterm-256color"} | more,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    green = "\x1b[1;32m"
    assert green in said()
    assert green not in said(NO_COLOR="1")
