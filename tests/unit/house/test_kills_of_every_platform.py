"""Whatever carries a guest or serves in one has a test that kills its runs, and `make kill` plays all of their
rounds.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from virtlab.catalogue import PLATFORMS, SERVICES, VSWITCHES

HERE = Path(__file__).parents[2] / "testbed"
MAKEFILE = Path(__file__).parents[3] / "Makefile"
# Where runs with it are killed, and a word that makes such a run there.
KILLED = {
    "namespace": ("test_testbed_nothing_left.py", "worlds.bridged("),
    "native": ("test_testbed_nothing_left.py", "worlds.native("),
    "container": ("test_containers_nothing_left.py", "containers.containers("),
    "qemu": ("test_machines_nothing_left.py", "machines.machines("),
    "xen": ("test_xen_nothing_left.py", "XenLab("),
    "appliance": ("test_appliances_nothing_left.py", "appliances.install"),
    "ssh": ("test_existing_hosts_nothing_left.py", "plan_of("),
    "libvirt": ("test_libvirt_nothing_left.py", "domains.Domain("),
    "linux_bridge": ("test_testbed_nothing_left.py", "worlds.bridged("),
    "ovs-netdev": ("test_open_vswitch_nothing_left.py", "ovs-netdev"),
    "lab-vm": ("test_lab_vm_nothing_left.py", "LabVm("),
    "program": ("test_testbed_nothing_left.py", '"kind": "program"'),
    "demand_server": ("test_resume_kill.py", "kind: demand_server"),
    "store": ("test_disks_nothing_left.py", "test_folders_on_a_store"),
    "swift": ("test_real_stores_nothing_left.py", "SWIFT"),
    "gluster": ("test_real_stores_nothing_left.py", "GLUSTER"),
}
# The laboratory machine alone has its datapath: with that machine it ends.
IN_THE_LAB_ONLY = {"ovs-kernel"}


def test_every_platform_virtual_switch_and_service_is_killed_somewhere() -> None:
    assert {*PLATFORMS, *VSWITCHES, *SERVICES} - IN_THE_LAB_ONLY <= set(KILLED)


@pytest.mark.parametrize("what", KILLED)
def test_its_rounds_are_bounded_from_below_and_all_are_played_where_that_is_asked(what: str) -> None:
    file, word = KILLED[what]
    text = (HERE / file).read_text(encoding="utf-8")
    assert word in text
    played = re.search(r"rounds\(|range\((?:ROUNDS|FEWER|SLOWEST)\)|kill_machines_at_any_moment\(", text)
    assert played, "it plays as many as `rounds` yields, or all of them always"


def test_make_kill_plays_all_of_them() -> None:
    recipe = re.search(r"^kill:.*\n\t(.*)$", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    assert recipe[1].startswith("VIRTLAB_TEST_KILLS=$(KILLS) ")
    named = {
        path.name for word in recipe[1].split() if "testbed/" in word for path in MAKEFILE.parent.glob(word)
    }
    assert {file for file, _ in KILLED.values()} | {
        "test_resume_kill.py",
        "test_search_kill.py",
        "test_stops_are_seen.py",
    } <= named
