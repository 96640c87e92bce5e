"""However a run dies in which Swift or Gluster serves, nothing of it stays, and the same command then finishes.

Their daemons start daemons, and Gluster's mount: all are in namespaces of the world. A round takes up to half a minute,
so `make kill` plays three of each, one per victim (more: KILLS=100), and `make test` plays no round.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import testbed_world as worlds
from killing import (
    EVERY_ROUND,
    SLOWEST,
    abandoned_groups,
    held_namespaces,
    kill,
    own_groups,
    play,
    surroundings,
)
from test_real_stores import FILES, GLUSTER, GUESTS, OBJECTS, SWIFT, of_gluster, of_swift

from virtlab.results import Dataset
from virtlab.testbed.leader import ledger

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.skipif(os.geteuid() != 0, reason="a real store needs root"),
    pytest.mark.skipif(not os.environ.get(EVERY_ROUND), reason="'make kill' runs it on demand"),
    pytest.mark.slow,
    pytest.mark.timeout(300 + 90 * SLOWEST),
]
READY_S = 12.0  # by when such a store serves
COMMAND = ["run", "killed.yaml", "--allow-exec", "--no-report"]
PLAYER = f"""
import sys
from virtlab.cli.main import main
print("begin", flush=True)
sys.stdout = sys.stderr
main({COMMAND!r})
"""


def text(service: str, role: str) -> str:
    """One run of a small store, in which objects are made and read."""
    return f"""
version: 1
name: killed
repeat: 1
hosts: {{h1: {{guests: {{{GUESTS}}}}}}}
services: {{depot: {service}}}
roles:
  fill: {{{role}, operations: create, count: 20, threads: 2, size: 10 kB}}
  load: {{{role}, operations: {{read: 1}}, count: 200, threads: 2}}
timeline:
  - {{id: fill, do: run, role: fill}}
  - {{id: load, do: run, role: load, after: fill.finished}}
"""


@pytest.mark.parametrize(
    ("service", "role"),
    [
        pytest.param(SWIFT % "", OBJECTS, id="swift", marks=of_swift),
        pytest.param(GLUSTER, FILES, id="gluster", marks=of_gluster),
    ],
)
def test_a_run_with_a_real_store_killed_at_any_moment_leaves_nothing_and_is_resumed(
    service: str, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killed.yaml").write_text(text(service, role))
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    ledger.sweep()
    draws, own, before, groups = (
        random.Random(29),
        held_namespaces({os.getpid()}),
        surroundings(),
        own_groups(),
    )
    met = 0
    for number in range(SLOWEST):
        player = play(PLAYER)
        time.sleep(draws.uniform(0.2, READY_S))
        met += kill(player, ("leader", "world", "python")[number % 3], own)
    assert met >= SLOWEST // 2, "where the victim was not there yet, nothing but its owner was killed"
    words = [sys.executable, "-c", f"from virtlab.cli.main import main; main({COMMAND!r})"]
    last = subprocess.run(words, capture_output=True, text=True, check=False)
    assert last.returncode in {0, 4}, (
        last.stderr
    )  # 4: the machine was too busy for some run, and that was said
    statuses = [record.status for record in Dataset.open(tmp_path / "killed.results").runs()]
    good = statuses.count("ok")  # an attempt whose leader alone was killed is a failed one
    assert good == 1 or (last.returncode == 4 and good == 0), (statuses, last.stderr)
    ledger.sweep()
    assert surroundings() == before
    assert abandoned_groups(groups) == set()
    assert list((tmp_path / "killed.results/runs").glob(".partial-*")) == []
    left = [path for path in (tmp_path / "tmp").rglob("*") if path.is_socket() or path.is_dir()]
    assert left == []
