"""An owner killed at any moment leaves no process and no agent on existing hosts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import far_world as far_worlds
import pytest
import testbed_world as worlds
from killing import FEWER, TIMEOUT_S

from virtlab.testbed.leader import far_ledger

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(TIMEOUT_S),
]
OWNER = """
import sys
sys.path.insert(0, sys.argv[1])
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed
import testbed_world as worlds
plan = Plan.parse(sys.stdin.read())
print("begins", flush=True)
with Testbed().open(plan, worlds.Patient()) as session:
    print("open", flush=True)
    session.run(Trial("t0", 1), worlds.MemorySink())
"""


def killed_after(plan_text: str, seconds: float, since: str = "begins") -> None:
    """An owner of a session, killed so long after it began, or after its world was open."""
    argv = [sys.executable, "-c", OWNER, str(Path(__file__).parent)]
    owner = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert owner.stdin is not None
    assert owner.stdout is not None
    owner.stdin.write(plan_text.encode())
    owner.stdin.close()
    for line in iter(owner.stdout.readline, b""):
        if line.decode().strip() == since:
            break
    else:
        owner.wait()
        raise AssertionError(f"the owner ended before it said '{since}'")
    time.sleep(seconds)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()


def await_none(look: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, f"{what}: {left}"


@pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing()))
def test_an_owner_killed_at_any_moment_leaves_nothing_on_existing_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_existing_hosts import plan_of

    draws = random.Random(7)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with far_worlds.far_hosts(tmp_path) as far:
        monkeypatch.setenv("VIRTLAB_SSH", far.command)
        for kill in range(FEWER):
            network = ("own", "vxlan")[kill % 2]
            since = ("begins", "open")[kill // 2 % 2]
            killed_after(plan_of(network=network, count=2000).canonical(), draws.uniform(0.0, 1.5), since)
            for name in far_worlds.NAMES:
                await_none(lambda name=name: far.processes(name), f"processes of {name}")  # type: ignore[misc]
                await_none(lambda name=name: far.agents(name), f"agents of {name}")  # type: ignore[misc]
        # What the dead wrote down is cleared by whoever comes next.
        for name in far_worlds.NAMES:
            far_ledger.sweep("ssh", f"host-{name}", lambda _: True)
        assert list(far_ledger.folder().glob("*")) == []
