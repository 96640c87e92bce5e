"""Disks of guests on a store: what a file may say of them, what the Plan makes of it, and who does not play them."""

from __future__ import annotations

import pytest

from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Disk, Plan
from virtlab.planner import plan_run
from virtlab.planner.guests.disks import counted, is_folder, is_stored_folder
from virtlab.simulator import Simulator
from virtlab.testbed.build import stored_disks
from virtlab.testbed.build.disks import disk_refusals

FILE = """
version: 1
name: disks
hosts:
  h1: {guests: [g1]}
  h2: {platform: qemu, guests: {a: {disk: DISK}, n1: {disk: {size: 1 GB}}, n2: {disk: {size: 1 GB}}}}
topology: {shape: star}
services:
  depot: {kind: store, on: [h2.n1, h2.n2], copies: 2, lookup: elastic_hash}
  app: {kind: demand_server, on: h2.a, write: 4 KiB, write_mode: fsync}
roles:
  clients: {workload: request_response, from: h1.g1, to: app}
"""
ON = "{size: 64 MiB, medium: service, service: depot}"


def plan(disk: str = ON, text: str = FILE) -> Plan:
    experiment = load_text(text.replace("DISK", disk))
    return plan_run(experiment, experiment.points()[0], 0)


@pytest.mark.slow
def test_a_disk_on_a_store_names_it_and_its_blocks() -> None:
    wanted = Disk(size_bytes=64 << 20, medium="service", service="depot", block_bytes=64 << 10)
    assert plan().world.guests["h2.a"].disk == wanted
    larger = plan("{size: 64 MiB, medium: service, service: depot, block: 4 MiB}").world.guests["h2.a"].disk
    assert larger == wanted.model_copy(update={"block_bytes": 4 << 20})
    assert Simulator().check(plan()) == []


@pytest.mark.parametrize(
    ("disk", "where", "what", "cure"),
    [
        ("{size: 1 MiB, medium: service}", "a.disk.medium", "which service keeps its blocks", "service: depot"),
        ("{size: 1 MiB, service: depot}", "a.disk.service", "'service' is of disks on a store", "medium: service"),
        ("{size: 1 MiB, block: 64 KiB}", "a.disk.block", "'block' is of disks on a store", "medium: service"),
        ("{size: 1 MiB, medium: service, service: dept}", "a.disk.service", "there is no service 'dept'", "'depot'?"),
        ("{size: 1 MiB, medium: service, service: app}", "a.disk.service", "of kind demand_server", "name one of depot"),
        ("{size: 1 MiB, medium: service, service: depot, block: 4 KiB}", "a.disk.block", "64 KiB to 4 MiB", "64 KiB"),
        ("{size: 1 MiB, medium: service, service: depot, block: 8 MiB}", "a.disk.block", "64 KiB to 4 MiB", "64 KiB"),
        ("{size: 1 MiB, medium: service, service: depot, block: 65537 B}", "a.disk.block", "sectors", "'66048 B'"),
        ("{size: 1 MiB, medium: service, service: depot, rate: 1 MB/s}", "a.disk.rate", "time of the store", "remove it"),
        ("{size: 1 MiB, medium: service, service: depot, write_cache: 1 MiB}", "write_cache", "no write cache", "remove"),
    ],
)  # fmt: skip
def test_what_no_disk_can_be_is_a_mistake_at_its_place(disk: str, where: str, what: str, cure: str) -> None:
    with pytest.raises(FileMistakesError) as caught:
        plan(disk)
    [mistake] = caught.value.mistakes
    assert str(mistake).startswith("line 6, column ")
    assert where in str(mistake)
    assert what in mistake.what
    assert cure in mistake.cure


def test_no_node_of_a_store_has_its_disk_on_one() -> None:
    text = FILE.replace("n1: {disk: {size: 1 GB}}", f"n1: {{disk: {ON}}}")
    with pytest.raises(FileMistakesError) as caught:
        plan(text=text)
    [mistake] = caught.value.mistakes
    assert "hosts.h2.guests.n1.disk.medium: h2.n1 is part of the store 'depot'" in str(mistake)
    assert "write 'medium: memory'" in mistake.cure


def test_a_platform_without_a_model_of_a_disk_has_none_on_a_store() -> None:
    text = FILE.replace("h1: {guests: [g1]}", f"h1: {{platform: xen, guests: {{g1: {{disk: {ON}}}}}}}")
    with pytest.raises(FileMistakesError) as caught:
        plan(text=text)
    [mistake] = caught.value.mistakes
    assert "guests of platform xen have no disk of their own" in mistake.what
    assert mistake.cure == "remove it, or write 'platform: namespace | container | qemu'"


NAMESPACE = FILE.replace("{a: {disk: DISK}", "{a: {platform: namespace, disk: DISK}")


@pytest.mark.parametrize("platform", ["namespace", "container"])
def test_a_folder_on_a_store_is_played_and_counted_by_both_arms(platform: str) -> None:
    planned = plan(text=NAMESPACE.replace("platform: namespace", f"platform: {platform}"))
    disk, guest = planned.world.guests["h2.a"].disk, planned.world.guests["h2.a"]
    assert disk == Disk(size_bytes=64 << 20, medium="service", service="depot", block_bytes=64 << 10)
    assert (is_stored_folder(guest), is_folder(guest)) == (True, False)
    assert "h2.a" in counted(planned)
    assert Simulator().check(planned) == []
    assert planned.world.hosts["h2"].vnic is not None


def test_all_of_it_may_be_on_one_host_without_a_wire() -> None:
    hosts = "h1: {guests: [g1]}\n  h2: {platform: qemu, guests: {a:"
    text = NAMESPACE.replace(hosts, "h2: {platform: qemu, guests: {g1: {platform: namespace}, a:")
    text = text.replace("h1.g1", "h2.g1").replace("topology: {shape: star}\n", "")
    vnic = plan(text=text).world.hosts["h2"].vnic
    assert vnic is not None
    assert vnic.pushback_bit_per_s is None


@pytest.mark.parametrize(
    ("disk", "where", "what", "cure"),
    [
        ("{size: 1 MiB, medium: file}", "a.disk.medium", "are folders in memory", "'memory', or write 'platform: qemu'"),
        ("{size: 1 MB, medium: service, service: depot}", "a.disk.size", "whole number of pages", "'1003520 B'"),
        ("{size: 1 MiB, medium: service, service: depot, rate: 1 MB/s}", "a.disk.rate", "have no rate", "remove it"),
    ],
)  # fmt: skip
def test_what_no_folder_can_be_is_a_mistake_at_its_place(disk: str, where: str, what: str, cure: str) -> None:
    with pytest.raises(FileMistakesError) as caught:
        plan(disk, NAMESPACE)
    [mistake] = caught.value.mistakes
    assert where in str(mistake)
    assert what in mistake.what
    assert cure in mistake.cure


@pytest.mark.slow
def test_the_testbed_refuses_what_a_folder_on_a_store_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_disks, "DEVICE", "/dev/null")
    buffered = plan(text=NAMESPACE.replace(", write_mode: fsync", ""))
    [found] = disk_refusals(buffered)
    assert (found.path, found.cure) == ("services.app.write_mode", "write 'write_mode: fsync'")
    assert "no kernel buffers writes" in found.reason
    planned = plan(text=NAMESPACE)
    assert list(disk_refusals(planned)) == []
    [found] = disk_refusals(planned, inside=True)
    assert (found.path, "no FUSE" in found.reason) == ("guests.h2.a.disk.medium", True)
    monkeypatch.setattr(stored_disks, "DEVICE", "/dev/none")
    [found] = disk_refusals(planned)
    assert "/dev/none cannot be opened: No such file or directory" in found.reason
    monkeypatch.setattr(stored_disks.platform, "release", lambda: "5.15.0-91-generic")
    [found] = disk_refusals(planned)
    assert found.reason == "a folder on a store needs Linux 6.1 or later, and this is 5.15.0-91-generic"


def test_a_folder_that_is_not_mounted_any_more_is_named() -> None:
    told = [{"name": "together:guests.h2.a.disk", "mounted": True}, {"name": "together:guests.h2.b.disk"}]
    assert list(stored_disks.unmounted(["h2.a"], told)) == []
    for disks in ([], [told[0] | {"mounted": False}]):
        [error] = stored_disks.unmounted(["h2.a"], disks)
        assert str(error).startswith("guests.h2.a.disk: it is mounted no more at /var/tmp")


def changed(**disk: object) -> Plan:
    values = plan().model_dump(by_alias=True)
    values["world"]["guests"]["h2.a"]["disk"] |= disk
    return Plan.model_validate(values)


@pytest.mark.parametrize(
    ("disk", "path"),
    [
        ({"service": "app"}, "service"),
        ({"service": "none"}, "service"),
        ({"service": None}, "medium"),
        ({"block_bytes": 512}, "block_bytes"),
        ({"latency_ns": 5}, "latency_ns"),
    ],
)
def test_a_plan_is_held_to_the_same_rules(disk: dict[str, object], path: str) -> None:
    assert f"guests.h2.a.disk.{path}" in [each.path for each in Simulator().check(changed(**disk))]


def test_the_host_of_such_a_guest_has_an_address_in_the_network_of_the_nodes() -> None:
    """From there the testbed asks the store."""
    planned = plan()
    own = planned.world.hosts["h2"].vnic
    assert own is not None
    assert planned.world.hosts["h1"].vnic is None
    assert list(disk_refusals(planned)) == []
    values = planned.model_dump(by_alias=True)
    values["world"]["hosts"]["h2"]["vnic"] = None
    [found] = disk_refusals(Plan.model_validate(values))
    assert (found.path, "no address of its own" in found.reason) == ("guests.h2.a.disk.medium", True)
    values = planned.model_dump(by_alias=True)
    values["world"]["hosts"]["h2"]["vnic"]["ip"] = ["10.9.0.1/24"]
    [found] = disk_refusals(Plan.model_validate(values))
    assert "is not in the network of h2" in found.reason
    assert "run with '--backend simulator'" in found.cure
