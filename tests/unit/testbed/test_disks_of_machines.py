"""Disks of virtual machines before they run: QEMU's words, the leader's descriptor, and what there is no room for."""

from __future__ import annotations

import os

import pytest
from tests.unit.testbed.test_testbed_machines import machine
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.plan import Disk, Guest, Host, Plan, World
from virtlab.testbed.platforms.qemu import disks
from virtlab.testbed.platforms.qemu.acceleration import FORCED
from virtlab.testbed.platforms.qemu.command import OwnDisk
from virtlab.testbed.platforms.qemu.platform import IMPLEMENTATION, machine_refusals
from virtlab.testbed.refusals import memory_refusals

MIB = 1 << 20


def planned(*own: Disk) -> Plan:
    guests = {
        f"g{number}": Guest(platform="qemu", host="h", vnics={}, disk=disk) for number, disk in enumerate(own)
    }
    return Plan(world=World(hosts={"h": Host()}, guests=guests))


def test_a_machine_without_a_disk_has_no_word_of_one() -> None:
    words = machine().argv()
    assert not any("virtio-blk" in word or "nbd" in word for word in words)
    assert "virtio_blk" not in machine().drivers()


@pytest.mark.parametrize(("cached", "said"), [(True, "write-cache=on"), (False, "write-cache=off")])
def test_a_disk_is_a_device_whose_requests_go_to_a_descriptor(cached: bool, said: str) -> None:
    own = machine(own_disk=OwnDisk(7, cached))
    words = own.argv()
    [node] = [word for word in words if "driver=nbd" in word]
    [device] = [word for word in words if "virtio-blk" in word]
    assert "server.type=fd,server.str=7" in node
    assert "cache.direct=on" in node
    assert device.endswith(said)
    assert "serial=virtlab-disk" in device
    assert "virtio_blk" in own.drivers()


def test_the_leader_is_told_the_model_and_where_the_bytes_are() -> None:
    disk = Disk(size_bytes=MIB, rate_byte_per_s=2_000_000, latency_ns=5)
    [(name, guest)] = planned(disk).world.guests.items()
    model = {"size_bytes": MIB, "rate_byte_per_s": 2_000_000, "latency_ns": 5, "write_cache_bytes": 0}
    told = {"name": "together:guests.g0.disk", "together": "together:hosts.h.disks", "model": model}
    assert disks.served_disk(name, guest).disk == told
    on_file = guest.model_copy(update={"disk": disk.model_copy(update={"medium": "file"})})
    assert disks.served_disk(name, on_file).disk["folder"] == disks.FOLDER


def test_disks_in_memory_count_as_memory_of_their_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "kvm")
    plan = planned(
        Disk(size_bytes=1 << 30), Disk(size_bytes=1 << 30, medium="file"), Disk(size_bytes=3 << 30)
    )
    assert IMPLEMENTATION.memory_of is not None
    with_disk, without, _ = (IMPLEMENTATION.memory_of(guest) for guest in plan.world.guests.values())
    assert with_disk - without == 1 << 30
    [refusal] = memory_refusals(plan, 4 << 30)
    assert refusal.path == "guests.g2.memory_bytes"
    assert "4.281 GiB of memory together" in refusal.reason


def test_disks_on_files_need_their_room_together() -> None:
    state = os.statvfs(disks.FOLDER)
    half = state.f_bavail * state.f_frsize * 2 // 3 // MIB * MIB
    large, small = Disk(size_bytes=half + MIB, medium="file"), Disk(size_bytes=half, medium="file")
    assert not [
        each for each in machine_refusals("guests.g0", "g0", planned(small), HERE) if ".disk" in each.path
    ]
    plan = planned(small, large)
    found = [
        each.path
        for name in plan.world.guests
        for each in machine_refusals(f"guests.{name}", name, plan, HERE)
        if ".disk" in each.path
    ]
    assert found == ["guests.g1.disk.size_bytes"]
