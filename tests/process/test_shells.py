"""Completion in a real bash, zsh and fish, and colours that NO_COLOR takes away."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
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


def there(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("virtlab chec", {"check"}),
        ("virtlab run --jun", {"--junit"}),
        ("virtlab run demo.yaml --points load=2", {"load=20 kB"}),
        ("virtlab export --to ", {"influx=", "otlp=", "prometheus-textfile=", "remote-write="}),
    ],
)
def test_fish_completes_commands_options_and_levels(line: str, found: set[str], tmp_path: Path) -> None:
    there("fish")
    (tmp_path / "demo.yaml").write_text(template("load", "demo"))
    command = ["fish", "--no-config", "-c", f"virtlab completion fish | source; complete -C '{line}'"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    offered = {one.split("\t")[0].replace("\\", "") for one in done.stdout.splitlines()}
    assert found <= offered, offered


def typed(folder: Path, line: str) -> str:
    """What a line becomes in an interactive zsh by the tab key: the line is then printed instead of run."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(
            "zsh", ["zsh", "-f", "-i"], {**ENVIRONMENT, "PS1": "", "TERM": "dumb", "HOME": str(folder)}
        )
    seen = ""

    def until(word: str) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        while word not in seen:
            assert time.monotonic() < end, seen
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 4096).decode(errors="replace")

    try:
        setting = "unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -D -u"
        os.write(terminal, f"{setting}; source <(virtlab completion zsh); print rea''dy\n".encode())
        until("ready")
        os.write(terminal, f"{line}\t\x01print -r -- 'e''nd' \n".encode())
        until("\nend ")
        while "\n" not in seen.split("\nend ", 1)[1]:
            seen += os.read(terminal, 4096).decode(errors="replace")
        return seen.split("\nend ", 1)[1].splitlines()[0].strip()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


@pytest.mark.parametrize(
    ("line", "completed_line"),
    [
        ("virtlab chec", "virtlab check"),
        ("virtlab run --jun", "virtlab run --junit"),
        ("virtlab run demo.yaml --points load=2", "virtlab run demo.yaml --points load=20 kB"),
    ],
)
def test_zsh_completes_commands_options_and_levels(line: str, completed_line: str, tmp_path: Path) -> None:
    there("zsh")
    (tmp_path / "demo.yaml").write_text(template("load", "demo"))
    assert typed(tmp_path, line) == completed_line


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_another_shell_is_one_that_it_reads(shell: str) -> None:
    there(shell)
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
