"""However a run with Open vSwitch dies, nothing of it stays: no daemon, tap, namespace, mount, nor a file beside them."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
import testbed_world as worlds
from killing import held_namespaces, kill, play, rounds, surroundings

from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(
        (worlds.missing() or ovs.missing()) is not None, reason=str(worlds.missing() or ovs.missing())
    ),
    pytest.mark.slow,
]

BUDGET_S = 25.0  # a loaded machine plays fewer rounds
ROUNDS_MIN = 6
PLAYER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
world = worlds.one_host(3)
world["vswitches"]["h.br"]["kind"] = "ovs-netdev"
plan = worlds.echo_plan(world, source="g1", target="g2", count=400)
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def systems_own() -> list[str]:
    """What lies in the places of the system's Open vSwitch."""
    return sorted(str(path) for place in ("/run/openvswitch", ovs.RUN) for path in Path(place).glob("*"))


def test_open_vswitch_killed_at_any_moment_leaves_nothing() -> None:
    draws = random.Random(7)
    own = held_namespaces({os.getpid()})
    before, files = surroundings(), systems_own()
    for number in rounds(BUDGET_S, ROUNDS_MIN):
        player = play(PLAYER)
        time.sleep(draws.uniform(0.0, 1.5))
        kill(player, ("python", "leader", "world")[number % 3], own)
    assert surroundings() == before
    assert systems_own() == files
