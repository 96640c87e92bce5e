"""However a run with containers dies, nothing of it stays: no container, namespace, mount, control group."""

from __future__ import annotations

import os
import random
import shutil
import time

import container_world as containers
import pytest
from killing import (
    ROUNDS,
    TIMEOUT_S,
    abandoned_groups,
    held_namespaces,
    kill,
    own_groups,
    play,
    rounds,
    surroundings,
)

from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.leader import ledger

pytestmark = [
    pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(TIMEOUT_S),
]

OF_A_RUNTIME = ("python", "leader", "world", "runtime", "first process")
VICTIMS = {
    "runc": OF_A_RUNTIME,
    "crun": OF_A_RUNTIME,
    "podman": ("python", "leader", "world", "engine", "monitor", "first process"),
}
BUDGET_S = 15.0  # of those but the one that is used where none is named; podman takes its time
ROUNDS_MIN = 8
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


@pytest.mark.parametrize("name", [name for name in VICTIMS if shutil.which(name)])
def test_containers_killed_at_any_moment_leave_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.FORCED, name)
    longer_s, victims = 1.0 if name == runtime.PODMAN else 0.0, VICTIMS[name]
    draws = random.Random(7)
    own = held_namespaces({os.getpid()})
    ledger.sweep()
    before, groups, engines = surroundings(), own_groups(), containers.of_podman()
    tried, met = set(), set()
    for number in range(ROUNDS) if name == "runc" else rounds(BUDGET_S, ROUNDS_MIN):
        player = play(PLAYER)
        # Half of them die in mid-run, the others while the world is built and containers begin.
        if number % 2:
            player.says("built")
            time.sleep(draws.uniform(0.0, 0.3))
            tried.add(victims[number % len(victims)])
        else:
            time.sleep(draws.uniform(0.1, 0.7 + longer_s))
        victim = victims[number % len(victims)]
        if kill(player, victim, own):
            met.add(victim)
    assert tried <= met, "where all was built, the victim was there"
    ledger.sweep()
    assert abandoned_groups(groups) == set()
    assert surroundings() == before
    assert containers.of_podman() == engines
