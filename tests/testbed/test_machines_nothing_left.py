"""However a run with virtual machines dies, nothing of it stays: no QEMU, tap, namespace, mount, control group."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import machine_world as machines
import pytest
from killing import (
    BUDGET_S,
    MACHINE_VICTIMS,
    ROUNDS_MIN,
    TIMEOUT_S,
    abandoned_groups,
    held_namespaces,
    kill,
    kill_machines_at_any_moment,
    own_groups,
    play,
    rounds,
    surroundings,
)

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


MOVER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from migration_world import moving_plan
from virtlab.plan import Trial
from virtlab.testbed import Testbed
print("begin", flush=True)
with Testbed().open(moving_plan(rate_byte_per_s=5_000_000), worlds.Patient()) as session:
    says = worlds.ActingSink(lambda: print("moves", flush=True), at="go.started", later_s=0.0)
    session.run(Trial("t0", 1), says)
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


def test_machines_killed_while_one_moves_leave_nothing() -> None:
    """The copy takes some seventeen seconds: each of these dies within the first ones of it."""
    ledger.sweep()
    before, devices, own = surroundings(), taps(), held_namespaces({os.getpid()})
    draws = random.Random(7)
    for number in rounds(BUDGET_S, ROUNDS_MIN):
        player = play(MOVER)
        player.says("moves")
        time.sleep(draws.uniform(0.0, 4.0))
        victim = MACHINE_VICTIMS[number % len(MACHINE_VICTIMS)]
        assert kill(player, victim, own), f"all was built, and there was no {victim}"
    ledger.sweep()
    assert taps() == devices
    assert surroundings() == before
