"""However a run dies in which guests write to disks of their own, nothing of it stays: no process, no room anywhere."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import machine_world as machines
import pytest
import testbed_world as worlds
from killing import (
    FEWER,
    TIMEOUT_S,
    held_namespaces,
    kill,
    kill_machines_at_any_moment,
    play,
    surroundings,
)

from virtlab.testbed.build import stored_disks
from virtlab.testbed.leader import ledger
from virtlab.testbed.platforms.qemu.disks import FOLDER

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(TIMEOUT_S),
]

SIZE_BYTES = 256 << 20
FOLDER_BYTES = 16 << 20
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
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
"""


def room() -> int:
    state = os.statvfs(FOLDER)
    return state.f_bavail * state.f_frsize


@pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
def test_machines_with_disks_killed_at_any_moment_leave_nothing() -> None:
    ledger.sweep()
    before, free_bytes = surroundings(), room()
    kill_machines_at_any_moment(PLAYER, seed=7)
    ledger.sweep()
    assert surroundings() == before
    assert room() > free_bytes - SIZE_BYTES, "the bytes of every disk are given back"


FOLDERS = f"""
import sys
sys.path.insert(0, sys.argv[1])
import container_world as containers, testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.build.disks import FOLDER
world = worlds.one_host(2)
for guest in world["guests"].values():
    guest["disk"] = {{"size_bytes": {FOLDER_BYTES}}}
if containers.missing() is None:
    containers.containers(world, "g2")
fill = f"dd if=/dev/zero of={{FOLDER}}/full bs=65536; sleep 0.5"
plan = worlds.plan(world, timeline=[
    {{"id": name, "do": "exec", "guest": name, "argv": ["sh", "-c", fill]}} for name in world["guests"]
])
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def test_folders_in_memory_killed_at_any_moment_leave_no_byte() -> None:
    """What a mount namespace that lives on holds would be missing from the machine's memory."""
    ledger.sweep()
    draws, own, before = random.Random(17), held_namespaces({os.getpid()}), surroundings()
    shared_bytes = in_memory()
    met = 0
    for number in range(FEWER):
        player = play(FOLDERS)
        time.sleep(draws.uniform(0.0, 1.5))
        met += kill(player, ("python", "leader", "world")[number % 3], own)
    ledger.sweep()
    assert surroundings() == before
    assert met >= FEWER // 2, "where the victim was not there yet, nothing but its owner was killed"
    assert in_memory() < shared_bytes + FEWER * FOLDER_BYTES // 2, "the bytes of every disk are given back"


BUSY = (
    "cd /var/tmp; for i in 1 2 3 4; do (while true; do dd if=/dev/zero of=$i bs=100k count=5 conv=fsync; rm $i; done)"
    " 2>/dev/null & done; sleep 3"
)
ON_A_STORE = f"""
import sys
sys.path.insert(0, sys.argv[1])
import test_folders_on_a_store as folders, testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
plan = folders.planned(folders.script("write", {BUSY!r}))
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


@pytest.mark.skipif(not os.access(stored_disks.DEVICE, os.R_OK | os.W_OK), reason="no FUSE here")
def test_folders_on_a_store_killed_at_any_moment_leave_nothing_that_waits() -> None:
    """Processes that wait for a file system without a server would stay for ever."""
    ledger.sweep()
    draws, own, before = random.Random(23), held_namespaces({os.getpid()}), surroundings()
    for number in range(FEWER):
        player = play(ON_A_STORE)
        built = number % 2 == 1
        if built:
            player.says("built")
        time.sleep(draws.uniform(0.0, 1.5))
        assert kill(player, ("python", "leader", "world")[number % 3], own) or not built
    ledger.sweep()
    assert surroundings() == before


def in_memory() -> int:
    """What files in memory take on this machine."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("Shmem:"):
            return 1024 * int(line.split()[1])
    raise AssertionError("this kernel does not tell")
