"""However a run with containers dies, nothing of it stays: no container, namespace, mount, control group."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import container_world as containers
import pytest
from killing import everyone, held_namespaces, kill, own_groups, play, surroundings

from virtlab.testbed import ledger

pytestmark = [
    pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

ROUNDS = 20
VICTIMS = ("python", "leader", "world", "runtime", "first process")
PLAYER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import container_world as containers, testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
bounded = {"cpu_quota_ratio": 0.9, "memory_bytes": 64 << 20} if os.geteuid() == 0 else {}
plan = worlds.echo_plan(containers.containers(worlds.one_host(3), **bounded), source="g1", target="g2", count=400)
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def test_containers_killed_at_any_moment_leave_nothing() -> None:
    draws = random.Random(7)
    own = held_namespaces({os.getpid()})
    ledger.sweep()
    before, groups = surroundings(), own_groups()
    for number in range(ROUNDS):
        player = play(PLAYER)
        # Half of them die in mid-run, the others while the world is built and containers begin.
        if number % 2:
            player.says("built")
            time.sleep(draws.uniform(0.0, 0.3))
        else:
            time.sleep(draws.uniform(0.1, 0.7))
        kill(player, VICTIMS[number % len(VICTIMS)], own, of=family, lives=alive)
    ledger.sweep()
    assert own_groups() <= groups
    assert surroundings() == before


def family(pids: set[int]) -> set[int]:
    """Processes and all that descend from them: what runs in a container has an environment of its own."""
    parents = {pid: parent(pid) for pid in everyone()}
    found = set(pids)
    while more := {pid for pid, above in parents.items() if above in found} - found:
        found |= more
    return found


def parent(pid: int) -> int:
    """Its parent; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def alive(pid: int) -> bool:
    """Whether a process still does something: one that ended and was not yet asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
