"""However a run with virtual machines dies, nothing of it stays: no QEMU, tap, namespace, mount, control group."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import machine_world as machines
import pytest
from test_testbed_nothing_left import MARK, everyone, held_namespaces, marked, surroundings

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


def own_groups() -> set[str]:
    """Control groups of testbeds."""
    root = Path("/sys/fs/cgroup")
    return {
        str(path) for pattern in ("virtlab-*", "*/virtlab-*", "*/*/virtlab-*") for path in root.glob(pattern)
    }


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
        mark = uuid.uuid4().hex
        player = subprocess.Popen(
            [sys.executable, "-c", PLAYER, str(Path(__file__).parent)],
            env={**os.environ, MARK: mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert player.stdout is not None
        assert player.stdout.readline() == b"begin\n"
        # Every fourth round dies in mid-run, the others while the world is built and the machine boots.
        if rounds % 4 == 3:
            assert player.stdout.readline() == b"built\n"
            time.sleep(draws.uniform(0.0, 0.5))
        else:
            time.sleep(draws.uniform(0.2, BOOT_S / 2))
        pids = marked(mark)
        namespaces = held_namespaces(pids) - own
        victim = ("python", "leader", "world", "machine")[
            rounds % 4 if rounds % 8 < 4 else draws.randrange(4)
        ]
        target = _victim(victim, player.pid, pids)
        if target is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)
            time.sleep(0.05)
        player.kill()
        player.wait()
        player.stdout.close()
        deadline = time.monotonic() + 10
        while (left := marked(mark)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert left == set(), (
            f"round {rounds}: {victim} was killed, {[_command(pid) for pid in left]} live on"
        )
        assert held_namespaces(everyone()) & namespaces == set(), f"round {rounds}: {victim}"
        rounds += 1
    ledger.sweep()
    assert own_groups() <= groups
    assert taps() == devices
    assert surroundings() == before


def _victim(kind: str, player: int, pids: set[int]) -> int | None:
    names = {pid: _command(pid) for pid in sorted(pids)}
    leaders = [pid for pid, words in names.items() if "virtlab-agent" in words and "leader" in words]
    if kind == "leader":
        return leaders[0] if leaders else None
    if kind == "world":
        return leaders[1] if len(leaders) > 1 else None
    if kind == "machine":
        return next((pid for pid, words in names.items() if "qemu-system" in words), None)
    return player


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
