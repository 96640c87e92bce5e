"""`virtlab platforms`: what can be over-allocated is what a platform's declaration bounds, and the machine is this
one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from virtlab.catalogue import PLATFORMS
from virtlab.cli.machine.platforms import _machine, _said_of_machine
from virtlab.cli.main import app
from virtlab.testbed.machine import swap_bytes


def rows() -> dict[str, dict[str, object]]:
    result = CliRunner().invoke(app, ["platforms", "--json", "--no-tried"])
    assert result.exit_code == 0, result.output
    return {row["name"]: row for row in json.loads(result.output)["platforms"]}


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_pools_and_disks_are_those_of_the_declaration(name: str) -> None:
    row = rows()[name]
    assert row["pools"] == ("pool" in PLATFORMS[name].limits)
    assert tuple(row["disks"]) == PLATFORMS[name].disk
    assert ("not ours" in str(row["overallocation_of_memory"])) != row["pools"]


def test_memory_of_machines_is_not_over_allocated_and_that_of_containers_is() -> None:
    found = rows()
    assert found["qemu"]["overallocation_of_memory"] == "balloons in a pool"
    assert found["container"]["overallocation_of_memory"] == "limits in a pool"
    assert found["qemu"]["overallocation_of_processors"] == "vCPUs in a pool"
    assert found["namespace"]["overallocation_of_processors"] == "threads of servers in a pool"


def test_this_machine_is_told_as_its_kernel_has_it(tmp_path: Path) -> None:
    machine = _machine()
    assert machine["processors"] == len(os.sched_getaffinity(0))
    assert machine["memory_pressure"] == Path("/proc/pressure/memory").exists()
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal:      2048 kB\n")
    assert swap_bytes(tmp_path / "meminfo") == 2 << 20
    assert "2 GiB of swap" in _said_of_machine(machine | {"swap_bytes": 2 << 30})
    assert "no swap" in _said_of_machine(machine | {"swap_bytes": 0})
