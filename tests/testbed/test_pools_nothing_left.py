"""However a run dies whose guests share processors, nothing of its pools stays: no process, no control group."""

from __future__ import annotations

import os
import random
import time

import container_world as containers
import pytest
import testbed_world as worlds
from killing import TIMEOUT_S, abandoned_groups, held_namespaces, kill, own_groups, play, rounds, surroundings

from virtlab.testbed.leader import ledger

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(TIMEOUT_S),
]

BUDGET_S, ROUNDS_MIN = 5.0, 3
VICTIMS = ("python", "leader", "world")
# Two guests share a processor by affinity; as root they have weights and memory there, and the client a quota.
PLAYER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import container_world as containers, testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
root, container = os.geteuid() == 0, sys.argv[2] == "container"
world = worlds.one_host(3)
(host,) = world["hosts"]
world["pools"] = {
    f"{host}.cores": {"host": host, "cpus": 1, "by": "affinity", **({"memory_bytes": 256 << 20} if root else {})},
    f"{host}.others": {"host": host, "cpus": 1, "by": "quota" if root else "affinity"},
}
for name, guest in world["guests"].items():
    guest["pool"] = f"{host}.others" if name == "g3" else f"{host}.cores"
    if root and name != "g3":
        guest["weight"] = 300 if name == "g1" else 100
if container:
    containers.containers(world, "g2")
roles = {
    f"ask{number}": {"workload": "request_response", "from": "g3", "to": f"g{number}", "duration_ns": 2 * 10**9,
                     "demand_ns": 4 * 10**6, "threads": 4, "connections": 4, "request_bytes": 64, "response_bytes": 64,
                     "timeout_ns": 10**10, "backlog": 64, "full": "wait"}
    for number in (1, 2)
}
plan = worlds.plan(world, roles=roles, timeline=[{"id": name, "do": "run", "role": name} for name in roles])
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
"""


@pytest.mark.parametrize(
    "platform",
    [
        "namespace",
        pytest.param(
            "container", marks=pytest.mark.skipif(containers.missing() is not None, reason="no containers")
        ),
    ],
)
def test_pools_killed_at_any_moment_leave_nothing(platform: str) -> None:
    """Every second round dies while guests compete for the pool, the others while it is made or taken down."""
    ledger.sweep()
    draws, own = random.Random(29), held_namespaces({os.getpid()})
    before, groups = surroundings(), own_groups()
    met = played = 0
    for number in rounds(BUDGET_S, ROUNDS_MIN):
        player = play(PLAYER, platform)
        built = number % 2 == 1
        if built:
            player.says("built")
            assert os.geteuid() != 0 or own_groups() - groups, "pools have control groups, as root"
        time.sleep(draws.uniform(0.0, 1.0))
        there = kill(player, VICTIMS[number % 3], own)
        assert there or not built, f"all was built, and there was no {VICTIMS[number % 3]}"
        met, played = met + there, played + 1
    ledger.sweep()
    assert surroundings() == before
    assert abandoned_groups(groups) == set()
    assert met >= played // 2, "where the victim was not there yet, nothing but its owner was killed"
