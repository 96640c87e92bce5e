"""However a run inside the laboratory machine dies, nothing of it stays: no QEMU, namespace, mount."""

from __future__ import annotations

import os
import random
import time

import pytest
from killing import held_namespaces, kill, play, surroundings

from virtlab.testbed.lab.refusals import lab_missing

pytestmark = [
    pytest.mark.skipif(lab_missing() is not None, reason=str(lab_missing())),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

ROUNDS = 20
BUDGET_S = 45.0  # a loaded machine plays fewer rounds
ROUNDS_MIN = 4
BOOT_S = 6.0
VICTIMS = ("python", "leader", "world", "machine")
PLAYER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed.lab import LabVm
plan = worlds.echo_plan(worlds.bridged(switches=1), count=400)
lab = LabVm()
print("begin", flush=True)
while True:
    with lab.open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def test_a_laboratory_killed_at_any_moment_leaves_nothing() -> None:
    draws = random.Random(7)
    own = held_namespaces({os.getpid()})
    before = surroundings()
    end = time.monotonic() + BUDGET_S
    rounds = 0
    while rounds < ROUNDS and (time.monotonic() < end or rounds < ROUNDS_MIN):
        player = play(PLAYER)
        # Every fourth round dies in mid-run, the others while the machine boots and the world is built.
        if rounds % 4 == 3:
            player.says("built")
            time.sleep(draws.uniform(0.0, 0.5))
        else:
            time.sleep(draws.uniform(0.2, BOOT_S / 2))
        kill(player, VICTIMS[rounds % 4 if rounds % 8 < 4 else draws.randrange(4)], own)
        rounds += 1
    assert surroundings() == before
