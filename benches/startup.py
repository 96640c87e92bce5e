"""How long the command takes to answer: `virtlab --help` and `virtlab check`, beside an empty Python."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VIRTLAB = Path(sys.executable).with_name("virtlab")
RUNS = 9


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _seconds(command: list[str]) -> float:
    """Compiled sources are kept, as they are for whoever installed the package; the first call writes them."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)
    return time.perf_counter() - begin


def bench() -> Iterator[dict[str, Any]]:
    """Medians of interleaved runs."""
    commands = {
        "startup.help": [str(VIRTLAB), "--help"],
        "startup.check": [str(VIRTLAB), "check", str(ROOT / "experiments/switched-network/quick.yaml")],
    }
    for name, command in commands.items():
        _seconds(command)
        pairs = [(_seconds(command), _seconds([sys.executable, "-c", "pass"])) for _ in range(RUNS)]
        ours, empty = (statistics.median(column) for column in zip(*pairs, strict=True))
        yield {
            "name": name,
            "value": ours,
            "unit": "s",
            "goal": "<= 0.3",
            "peer": "python -c pass",
            "ratio": ours / empty,
        }
