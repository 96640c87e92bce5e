"""Guests and pools with a part of the machine's swap: what goes there, comes back, and where the kernel stops it."""

from __future__ import annotations

import os

import pytest
import testbed_world as worlds

from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.leader.memory_accounts import accounts_for_swap
from virtlab.testbed.machine import swap_bytes

MIB = 1 << 20
pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's"),
]
HAS_SWAP = pytest.mark.skipif(
    swap_bytes() < 64 * MIB or not accounts_for_swap(),
    reason="this machine has no swap that groups are held to",
)
FILE = """\
version: 1
name: swapped
hosts:
  h1:
    pools: {cores: {cpus: 1, memory: 48 MiB, swap: SWAP MiB}}
    guests: {app: {count: 2, platform: namespace, memory: 48 MiB, swap: SWAP MiB}}
topology: none
roles:
  one:
    workload: program
    from: h1.app1
    to: h1.app2
    argv: &fill [python3, -c, "import time; b = bytearray(b'x') * (24 << 20); time.sleep(1); print(sum(b[::4096]))"]
  two: {workload: program, from: h1.app2, to: h1.app1, argv: *fill}
timing: {together: true, warmup: 0 s, drain: 0 s}
collect: {telemetry: off, series: {}, counters: [guests]}
"""


def played(swap_mib: int) -> tuple[Outcome, dict[tuple[str, str], int]]:
    experiment = load_text(FILE.replace("SWAP", str(swap_mib)))
    sink = worlds.MemorySink()
    with Testbed().open(plan_run(experiment, experiment.points()[0], 0), worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
        applied = session.realised.objects["pools.h1.cores"].read_back
    together = applied.get("memory.memsw.limit_in_bytes")
    assert int(applied["memory.swap.max"] if together is None else together) in {
        swap_mib * MIB,
        (48 + swap_mib) * MIB,
    }
    return outcome, sink.counters("end")


@HAS_SWAP
def test_what_does_not_fit_a_pool_goes_to_its_swap() -> None:
    """Both want some 35 MiB, and the pool has 48: without swap the kernel ends one."""
    outcome, counted = played(48)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert counted["pools.h1.cores", "memory_max_bytes"] <= 48 * MIB
    assert counted["pools.h1.cores", "memory_limit_hits"] > 0
    assert counted["pools.h1.cores", "swapped_in_pages"] > 0
    assert counted["pools.h1.cores", "swap_bytes"] < 48 * MIB
    both = sum(counted[f"guests.h1.app{number}", "swapped_in_pages"] for number in (1, 2))
    assert both == counted["pools.h1.cores", "swapped_in_pages"]


@HAS_SWAP
def test_too_little_swap_ends_a_guest_as_too_little_memory_does() -> None:
    outcome, _ = played(1)
    assert outcome.status == "failed"


def test_more_swap_than_this_machine_has_is_refused_before_anything_is_built() -> None:
    experiment = load_text(FILE.replace("SWAP", str(swap_bytes() // MIB + 1)))
    found = [
        one for one in Testbed().check(plan_run(experiment, experiment.points()[0], 0)) if "swap" in one.path
    ]
    assert [one.path for one in found] == ["pools.h1.cores.swap_bytes"]
    assert "swap" in found[0].cure
