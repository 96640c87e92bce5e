"""However a run with Open vSwitch dies, nothing of it stays: no daemon, tap, namespace, mount, nor a file beside them."""

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

import pytest
import testbed_world as worlds
from test_testbed_nothing_left import MARK, everyone, held_namespaces, marked, surroundings

from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(
        (worlds.missing() or ovs.missing()) is not None, reason=str(worlds.missing() or ovs.missing())
    ),
    pytest.mark.slow,
]

ROUNDS = 20
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
        time.sleep(draws.uniform(0.0, 1.5))
        pids = marked(mark)
        namespaces = held_namespaces(pids) - own
        others = sorted(pids - {player.pid})
        if rounds % 3 and others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(others[0 if rounds % 3 == 1 else min(1, len(others) - 1)], signal.SIGKILL)
            time.sleep(0.05)
        player.kill()
        player.wait()
        player.stdout.close()
        deadline = time.monotonic() + 10
        while (left := marked(mark)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert left == set(), f"round {rounds}: processes {left} live on"
        assert held_namespaces(everyone()) & namespaces == set(), f"round {rounds}"
        rounds += 1
    assert surroundings() == before
    assert systems_own() == files
