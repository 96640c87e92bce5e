"""However a run dies, nothing of it stays: processes, namespaces, links, mounts, control groups."""

from __future__ import annotations

import gc
import os
import random
import time
from pathlib import Path

import pytest
import testbed_world as worlds
from killing import ROUNDS, TIMEOUT_S, held_namespaces, kill, play, surroundings

from virtlab.plan import Trial
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

WORLDS = ("worlds.bridged(switches=2)", "worlds.native()")
PLAYER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
plan = worlds.echo_plan(WORLD, count=400)
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


SERVING = """{**worlds.bridged(), "services": {
    "web": {"kind": "program", "on": ["a", "b"], "argv": ["sh", "-c", "setsid sleep 1000 & echo up; sleep 1000"],
            "ready": {"line": "up"}},
    "after": {"kind": "program", "on": ["a"], "argv": ["sleep", "1000"], "needs": ["web"],
              "ready": {"argv": ["true"]}}}}"""


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_a_run_with_services_killed_at_any_moment_leaves_nothing() -> None:
    draws = random.Random(16)
    own = held_namespaces({os.getpid()})
    before, met = surroundings(), 0
    for number in range(ROUNDS):
        player = play(PLAYER.replace("WORLD", SERVING))
        time.sleep(draws.uniform(0.0, 1.5))
        met += kill(player, ("python", "leader", "world")[number % 3], own)
    assert surroundings() == before
    assert met >= ROUNDS // 2, "where the victim was not there yet, nothing but its owner was killed"


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_a_run_killed_at_any_moment_leaves_nothing() -> None:
    draws = random.Random(20)
    own = held_namespaces({os.getpid()})
    before, met = surroundings(), 0
    for number in range(ROUNDS):
        player = play(PLAYER.replace("WORLD", WORLDS[number % 2]))
        time.sleep(draws.uniform(0.0, 0.9))
        met += kill(player, ("python", "leader", "world")[number % 3], own)
    assert surroundings() == before
    assert met >= ROUNDS // 2, "where the victim was not there yet, nothing but its owner was killed"


def test_leaving_a_session_leaves_no_child() -> None:
    before = worlds.own_processes()
    for _ in range(3):
        with Testbed().open(worlds.plan(worlds.bridged()), worlds.Patient()):
            assert worlds.own_processes() - before
    assert worlds.own_processes() <= before


def test_a_world_that_fails_to_build_leaves_no_child() -> None:
    before = worlds.own_processes()
    world = worlds.bridged()
    world["guests"]["b"]["vnics"]["eth0"]["mac"] = "01:00:00:00:00:01"  # a group address, which no port takes
    with pytest.raises(Exception, match=r"guests|links"):
        Testbed().open(worlds.plan(world), worlds.Patient())
    assert worlds.own_processes() <= before


def test_what_a_session_opened_is_closed_again() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with Testbed().open(worlds.plan(worlds.bridged()), worlds.Patient()) as session:
        session.describe()
    gc.collect()  # what earlier tests left is closed now, and not in between
    before = descriptors()
    for _ in range(3):
        with Testbed().open(worlds.echo_plan(worlds.bridged(), count=2), worlds.Patient()) as session:
            session.run(Trial("t0", 1), worlds.MemorySink())
    assert descriptors() <= before
