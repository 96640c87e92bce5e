"""However a run with virtual machines dies, nothing of it stays: no QEMU, tap, namespace, mount, control group."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import machine_world as machines
import pytest
from killing import held_namespaces, kill, own_groups, play, surroundings

from virtlab.testbed import ledger

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

ROUNDS = 20
BUDGET_S = 45.0  # a loaded machine plays fewer rounds
ROUNDS_MIN = 4
BOOT_S = 6.0
VICTIMS = ("python", "leader", "world", "machine")
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
    draws = random.Random(5)
    own = held_namespaces({os.getpid()})
    ledger.sweep()
    before, groups, devices = surroundings(), own_groups(), taps()
    end = time.monotonic() + BUDGET_S
    rounds = 0
    while rounds < ROUNDS and (time.monotonic() < end or rounds < ROUNDS_MIN):
        player = play(PLAYER)
        # Every fourth round dies in mid-run, the others while the world is built and the machine boots.
        if rounds % 4 == 3:
            player.says("built")
            time.sleep(draws.uniform(0.0, 0.5))
        else:
            time.sleep(draws.uniform(0.2, BOOT_S / 2))
        kill(player, VICTIMS[rounds % 4 if rounds % 8 < 4 else draws.randrange(4)], own)
        rounds += 1
    ledger.sweep()
    assert own_groups() <= groups
    assert taps() == devices
    assert surroundings() == before
