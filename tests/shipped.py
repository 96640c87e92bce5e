"""Shipped experiment files, each read once by a process: tests look at them and change nothing."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from virtlab.experiment import Experiment, load


@cache
def shipped(path: Path) -> Experiment:
    """The experiment in a file of this repository."""
    return load(path)
