"""The lowest and the newest versions that `pyproject.toml` allows: `python -m tools.bounds WHEEL`.

Each set, the extras' among them, goes into an empty environment with the wheel. There `virtlab demo` has to answer, a
worker of Dask to simulate a run, and a plot to be drawn.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = """
from pathlib import Path
import distributed
import virtlab as vl
from virtlab.cli.main import main
from virtlab.experiment.templates import template

if __name__ == "__main__":
    Path("extras.yaml").write_text(template("demo", "extras"))
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        words = ["--backend", "simulator", "--scheduler", cluster.scheduler_address, "--no-report"]
        try:
            main(["run", "extras.yaml", *words])
        except SystemExit as ended:
            assert ended.code == 0, ended.code
    results = vl.open("extras.results")
    for ending in ("svg", "png"):
        results.figure(results.figures[0]).save(f"plot.{ending}")
"""  # what uses every extra


def direct(project: dict[str, Any]) -> list[str]:
    """Every direct dependency of a user, those of the extras among them.

    >>> direct({"dependencies": ["rich>=14"], "optional-dependencies": {"dask": ["distributed>=2025.1"]}})
    ['rich>=14', 'distributed>=2025.1']
    """
    return [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]


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
        (place / "extras.py").write_text(EXTRAS)
        subprocess.run([python, "extras.py"], cwd=place, check=True, stdout=subprocess.DEVNULL)
        verdicts = [one["verdict"] for one in json.loads(done.stdout)["answers"]["simulator"]["verdicts"]]
        frozen = subprocess.run(
            [python, "-m", "pip", "list", "--format", "freeze"], check=True, capture_output=True, text=True
        )
        print(f"{name}: {verdicts} with {' '.join(frozen.stdout.split())}")


def main() -> None:
    """Both sets."""
    wheel = Path(sys.argv[1]).resolve()
    declared = direct(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    tried("newest", declared, wheel)
    tried("lowest", [lowest(one) for one in declared], wheel)


if __name__ == "__main__":
    main()
