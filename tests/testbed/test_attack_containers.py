"""Whoever has a container of root's tries what no guest needs: it is refused, and neither the guest nor its meters
mind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import container_world as containers
import pytest
import testbed_world as worlds

from virtlab.errors import MachineError
from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.kinds import container_runtime
from virtlab.testbed.kinds.container_runtime import OCI
from virtlab.testbed.kinds.user_namespaces import COUNT, users_of
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
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        realised = session.realised.objects["guests.g1"]
        return sink.artefacts["ask.out"].decode().split("\n"), realised.applied, realised.read_back


@pytest.mark.skipif(no_busybox() is not None, reason=str(no_busybox()))
@pytest.mark.parametrize("runtime", [name for name in OCI if shutil.which(name) is not None])
def test_a_container_makes_no_system_call_that_no_guest_needs_and_no_end_of_processes(runtime: str) -> None:
    lines, applied, read_back = said(runtime=runtime)
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


WHOSE = """
cat /proc/self/uid_map
echo x >/root/mine && ls -ln /root/mine
ip link set eth0 mtu 1400 && ip link set eth0 mtu 1500 && echo administers its vNIC
mknod /tmp/disk b 8 0 && echo makes a device
head -c 1 /dev/mem && echo reads memory
true
"""


def users_of_processes() -> set[int]:
    """Whose processes run on this machine; one may end while it is looked at."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add(path.stat().st_uid)
    return found


@pytest.mark.skipif(no_busybox() is not None, reason=str(no_busybox()))
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's containers are in that user's namespace")
@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_root_of_a_container_with_users_of_its_own_is_nobody_on_this_machine(runtime: str) -> None:
    if container_runtime.missing(runtime) is not None:
        pytest.skip(str(container_runtime.missing(runtime)))
    world = containers.containers(worlds.one_host(2), runtime=runtime, user_namespace="own")
    plan = worlds.plan(
        world,
        timeline=[{"id": "ask", "do": "exec", "guest": "g1", "argv": ["sh", "-c", WHOSE]}],
        limits={"run_ns": 60_000_000_000},
    )
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        outside = users_of_processes()
        firsts = {users.first for users in users_of(plan).values()}
        assert len(firsts) == 2, "each container has users of its own"
        assert firsts <= outside, "its root is a user whom this machine does not have"
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        lines = sink.artefacts["ask.out"].decode().splitlines()
        assert lines[0].split() == ["0", str(users_of(plan)["g1"].first), str(COUNT)]
        assert lines[1].split()[2:4] == ["0", "0"], "root of its own files"
        assert lines[2:] == ["administers its vNIC"]
        assert session.realised.objects["guests.g1"].applied["user_namespace"] == "own"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's containers are in that user's namespace")
@pytest.mark.skipif(container_runtime.missing("podman") is not None, reason="podman is missing")
def test_podman_is_not_asked_for_users_that_its_own_configuration_gives() -> None:
    world = containers.beside_a_namespace(runtime="podman", user_namespace="own")
    (refusal,) = Testbed().check(worlds.plan(world))
    assert refusal.path == "guests.g1.user_namespace"
    assert "podman makes user namespaces by its own configuration" in refusal.reason
