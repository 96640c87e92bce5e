"""However a run on Xen dies, nothing of it stays: no QEMU, and with it no hypervisor, domain or bridge; no namespace,
mount.

On demand, as everything that boots Xen: `make xen` plays four rounds, `make kill` twenty where the image is there.
"""

from __future__ import annotations

import os

import pytest
from killing import EVERY_ROUND, kill_machines_at_any_moment, surroundings

from virtlab.testbed.lab.xen import RULES

ASKED = "VIRTLAB_TEST_XEN"
WHY_NOT = (
    RULES.lacking()
    if os.environ.get(ASKED) or os.environ.get(EVERY_ROUND)
    else f"Xen is booted on demand: set {ASKED}=1, or `make xen`, or `make kill`"
)
pytestmark = [
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]
BOOT_S = 40.0  # of hypervisor, domain 0 and two domains, emulated

PLAYER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
import test_xen_domains as xen
from virtlab.plan import Trial
from virtlab.testbed.lab import XenLab
plan = xen.plan_of(xen.ECHO)
lab = XenLab()
print("begin", flush=True)
while True:
    with lab.open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def test_xen_killed_at_any_moment_leaves_nothing() -> None:
    before = surroundings()
    kill_machines_at_any_moment(PLAYER, seed=17, boot_s=BOOT_S)
    assert surroundings() == before
