"""However the owner of a domain dies, whoever uses libvirt next clears what it started, and nothing that it did not
start.

A domain is its daemon's, so it outlives its owner; here it is one of `qemu:///session` with QEMU under it, and in a
whole session one of libvirt's test driver, whose guest is played by an sshd in namespaces.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import far_world as far_worlds
import killing
import libvirt_world
import pytest
import testbed_world as worlds
from killing import abandoned_groups, own_groups, surroundings
from test_existing_hosts_nothing_left import await_none, killed_after

from virtlab.testbed.leader import far_ledger, ledger
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.libvirt.domains import Domain, virsh

pytestmark = [
    pytest.mark.skipif(domains.missing() is not None, reason=str(domains.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(killing.TIMEOUT_S),
]
URI = libvirt_world.SESSION
BUDGET_S = 12.0
PLAYER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from virtlab.testbed.platforms.libvirt import domains
domains.SHUTDOWN_TIMEOUT_S = 0.3
domain = domains.Domain("guests.a", "qemu:///session", "probe")
print("begin", flush=True)
while True:
    domain.start(worlds.Patient())
    time.sleep(0.3)
    domain.stop()
"""


@pytest.mark.skipif(libvirt_world.session_missing() is not None, reason=str(libvirt_world.session_missing()))
def test_owners_of_a_domain_killed_at_any_moment_leave_no_machine_but_one_that_its_user_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domains, "SHUTDOWN_TIMEOUT_S", 0.3)
    draws = random.Random(11)
    with libvirt_world.session(tmp_path, monkeypatch):
        before, groups = surroundings(), own_groups()
        domain = Domain("", URI, "probe")
        for number in killing.rounds(BUDGET_S, killing.ROUNDS_MIN):
            player = killing.play(PLAYER)
            time.sleep(draws.uniform(0.0, 2.0))
            player.end()
            assert player.left(libvirt_world.daemons) == set()
            users = number % 2 == 1
            if users:
                if domain.state() not in domains.OFF:
                    virsh("", URI, "destroy", "--domain", "probe")
                virsh("", URI, "start", "--domain", "probe")
            libvirt_world.sweep(URI)
            assert (domain.state() in domains.OFF, libvirt_world.machines()) == (not users, int(users))
            if users:
                virsh("", URI, "destroy", "--domain", "probe")
        assert surroundings() == before
        assert abandoned_groups(groups) == set()


@pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing()))
@pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
def test_owners_of_a_session_with_a_domain_killed_at_any_moment_leave_it_to_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = random.Random(12)
    ledger.sweep()
    with libvirt_world.test_driver(tmp_path, monkeypatch) as uri:
        virsh("", uri, "destroy", "--domain", "test")
        plan = libvirt_world.plan_over_ssh(
            libvirt_world.named(tmp_path, monkeypatch, uri), count=400
        ).canonical()
        (tmp_path / "far").mkdir()
        with far_worlds.far_hosts(tmp_path / "far") as far:
            monkeypatch.setenv("VIRTLAB_SSH", far.command)
            before, groups, started = surroundings(), own_groups(), 0
            for number in killing.rounds(BUDGET_S, killing.ROUNDS_MIN):
                since = ("begins", "open")[number % 2]
                killed_after(plan, draws.uniform(0.0, 1.0), since)
                for name in far_worlds.NAMES:
                    await_none(lambda name=name: far.processes(name), f"processes of {name}")  # type: ignore[misc]
                    far_ledger.sweep("ssh", f"host-{name}", lambda _: True)
                started += Domain("", uri, "test").state() not in domains.OFF
                libvirt_world.sweep(uri)
                assert Domain("", uri, "test").state() in domains.OFF
            assert started > 0, "some died while their domain ran"
            ledger.sweep()
            assert surroundings() == before
            assert abandoned_groups(groups) == set()
