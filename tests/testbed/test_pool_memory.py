"""Guests that share the memory of a pool: what they fill together is counted, and beyond it the kernel ends one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.leader.memory_accounts import CGROUP_ROOT

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's"),
]
FILLS = 24  # MiB that each guest fills, for a while
FILE = """\
version: 1
name: filled
hosts:
  h1:
    pools: {cores: {cpus: 1, memory: POOL MiB}}
    guests: {app: {count: 2, memory: 48 MiB}}
topology: none
roles:
  one:
    workload: program
    from: h1.app1
    to: h1.app2
    argv: &fill [python3, -c, "import time; b = bytearray(b'x') * (FILLS << 20); time.sleep(1)"]
  two: {workload: program, from: h1.app2, to: h1.app1, argv: *fill}
timing: {together: true, warmup: 0 s, drain: 0 s}
collect: {telemetry: off, series: {}, counters: [guests]}
"""


def played(pool: int) -> tuple[Outcome, dict[str, dict[str, int]]]:
    """The outcome, and counters of each entity as the run ended."""
    experiment = load_text(FILE.replace("POOL", str(pool)).replace("FILLS", str(FILLS)))
    sink = worlds.MemorySink()
    with Testbed().open(plan_run(experiment, experiment.points()[0], 0), worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
        applied = session.realised.objects["pools.h1.cores"].read_back
    assert int(applied.get("memory.limit_in_bytes", applied.get("memory.max"))) == pool << 20
    found: dict[str, dict[str, int]] = {}
    for (entity, counter), value in sink.counters("end").items():
        found.setdefault(entity, {})[counter] = value
    return outcome, found


def groups() -> set[Path]:
    return set(CGROUP_ROOT.rglob("pool-h1.cores"))


def test_what_fits_is_counted_and_nothing_is_taken_back() -> None:
    outcome, by_entity = played(96)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    counted = by_entity["pools.h1.cores"]
    assert 2 * FILLS << 20 <= counted["memory_max_bytes"] <= 96 << 20
    assert counted["memory_limit_hits"] == 0
    assert counted["page_faults"] >= 2 * (FILLS << 20) // 4096 // 512, "at least one for each huge page"
    for guest in ("guests.h1.app1", "guests.h1.app2"):
        own = by_entity[guest]
        assert FILLS << 20 <= own["memory_max_bytes"] <= 48 << 20
        assert own["memory_limit_hits"] == 0
        assert own["page_faults"] <= counted["page_faults"]
    # Pressure is told by version 2 alone; where it is not, it is absent, not zero.
    version_2 = (CGROUP_ROOT / "cgroup.controllers").exists()
    assert ("memory_stalled_ns" in counted) == version_2
    assert not groups()


def test_limits_that_fit_one_by_one_do_not_save_a_guest_from_its_pool() -> None:
    """Each guest may have 48 MiB and wants less than 40, and the pool has 48 for both."""
    outcome, _ = played(48)
    assert outcome.status == "failed"
    assert "signal 9" in " ".join(outcome.reasons)
    assert not groups()
