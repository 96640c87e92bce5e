"""Are the tools here that building needs? One line with the cure for each that is not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

RUST = (1, 89)


def problems() -> list[str]:
    """Every missing or too old tool, with its cure."""
    found = []
    if sys.version_info < (3, 11):
        found.append(f"Python {sys.version.split()[0]} is too old; install 3.11 or newer and call 'make PYTHON=python3.11 ...'")
    if shutil.which("cargo") is None:
        found.append("no Rust toolchain; install it with rustup (https://rustup.rs), 1.89 or newer")
    else:
        text = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"(\d+)\.(\d+)", text)
        if not match or (int(match[1]), int(match[2])) < RUST:
            found.append(f"{text.strip() or 'cargo'} is too old; call 'rustup update stable' for 1.89 or newer")
    if shutil.which("cc") is None:
        found.append("no C linker; install gcc (Debian and Ubuntu: apt-get install gcc libc6-dev)")
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        found.append("Python cannot make environments; install python3-venv (Debian and Ubuntu)")
    return found


if __name__ == "__main__":
    missing = problems()
    for line in missing:
        print(f"virtlab: {line}", file=sys.stderr)
    sys.exit(3 if missing else 0)
