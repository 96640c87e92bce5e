"""The lowest and the newest versions that `pyproject.toml` allows: `python -m tools.bounds WHEEL`.

Each set goes into an empty environment with the wheel, and `virtlab demo` has to answer there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lowest(requirement: str) -> str:
    """The requirement with its lower bound as the only version.

    >>> lowest("typer>=0.29,<0.30"), lowest("qemu.qmp>=0.0.6")
    ('typer==0.29.*', 'qemu.qmp==0.0.6.*')
    """
    match = re.match(r"([\w.-]+)>=([\d.]+)", requirement)
    assert match is not None, f"{requirement} has no lower bound"
    return f"{match[1]}=={match[2]}.*"


def tried(name: str, requirements: list[str], wheel: Path) -> None:
    """Installs and runs; CalledProcessError where that fails."""
    with tempfile.TemporaryDirectory(prefix=f"virtlab-{name}-") as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        python = place / "venv" / "bin" / "python"
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements], check=True)
        subprocess.run([*pip, "--no-deps", wheel], check=True)
        command = [python.with_name("virtlab"), "demo", "--json"]
        done = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True)
        verdicts = [one["verdict"] for one in json.loads(done.stdout)["answers"]["simulator"]["verdicts"]]
        frozen = subprocess.run(
            [python, "-m", "pip", "list", "--format", "freeze"], check=True, capture_output=True, text=True
        )
        print(f"{name}: {verdicts} with {' '.join(frozen.stdout.split())}")


def main() -> None:
    """Both sets."""
    wheel = Path(sys.argv[1]).resolve()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    tried("newest", declared, wheel)
    tried("lowest", [lowest(one) for one in declared], wheel)


if __name__ == "__main__":
    main()
