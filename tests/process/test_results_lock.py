"""A dataset has one writer, across processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtlab.errors import DatasetError
from virtlab.results import Dataset


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with Dataset.create(tmp_path / "study.results", "version: 1\n", name="study", seed=7) as dataset:
        with pytest.raises(DatasetError, match=f"process {os.getpid()} \\(study\\)"):
            Dataset.open(dataset.path, writing=True)
        program = "import sys; from virtlab.results import Dataset; Dataset.open(sys.argv[1], writing=True)"
        other = subprocess.run(
            [sys.executable, "-c", program, str(dataset.path)], capture_output=True, text=True, check=False
        )
        assert other.returncode == 1
        assert f"process {os.getpid()}" in other.stderr
    with Dataset.open(dataset.path, writing=True):
        pass
