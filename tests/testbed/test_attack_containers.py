"""Whoever has a container of root's tries what no guest needs: it is refused, and neither the guest nor its meters mind."""

from __future__ import annotations

import os
from typing import Any

import container_world as containers
import pytest
import testbed_world as worlds

from virtlab.errors import MachineError
from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.leader.memory_accounts import counts_processes
from virtlab.testbed.platforms.container import containers as running
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing()))
# A user namespace of one's own is the door to most of what only root may ask of a kernel.
SCRIPT = """
unshare -U true 2>/dev/null && echo escaped
grep -o '^Seccomp:.*' /proc/self/status
cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null
mknod /tmp/disk b 8 0 && head -c 1 /tmp/disk && echo read
true
"""


def no_busybox() -> str | None:
    try:
        find_busybox()
    except MachineError as error:
        return error.what
    return None


def said(**properties: Any) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """What the script says in a container, and what was asked for and found."""
    actions = [{"id": "ask", "do": "exec", "guest": "g1", "argv": ["sh", "-c", SCRIPT]}]
    plan = worlds.plan(
        containers.beside_a_namespace(**properties), timeline=actions, limits={"run_ns": 60_000_000_000}
    )
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status == "ok", outcome.reasons
        realised = session.realised.objects["guests.g1"]
        return sink.artefacts["ask.out"].decode().split("\n"), realised.applied, realised.read_back


@pytest.mark.skipif(no_busybox() is not None, reason=str(no_busybox()))
def test_a_container_makes_no_system_call_that_no_guest_needs_and_no_end_of_processes() -> None:
    lines, applied, read_back = said()
    assert "escaped" not in lines
    assert "read" not in lines, "a device of the machine"
    assert "Seccomp:\t2" in lines
    assert applied["seccomp"] == "default"
    if os.geteuid() == 0 and counts_processes():
        assert str(running.PIDS_MAX) in lines
        assert read_back["pids.max"] == str(running.PIDS_MAX)


@pytest.mark.skipif(no_busybox() is not None, reason=str(no_busybox()))
def test_the_filter_can_be_left_out_to_see_what_it_costs() -> None:
    lines, applied, _ = said(seccomp="none")
    assert "Seccomp:\t0" in lines
    assert applied["seccomp"] == "none"
