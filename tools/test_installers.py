"""Installs a wheel by pip, uv and pipx, each in an empty place, and asks it: `python -m tools.test_installers dist`.

`python -m tools.test_installers dist uv pipx` tries these two. What the wheel needs comes from the index, in the
versions of `requirements.lock`, as a user who installs it would get it. From the packages to the first simulated
verdict it takes 15 s at most. A machine that others use too may give its processors to them: what counts is the smaller
of the time that passed and the time that processors worked. `tools/test_wheel.py` asks for real packets.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VERDICT_MOST_S = 15.0
Installer = Callable[[Path, Path, Path, Path], Path]


def by_pip(place: Path, wheel: Path, within: Path, _tools: Path) -> Path:
    """`python -m venv`, then `pip install`."""
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / "bin" / "python"
    _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", within, wheel])
    return python.with_name("virtlab")


def by_uv(place: Path, wheel: Path, within: Path, tools: Path) -> Path:
    """`uv venv`, then `uv pip install`; no Python is downloaded."""
    uv = [tools / "uv", "--quiet", "--no-config", "--no-python-downloads"]
    _run([*uv, "venv", "--python", sys.executable, place / "venv"])
    python = place / "venv" / "bin" / "python"
    _run([*uv, "pip", "install", "--python", python, "--compile-bytecode", "-c", within, wheel])
    return python.with_name("virtlab")


def by_pipx(place: Path, wheel: Path, within: Path, tools: Path) -> Path:
    """`pipx install`, with a home and a folder of commands of its own."""
    own = {
        "PIPX_HOME": str(place / "home"),
        "PIPX_BIN_DIR": str(place / "bin"),
        "PIPX_MAN_DIR": str(place / "man"),
    }
    given = f"--pip-args=-q -c {within}"
    command = [tools / "pipx", "install", "--quiet", "--python", sys.executable, given, wheel]
    _run(command, **own)
    return place / "bin" / "virtlab"


INSTALLERS: dict[str, Installer] = {"pip": by_pip, "uv": by_uv, "pipx": by_pipx}


def main() -> int:
    """0 when every installed command answers; the failing command's error otherwise."""
    (wheel,) = Path(sys.argv[1]).resolve().glob(f"*_{platform.machine()}.whl")
    with tempfile.TemporaryDirectory(prefix="virtlab-installers-") as folder:
        base = Path(folder)
        venv.create(base / "tools", with_pip=True)
        tools = base / "tools" / "bin"
        lock = ROOT / "requirements-installers.lock"
        _run(
            [
                tools / "python",
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                "--require-hashes",
                "-r",
                lock,
            ]
        )
        within = base / "constraints.txt"
        pins = re.findall(r"^[\w.-]+==[^\s\\]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
        within.write_text("\n".join(pins))
        for name in sys.argv[2:] or INSTALLERS:
            install, place = INSTALLERS[name], base / name
            place.mkdir()
            virtlab = install(place, wheel, within, tools)
            told, seconds, worked = _timed([virtlab, "demo", "--json", "--directory", place / "demo"])
            verdicts = [one["verdict"] for one in told["answers"]["simulator"]["verdicts"]]
            assert verdicts == ["holds"] * len(verdicts) != [], f"{name}: {verdicts}"
            assert min(seconds, worked) <= VERDICT_MOST_S, (
                f"{name}: {seconds:.1f} s, of which processors worked {worked:.1f} s"
            )
            version = _run([virtlab, "--version"]).strip()
            print(
                f"{name}: {version}, {len(verdicts)} verdicts after {seconds:.1f} s (limit: {VERDICT_MOST_S:.0f} s)"
            )
    return 0


def _timed(command: list[str | Path]) -> tuple[Any, float, float]:
    """A command's JSON, the seconds that passed, and those that processors worked for it."""
    begun, before = time.monotonic(), _worked()
    told = json.loads(_run(command))
    return told, time.monotonic() - begun, _worked() - before


def _worked() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: list[str | Path], **environment: str) -> str:
    own = {
        key: value
        for key, value in os.environ.items()
        if key not in {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    }
    done = subprocess.run(command, env={**own, **environment}, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
