"""Whoever breaks out of a virtual machine's emulation: it has no file of this machine, and no way back to a
privilege.
"""

from __future__ import annotations

import os
from pathlib import Path

import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's QEMU is that user's")
def test_the_emulation_of_root_s_guests_is_nobody_s_and_stays_so() -> None:
    plan = worlds.echo_plan(machines.machines(worlds.one_host(2)), count=3, source="g1", target="g2")
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        said = [
            Path(f"/proc/{machines.process_of(session, name)}/status").read_text() for name in ("g1", "g2")
        ]
        assert session.run(Trial("t0", 1), worlds.MemorySink()).status in {"ok", "tainted"}
    status = [dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line) for text in said]
    assert all(set(each["Uid"].split() + each["Gid"].split()).isdisjoint({"0"}) for each in status)
    assert len({each["Uid"] for each in status}) == 2, "neither reaches into the process of the other"
    for each in status:
        assert (each["NoNewPrivs"], each["Seccomp"]) == ("1", "2")
        assert int(each["CapEff"], 16) == int(each["CapPrm"], 16) == 0
        assert each["Groups"].split() in ([], [each["Gid"].split()[0]])
