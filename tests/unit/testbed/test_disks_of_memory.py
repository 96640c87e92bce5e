"""Disks that are folders in memory, before they are made: the Step, what a container's runtime is told, what has no
room.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from virtlab.catalogue.collected import SERIES
from virtlab.errors import MachineError
from virtlab.plan import Collect, Disk, Guest, Host, Plan, Pool, SeriesRequest, World
from virtlab.testbed.build import disks
from virtlab.testbed.build.lower import lower
from virtlab.testbed.platforms.container import engine
from virtlab.testbed.platforms.container.bundle import Bundle, Limits
from virtlab.testbed.play.series import sampling_refusals, wanted
from virtlab.testbed.refusals import memory_refusals
from virtlab.testbed.steps.operations import NamespaceAdd

MIB = 1 << 20
FOLDER = Disk(size_bytes=16 * MIB)

OF_DISKS = {name for name, series in SERIES.items() if series.of_disks}


def planned(platform: str = "namespace", disk: Disk | None = FOLDER, **more: Any) -> Plan:
    guests = {name: Guest(platform=platform, host="h", vnics={}, disk=disk, **more) for name in ("a", "b")}
    return Plan(world=World(hosts={"h": Host()}, guests=guests))


def test_a_namespace_gets_its_disk_by_a_step_and_a_container_by_its_runtime() -> None:
    for platform, disk_bytes in (("namespace", 16 * MIB), ("container", None)):
        steps = [step.op for step in lower(planned(platform)).steps if step.because.startswith("guests.")]
        made = {step.name: step.disk_bytes for step in steps if isinstance(step, NamespaceAdd)}
        assert made == {"guest:a": disk_bytes, "guest:b": disk_bytes}
    bundle = Bundle("a", "/agent", None, None, Limits(), None, disk_bytes=16 * MIB)
    [mount] = [each for each in bundle.config()["mounts"] if each["destination"] == disks.FOLDER]
    assert mount["type"] == "tmpfs"
    assert f"size={16 * MIB}" in mount["options"]
    assert any(f"tmpfs-size={16 * MIB}" in word for word in engine.run("podman", "/mnt", 0, bundle))
    stored = Bundle("a", "/agent", None, None, Limits(), None, stored_disk=True)
    [mount] = [each for each in stored.config()["mounts"] if each["destination"] == disks.FOLDER]
    assert (mount["type"], mount["source"]) == ("bind", disks.FOLDER)
    bound = f"type=bind,source={disks.FOLDER},destination={disks.FOLDER}"
    assert bound in engine.run("podman", "/mnt", 0, stored)
    without = Bundle("a", "/agent", None, None, Limits(), None)
    assert disks.FOLDER not in str(without.config())
    assert disks.FOLDER not in str(engine.run("podman", "/mnt", 0, without))


@pytest.mark.parametrize("seen", [None, 8 * MIB])
def test_a_disk_that_is_not_as_planned_is_an_error(seen: int | None) -> None:
    guest = planned().world.guests["a"]
    assert disks.read_back("guests.a", guest, {"disk_bytes": 16 * MIB})["size_bytes"] == 16 * MIB
    with pytest.raises(MachineError, match=r"guests\.a\.disk: /var/tmp holds"):
        disks.read_back("guests.a", guest, {"disk_bytes": seen})


def test_a_disk_is_part_of_its_guests_memory() -> None:
    found = [each.path for each in disks.disk_refusals(planned(memory_bytes=8 * MIB))]
    assert found == ["guests.a.disk.size_bytes", "guests.b.disk.size_bytes"]
    assert not list(disks.disk_refusals(planned(memory_bytes=32 * MIB)))


def test_disks_of_a_pool_fit_into_its_memory_together() -> None:
    plan = planned(pool="h.cores")
    for mib, paths in ((24, ["pools.h.cores.memory_bytes"]), (32, [])):
        pools = {"h.cores": Pool(host="h", cpus=1, memory_bytes=mib * MIB)}
        world = plan.world.model_copy(update={"pools": pools})
        found = disks.disk_refusals(plan.model_copy(update={"world": world}))
        assert [each.path for each in found] == paths


def test_disks_are_memory_that_this_machine_needs() -> None:
    [refusal] = memory_refusals(planned(), 31 * MIB)
    assert "disks in memory are part of it: make them smaller" in refusal.cure
    assert "medium" not in refusal.cure, "such a disk is on no file"
    assert not list(memory_refusals(planned(), 32 * MIB))


def test_a_machine_without_the_folder_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "FOLDER", "/nowhere/at/all")
    assert not Path(disks.FOLDER).exists()
    assert [each.path for each in disks.disk_refusals(planned())] == ["guests.a.disk", "guests.b.disk"]
    assert not list(disks.disk_refusals(planned("container"))), "its runtime makes it"


@pytest.mark.parametrize(
    "collect",
    [Collect(counters=("disks",)), Collect(series=(SeriesRequest(source="guest.disk", every_ns=10**9),))],
)
def test_what_is_not_counted_is_refused_and_no_telemetry(collect: Collect) -> None:
    for disk in (FOLDER, None):
        plan = planned(disk=disk).model_copy(update={"collect": collect})
        [refusal] = sampling_refusals(plan)
        assert "a folder in memory has no such counters" in refusal.reason
        assert not list(sampling_refusals(planned("qemu").model_copy(update={"collect": collect})))
    sources = {each.source for each in wanted(planned())}
    assert sources.isdisjoint(OF_DISKS)
    assert {each.source for each in wanted(planned("qemu"))} >= OF_DISKS
