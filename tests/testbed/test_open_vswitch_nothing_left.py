"""However a run with Open vSwitch dies, nothing of it stays: no daemon, tap, namespace, mount, control group, file or
row.

A daemon that dies alone leaves its owner alive: there the run has failed by the daemon's name, and the next one is
whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
import testbed_world as worlds
from killing import (
    TIMEOUT_S,
    abandoned_groups,
    command,
    descendants,
    held_namespaces,
    kill,
    own_groups,
    play,
    rounds,
    still_held,
    surroundings,
)

from virtlab.errors import MachineError
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.leader import ledger
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(
        (worlds.missing() or ovs.missing()) is not None, reason=str(worlds.missing() or ovs.missing())
    ),
    pytest.mark.slow,
    pytest.mark.timeout(TIMEOUT_S),
]

BUDGET_S = 15.0  # a loaded machine plays fewer rounds
ROUNDS_MIN = 8
VICTIMS = ("python", "leader", "world", "ovsdb-server", "ovs-vswitchd")
BUILD_S = 1.5
DAEMONS = {"ovsdb-server": "ovsdb-server /", "ovs-vswitchd": "ovs-vswitchd unix:"}
DAEMON_BUDGET_S = 10.0
DAEMON_ROUNDS_MIN = 4
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
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def systems_own() -> dict[str, str]:
    """What lies in the places of the system's Open vSwitch, its database with all rows among it."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
        for place in ("/run/openvswitch", ovs.RUN)
        for path in Path(place).rglob("*")
    }


@pytest.fixture
def _nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """All is as before when the test is over, the folder for temporary files included."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ledger.sweep()
    before, files, groups = surroundings(), systems_own(), own_groups()
    yield
    ledger.sweep()
    assert surroundings() == before
    assert systems_own() == files
    assert abandoned_groups(groups) == set()
    assert list(tmp_path.rglob("*")) == [], "neither sockets nor other files"


@pytest.mark.usefixtures("_nothing_stays")
def test_open_vswitch_killed_at_any_moment_leaves_nothing() -> None:
    draws = random.Random(7)
    own = held_namespaces({os.getpid()})
    tried, met = set(), set()
    for number in rounds(BUDGET_S, ROUNDS_MIN):
        victim = VICTIMS[number % len(VICTIMS)]
        player = play(PLAYER)
        # In turn while it is built, as soon as it is, and in mid-run; three and five make fifteen pairs.
        if number % 3 == 0:
            time.sleep(draws.uniform(0.0, BUILD_S))
        else:
            player.says("built")
            time.sleep(draws.uniform(0.0, 0.05) if number % 3 == 1 else draws.uniform(0.1, 1.0))
            tried.add(victim)
        if kill(player, victim, own):
            met.add(victim)
    assert tried <= met, "where all was built, the victim was there"


@pytest.mark.usefixtures("_nothing_stays")
@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_killed_at_any_moment_fails_its_run_by_name_and_leaves_nothing(daemon: str) -> None:
    world = worlds.one_host(3)
    world["vswitches"]["h.br"]["kind"] = "ovs-netdev"
    plan = worlds.echo_plan(world, source="g1", target="g2", count=4000)
    draws = random.Random(11)
    own, processes = held_namespaces({os.getpid()}), worlds.own_processes()
    for number in rounds(DAEMON_BUDGET_S, DAEMON_ROUNDS_MIN):
        # Every second one while its bridge is built and looked at, the others when there is traffic.
        after_s = draws.uniform(0.0, 0.4) if number % 2 else draws.uniform(0.8, 1.5)
        namespaces: set[str] = set()
        assassin = threading.Thread(target=_kill_when_seen, args=(DAEMONS[daemon], after_s, namespaces))
        assassin.start()
        reasons = _reasons_of(plan)
        assassin.join()
        assert reasons[0].startswith(f"vswitches: {daemon} of h ended with signal 9; see whether"), reasons
        assert not [reason for reason in reasons[1:] if "ended" in reason or "failed" in reason], reasons
        assert worlds.own_processes() <= processes
        assert still_held(namespaces - own) == set()
    short = worlds.echo_plan(world, source="g1", target="g2", count=10)
    with Testbed().open(short, worlds.Patient()) as session:
        assert session.run(Trial("t1", 1), worlds.MemorySink()).status in {"ok", "tainted"}


def _kill_when_seen(words: str, after_s: float, namespaces: set[str]) -> None:
    """Kills the process with these words below this one, so long after it came; notes the namespaces of its world."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [pid for pid in descendants(os.getpid()) if command(pid).startswith(words)]
        if found:
            time.sleep(after_s)
            namespaces |= held_namespaces(descendants(os.getpid()))
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)
            return
        time.sleep(0.01)


def _reasons_of(plan: Plan) -> list[str]:
    """Why a run failed: while its world was built, or while it played."""
    try:
        with Testbed().open(plan, worlds.Patient()) as session:
            outcome = session.run(Trial("t0", 1), worlds.MemorySink())
    except MachineError as error:
        return [str(error)]
    assert outcome.status == "failed"
    return [*outcome.reasons]
