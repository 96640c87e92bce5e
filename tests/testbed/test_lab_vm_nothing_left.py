"""However a run inside the laboratory machine dies, nothing of it stays: no QEMU, namespace, mount."""

from __future__ import annotations

import pytest
from killing import kill_machines_at_any_moment, surroundings

from virtlab.testbed.lab.refusals import lab_missing

pytestmark = [
    pytest.mark.skipif(lab_missing() is not None, reason=str(lab_missing())),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

PLAYER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed.lab import LabVm
plan = worlds.echo_plan(worlds.bridged(switches=1), count=400)
lab = LabVm()
print("begin", flush=True)
while True:
    with lab.open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def test_a_laboratory_killed_at_any_moment_leaves_nothing() -> None:
    before = surroundings()
    kill_machines_at_any_moment(PLAYER, seed=7)
    assert surroundings() == before
