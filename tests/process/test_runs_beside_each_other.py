"""Runs that several processes make beside each other are counted one by one while they end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from virtlab.cli.main import app

FILE = """
version: 1
name: two
hosts: 2
topology: line
link: {rate: 100 Mbit/s}
repeat: 8
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, count: 10, interval: 10 ms}}
"""


@pytest.mark.slow
def test_every_line_says_how_many_runs_are_done_and_left(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(FILE)
    options = [
        "--backend", "simulator", "--dataset", str(tmp_path / "two.results"), "--jobs", "2", "--no-report",
    ]  # fmt: skip
    result = CliRunner().invoke(app, ["run", str(file), *options])
    assert result.exit_code == 0, result.output
    counts = re.findall(r"; (\d+) runs? done, (\d+) left", result.stderr)
    assert counts == [(str(done), str(8 - done)) for done in range(1, 9)]
