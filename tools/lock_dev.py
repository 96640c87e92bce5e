"""Writes requirements-dev.lock: the project's dependencies and its `dev` group, pinned with hashes."""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())
wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
    source.write("\n".join(wanted))
    source.flush()
    options = "-q --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --no-annotate"
    pins = "--strip-extras --allow-unsafe --generate-hashes -o requirements-dev.lock"
    command = [sys.executable, "-m", "piptools", "compile", *options.split(), *pins.split(), source.name]
    subprocess.run(command, check=True)
