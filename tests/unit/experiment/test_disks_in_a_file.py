"""Disks of guests: what the file may say of them, and what the Plan makes of it."""

from __future__ import annotations

import pytest

from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Disk, Plan
from virtlab.planner import plan_run
from virtlab.planner.check import mistakes
from virtlab.planner.wiring import Wiring
from virtlab.simulator import Simulator

FILE = """
version: 1
name: disks
hosts:
  h1: {}
  h2: HOST
topology: {shape: star}
roles:
  clients: {workload: request_response, from: h1.g1, to: h2.a}
"""
MIB = 1 << 20


def plan(host: str) -> Plan:
    experiment = load_text(FILE.replace("HOST", host))
    return plan_run(experiment, experiment.points()[0], 0)


def test_a_disk_is_in_the_plan_in_si_units() -> None:
    disk = "{size: 64 MiB, medium: file, rate: 20 MB/s, latency: 1 ms, write_cache: 1 MiB}"
    found = plan(f"{{platform: qemu, guests: {{a: {{disk: {disk}}}, b: {{}}}}}}").world.guests
    wanted = Disk(
        size_bytes=64 * MIB, medium="file", rate_byte_per_s=20_000_000, latency_ns=1_000_000, write_cache_bytes=MIB
    )  # fmt: skip
    assert (found["h2.a"].disk, found["h2.b"].disk, found["h1.g1"].disk) == (wanted, None, None)


def test_guests_have_the_disk_of_their_host_where_they_can_and_say_nothing_else() -> None:
    host = "{platform: qemu, disk: {size: 1 MiB}, guests: {a: {}, b: {disk: {size: 2 MiB}}, c: {platform: namespace}}}"
    found = plan(host).world.guests
    assert found["h2.a"].disk == Disk(size_bytes=MIB)
    assert found["h2.b"].disk == Disk(size_bytes=2 * MIB)
    assert found["h2.c"].disk is None


def test_a_file_without_disks_has_the_plan_that_it_had() -> None:
    assert "disk" not in plan("{guests: [a]}").canonical()


@pytest.mark.parametrize(
    ("host", "path", "what"),
    [
        ("{guests: [a], disk: {size: 1 MiB}}", "hosts.h2.disk", "guests of platform namespace have no disk of their own"),
        ("{platform: qemu, guests: [a], disk: {size: 1000 B}}", "hosts.h2.disk.size", "no whole number of sectors"),
        ("{platform: qemu, guests: [a], disk: {medium: file}}", "hosts.h2.disk", "size"),
        ("{platform: qemu, guests: [a], disk: {size: 1 MiB, rate: 20 Mbit/s}}", "hosts.h2.disk.rate", "Mbit/s"),
        ("{platform: qemu, guests: [a], disk: {size: 1 MiB, medium: tape}}", "hosts.h2.disk.medium", "tape"),
    ],
)  # fmt: skip
def test_what_no_guest_can_have_is_a_mistake_at_its_place(host: str, path: str, what: str) -> None:
    with pytest.raises(FileMistakesError) as caught:
        plan(host)
    [mistake] = caught.value.mistakes
    assert path in str(mistake)
    assert what in mistake.what


def test_a_plan_that_gives_a_disk_to_a_guest_that_can_have_none_is_refused_by_every_arm() -> None:
    values = plan("{platform: qemu, guests: {a: {disk: {size: 1 MiB}}}}").model_dump(by_alias=True)
    values["world"]["guests"]["h2.a"]["platform"] = "container"
    changed = Plan.model_validate(values)
    found = [each for each in mistakes(changed, "testbed", Wiring(changed)) if each.path.endswith(".disk")]
    assert [each.path for each in found] == ["guests.h2.a.disk"]
    assert "guests.h2.a.disk" in [each.path for each in Simulator().check(changed)]
