"""However a run dies in which machines write to disks of their own, nothing of it stays: no process, no room on a disk."""

from __future__ import annotations

import os

import machine_world as machines
import pytest
from killing import TIMEOUT_S, kill_machines_at_any_moment, surroundings

from virtlab.testbed.leader import ledger
from virtlab.testbed.platforms.qemu.disks import FOLDER

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(TIMEOUT_S),
]

SIZE_BYTES = 256 << 20
PLAYER = f"""
import sys
sys.path.insert(0, sys.argv[1])
import machine_world as machines, testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
disk = {{"size_bytes": {SIZE_BYTES}, "medium": "file", "rate_byte_per_s": 2_000_000, "latency_ns": 2_000_000}}
world = machines.machines(worlds.one_host(2), "g1", disk=disk)
role = {{"workload": "request_response", "from": "g2", "to": "g1", "duration_ns": 2 * 10**9, "write_bytes": 4096,
        "write_mode": "fsync", "connections": 4, "threads": 4, "request_bytes": 64, "response_bytes": 64,
        "timeout_ns": 10**10, "backlog": 64, "full": "wait"}}
plan = worlds.plan(world, roles={{"ask": role}}, timeline=[{{"id": "ask", "do": "run", "role": "ask"}}])
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
        assert outcome.status == "ok", outcome.reasons
"""


def room() -> int:
    state = os.statvfs(FOLDER)
    return state.f_bavail * state.f_frsize


def test_machines_with_disks_killed_at_any_moment_leave_nothing() -> None:
    ledger.sweep()
    before, free_bytes = surroundings(), room()
    kill_machines_at_any_moment(PLAYER, seed=7)
    ledger.sweep()
    assert surroundings() == before
    assert room() > free_bytes - SIZE_BYTES, "the bytes of every disk are given back"
