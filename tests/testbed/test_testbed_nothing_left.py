"""However a run dies, nothing of it stays: processes, namespaces, links, mounts, control groups."""

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

from virtlab.plan import Trial
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

MARK = "VIRTLAB_TEST_MARK"
PLAYER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed import Testbed
plan = worlds.echo_plan(worlds.bridged(switches=2), count=400)
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def marked(mark: str) -> set[int]:
    """Processes, of any namespace, whose environment carries the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = set()
    for entry in everyone():
        try:
            if wanted in Path(f"/proc/{entry}/environ").read_bytes():
                found.add(entry)
        except OSError:
            continue
    return found


def held_namespaces(pids: set[int]) -> set[str]:
    """Network namespaces that processes stand in or hold by a descriptor, as 'net:[inode]'."""
    found = set()
    for pid in pids:
        for path in (Path(f"/proc/{pid}/ns/net"), *_entries(Path(f"/proc/{pid}/fd"))):
            try:
                target = str(path.readlink())
            except OSError:
                continue
            if target.startswith("net:["):
                found.add(target)
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def everyone() -> set[int]:
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


def surroundings() -> tuple[set[str], list[str]]:
    """Interfaces of this namespace, and mounts."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {path.name for path in Path("/sys/class/net").iterdir()}, sorted(
        line.split(" - ")[0].split(" ", 3)[3] for line in mounts
    )


@pytest.mark.slow
def test_a_run_killed_at_any_moment_leaves_nothing() -> None:
    draws = random.Random(20)
    own = held_namespaces({os.getpid()})
    before = surroundings()
    victims = ["python", "leader", "world"]
    for number in range(20):
        mark = uuid.uuid4().hex
        player = subprocess.Popen(
            [sys.executable, "-c", PLAYER, str(Path(__file__).parent)],
            env={**os.environ, MARK: mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert player.stdout is not None
        assert player.stdout.readline() == b"begin\n"
        time.sleep(draws.uniform(0.0, 0.9))
        pids = marked(mark)
        namespaces = held_namespaces(pids) - own
        victim = victims[number % 3]
        agents = sorted(pids - {player.pid})
        if victim != "python" and agents:
            # The lowest is the waiting parent outside the world, the next is its PID 1.
            target = agents[0] if victim == "leader" else agents[min(1, len(agents) - 1)]
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)
            time.sleep(0.05)
        player.kill()
        player.wait()
        player.stdout.close()
        deadline = time.monotonic() + 10
        while (left := marked(mark)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert left == set(), f"round {number}: {victim} was killed, processes {left} live on"
        assert held_namespaces(everyone()) & namespaces == set(), f"round {number}: {victim}"
    assert surroundings() == before


def test_leaving_a_session_leaves_no_child() -> None:
    before = worlds.own_processes()
    for _ in range(3):
        with Testbed().open(worlds.plan(worlds.bridged()), worlds.Patient()):
            assert worlds.own_processes() > before
    assert worlds.own_processes() == before


def test_a_world_that_fails_to_build_leaves_no_child() -> None:
    before = worlds.own_processes()
    world = worlds.bridged()
    world["guests"]["b"]["vnics"]["eth0"]["mac"] = "01:00:00:00:00:01"  # a group address, which no port takes
    with pytest.raises(Exception, match=r"guests|links"):
        Testbed().open(worlds.plan(world), worlds.Patient())
    assert worlds.own_processes() == before


def test_what_a_session_opened_is_closed_again() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with Testbed().open(worlds.plan(worlds.bridged()), worlds.Patient()) as session:
        session.describe()
    before = descriptors()
    for _ in range(3):
        with Testbed().open(worlds.echo_plan(worlds.bridged(), count=2), worlds.Patient()) as session:
            session.run(Trial("t0", 1), worlds.MemorySink())
    assert descriptors() == before
