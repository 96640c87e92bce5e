"""Writes requirements-dev.lock, requirements-oracles.lock and requirements-benches.lock: groups, pinned with hashes.

The first has the project's dependencies and its `dev` group; the others have `oracles` and `benches`, in versions that
go with it.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path


def compiled(wanted: list[str], lock: Path, constraint: Path | None = None) -> None:
    """Pins what is wanted, and what that needs, in the lock file."""
    with tempfile.TemporaryDirectory() as folder:
        source, within = Path(folder, "wanted.in"), Path(folder, "within.txt")
        source.write_text("\n".join(wanted))
        options = (
            "-q --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --no-annotate"
        )
        pins = f"--strip-extras --allow-unsafe --generate-hashes -o {lock}"
        command = [sys.executable, "-m", "piptools", "compile", *options.split(), *pins.split()]
        if constraint is not None:
            within.write_text("\n".join(re.findall(r"^\S+==[^\s\\]+", constraint.read_text(), re.MULTILINE)))
            command += ["-c", str(within)]
        subprocess.run([*command, str(source)], check=True)


if __name__ == "__main__":
    declared = tomllib.loads(Path("pyproject.toml").read_text())
    groups = declared["dependency-groups"]
    development = Path("requirements-dev.lock")
    compiled(declared["project"]["dependencies"] + groups["development"], development)
    for group in ("oracles", "benches"):
        compiled(groups[group], Path(f"requirements-{group}.lock"), development)
