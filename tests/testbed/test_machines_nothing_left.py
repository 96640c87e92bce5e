"""However a run with virtual machines dies, nothing of it stays: no QEMU, tap, namespace, mount, control group."""

from __future__ import annotations

from pathlib import Path

import machine_world as machines
import pytest
from killing import TIMEOUT_S, abandoned_groups, kill_machines_at_any_moment, own_groups, surroundings

from virtlab.testbed.leader import ledger

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(TIMEOUT_S),
]

PLAYER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import machine_world as machines, testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
bounded = {"cpu_quota_ratio": 0.9} if os.geteuid() == 0 else {}
plan = worlds.echo_plan(machines.machines(worlds.one_host(2), "g1", **bounded), source="g1", target="g2", count=400)
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def taps() -> set[str]:
    """Tap devices that this namespace sees."""
    return {path.parent.name for path in Path("/sys/class/net").glob("*/tun_flags")}


def test_machines_killed_at_any_moment_leave_nothing() -> None:
    ledger.sweep()
    before, groups, devices = surroundings(), own_groups(), taps()
    kill_machines_at_any_moment(PLAYER, seed=5)
    ledger.sweep()
    assert abandoned_groups(groups) == set()
    assert taps() == devices
    assert surroundings() == before
