"""Installs the wheel of a folder in an empty environment and uses it there: `python test_wheel.py dist`.

Checks that the command works away from the source tree, and that the agent inside is executable and of this machine.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST_MB = 320  # packages that it needs, compiled, without the extras
LONGEST_S = 15  # of processor time until the first simulated verdict; how long that takes is only printed
UNCOUNTED = {
    "pip",
    "setuptools",
    "pkg_resources",
    "_distutils_hack",
    "virtlab",
}  # of every environment, and ours


def _size_of_packages(environment: Path) -> int:
    """Bytes of the packages that virtlab needs."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    files = (path for path in packages.rglob("*") if path.is_file())
    return sum(path.lstat().st_size for path in files if path.relative_to(packages).parts[0] not in UNCOUNTED)


def _processor_s() -> float:
    """Seconds that ended commands have computed so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """0 when the wheel works; the failing command's error otherwise."""
    (wheel,) = Path(sys.argv[1]).glob(f"*_{platform.machine()}.whl")
    with tempfile.TemporaryDirectory(prefix="virtlab-wheel-") as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        binaries = place / "venv" / "bin"
        pip = [binaries / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements.lock"], check=True)
        subprocess.run([*pip, "--no-deps", wheel.resolve()], check=True)
        size_mb = _size_of_packages(place / "venv") / 1e6
        assert size_mb <= LARGEST_MB, f"the packages take {size_mb:.0f} MB"
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

        def output(*command: str) -> str:
            done = subprocess.run(
                command, cwd=place, env=environment, check=True, capture_output=True, text=True
            )
            return done.stdout

        licences = next((place / "venv").rglob("virtlab-*.dist-info")) / "licenses"
        for kept in (ROOT / "NOTICE", ROOT / "LICENSE", *(ROOT / "licences").iterdir()):
            assert (licences / kept.relative_to(ROOT)).read_bytes() == kept.read_bytes(), kept.name
        version = output(str(binaries / "virtlab"), "--version").strip()
        package = output(str(binaries / "python"), "-c", "import virtlab; print(virtlab.__path__[0])").strip()
        output(f"{package}/_bin/virtlab-agent", "--version")
        output(str(binaries / "virtlab"), "init", "study")
        schema = json.loads(output(str(binaries / "virtlab"), "schema"))
        keys = len(schema["properties"])
        begun, before_s = time.monotonic(), _processor_s()
        demo = json.loads(output(str(binaries / "virtlab"), "demo", "--json"))
        took_s, computed_s = time.monotonic() - begun, _processor_s() - before_s
        assert computed_s <= LONGEST_S, f"the first verdict took {computed_s:.1f} s of processor time"
        verdicts = [one["verdict"] for one in demo["answers"]["simulator"]["verdicts"]]
        assert verdicts == ["holds"] * len(verdicts), verdicts
        output(str(binaries / "virtlab"), "explain", "tainted")
        output(str(binaries / "virtlab"), "manual", str(place / "man"))
        asked = (str(binaries / "virtlab"), "rt", "check-published", "--sets", "10", "--json")
        checks = json.loads(output(*asked))["checks"]
        print(
            f"wheel {wheel.name}: {version}, {size_mb:.0f} MB of packages, the agent runs, the first verdict came "
            f"after {took_s:.1f} s ({computed_s:.1f} s of processor time), a study was written, "
            f"the schema has {keys} keys, {len(checks)} published values and statements were checked"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
