"""However a run inside the laboratory machine dies, nothing of it stays: no QEMU, namespace, mount.

One of its hosts has a bridge, the other Open vSwitch with the kernel's datapath where the machine has it.
"""

from __future__ import annotations

import pytest
from killing import TIMEOUT_S, kill_machines_at_any_moment, surroundings

from virtlab.testbed.lab import LabVm
from virtlab.testbed.lab.rules import LAB_VM

pytestmark = [
    pytest.mark.skipif(LAB_VM.lacking() is not None, reason=str(LAB_VM.lacking())),
    pytest.mark.slow,
    pytest.mark.timeout(TIMEOUT_S),
]

PLAYER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from virtlab.plan import Trial
from virtlab.testbed.lab import LabVm
world = worlds.bridged(switches=1)
world["vswitches"]["h2.br"]["kind"] = "KIND"
plan = worlds.echo_plan(world, count=400)
lab = LabVm()
print("begin", flush=True)
while True:
    with lab.open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def test_a_laboratory_killed_at_any_moment_leaves_nothing() -> None:
    lab = LabVm()
    lacking = lab.capabilities().vswitches["ovs-kernel"]
    lab.close()
    before = surroundings()
    player = PLAYER.replace("KIND", "linux_bridge" if lacking else "ovs-kernel")
    kill_machines_at_any_moment(player, seed=7)
    assert surroundings() == before
