"""Disks of guests: what the file may say of them, and what the Plan makes of it."""

from __future__ import annotations

import pytest

from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Disk, Plan
from virtlab.planner import plan_run
from virtlab.planner.check import mistakes
from virtlab.planner.topology.layer_two import LayerTwo
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


def test_guests_have_the_disk_of_their_host_where_they_say_nothing_else() -> None:
    host = "{platform: qemu, disk: {size: 1 MiB}, guests: {a: {}, b: {disk: {size: 2 MiB}}, c: {platform: namespace}}}"
    found = plan(host).world.guests
    assert found["h2.a"].disk == Disk(size_bytes=MIB)
    assert found["h2.b"].disk == Disk(size_bytes=2 * MIB)
    assert found["h2.c"].disk == Disk(size_bytes=MIB)


def test_a_guest_with_a_disk_of_its_own_does_not_need_that_of_its_host() -> None:
    host = (
        "{platform: qemu, disk: {size: 1 MiB, latency: 1 ms}, "
        "guests: {a: {}, c: {platform: namespace, disk: {size: 2 MiB}}}}"
    )
    found = plan(host).world.guests
    assert (found["h2.a"].disk, found["h2.c"].disk) == (
        Disk(size_bytes=MIB, latency_ns=1_000_000),
        Disk(size_bytes=2 * MIB),
    )


def test_a_file_without_disks_has_the_plan_that_it_had() -> None:
    assert "disk" not in plan("{guests: [a]}").canonical()


@pytest.mark.parametrize(
    ("host", "path", "what"),
    [
        ("{platform: native, guests: [a], disk: {size: 1 MiB}}", "hosts.h2.disk", "guests of platform native have no disk"),
        ("{guests: [a], disk: {size: 1 MiB, rate: 1 MB/s}}", "hosts.h2.disk.rate", "folders in memory, and have no rate"),
        ("{guests: {a: {disk: {size: 1 MiB, latency: 1 ms}}}}", "a.disk.latency", "folders in memory, and have no latency"),
        ("{platform: container, guests: [a], disk: {size: 1 MiB, write_cache: 1 MiB}}", "write_cache", "no write cache"),
        ("{guests: [a], disk: {size: 1 MiB, medium: file}}", "hosts.h2.disk.medium", "namespace are folders in memory"),
        ("{guests: [a], disk: {size: 512 B}}", "hosts.h2.disk.size", "not a whole number of pages of 4096 B"),
        ("{platform: qemu, guests: [a], disk: {size: 1000 B}}", "hosts.h2.disk.size", "not a whole number of sectors"),
        ("{disk: {size: 1 MiB, latency: 1 ms}, guests: {a: {platform: qemu}, c: {}, d: {}}}",
         "hosts.h2.disk.latency", "have no latency, and 'c' and 'd' would have this one from the host"),
        ("{platform: qemu, disk: {size: 1 MiB}, guests: {a: {}, c: {platform: appliance, image: router}}}",
         "hosts.h2.disk", "platform appliance have no disk of their own, and 'c' would have this one from the host"),
        ("{platform: qemu, disk: {size: 512 B}, guests: {a: {}, c: {platform: namespace}}}",
         "hosts.h2.disk.size", "not a whole number of pages of 4096 B, and 'c' would"),
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


@pytest.mark.parametrize(
    ("hosts", "where"),
    [
        ("hosts: 2", "line 4, column 50: host.disk.size:"),
        ("hosts: {h1: {}, h2: {disk: {size: 5 B}}}", "line 3, column 35: hosts.h2.disk.size:"),
    ],
)
def test_a_mistake_is_where_the_disk_is_said(hosts: str, where: str) -> None:
    """At the host, or at what all hosts have in common."""
    common = "host: {platform: qemu, guests: [a], disk: {size: 1000 B}}"
    text = (
        FILE.replace("hosts:\n  h1: {}\n  h2: HOST", f"{hosts}\n{common}").lstrip().replace("h1.g1", "h1.a")
    )
    with pytest.raises(FileMistakesError) as caught:
        load_text(text)
    assert any(str(mistake).startswith(where) for mistake in caught.value.mistakes), caught.value.mistakes


def changed(platform: str, **disk: object) -> Plan:
    values = plan("{platform: qemu, guests: {a: {disk: {size: 1 MiB}}}}").model_dump(by_alias=True)
    values["world"]["guests"]["h2.a"]["platform"] = platform
    values["world"]["guests"]["h2.a"]["disk"] |= disk
    return Plan.model_validate(values)


def refused(plan: Plan) -> list[str]:
    found = [each.path for each in mistakes(plan, "testbed", LayerTwo(plan)) if ".disk" in each.path]
    assert found == [each.path for each in Simulator().check(plan) if ".disk" in each.path]
    return found


@pytest.mark.parametrize(
    ("platform", "disk", "paths"),
    [
        ("appliance", {}, [""]),
        ("container", {}, []),
        ("container", {"rate_byte_per_s": 1, "latency_ns": 5}, [".rate_byte_per_s", ".latency_ns"]),
        ("namespace", {"medium": "file", "write_cache_bytes": 512}, [".medium", ".write_cache_bytes"]),
        ("namespace", {"size_bytes": 4096 + 512}, [".size_bytes"]),
    ],
)
def test_a_plan_that_gives_a_guest_a_disk_that_it_cannot_have_is_refused_by_every_arm(
    platform: str, disk: dict[str, object], paths: list[str]
) -> None:
    assert refused(changed(platform, **disk)) == [f"guests.h2.a.disk{path}" for path in paths]


@pytest.mark.parametrize(
    ("size", "write", "fits"),
    [("64 KiB", "64 KiB", True), ("64 KiB", "65 KiB", False), ("100 MiB", "1 KiB", True)],
)
def test_what_servers_write_fits_into_the_folder_of_their_guest(size: str, write: str, fits: bool) -> None:
    text = FILE.replace("HOST", f"{{guests: {{a: {{disk: {{size: {size}}}}}}}}}").replace(
        "to: h2.a", f"to: h2.a, write: {write}, write_mode: fsync"
    )
    experiment = load_text(text)
    found = plan_run(experiment, experiment.points()[0], 0)
    assert (refused(found) == []) == fits


def test_two_servers_need_room_for_the_file_of_each() -> None:
    both = "  others: {workload: request_response, from: h1.g1, to: h2.a, write: 1 KiB, write_mode: fsync}\n"
    text = FILE.replace("to: h2.a", "to: h2.a, write: 1 KiB, write_mode: fsync") + both
    for size, fits in (("100 MiB", False), ("128 MiB", True)):
        experiment = load_text(text.replace("HOST", f"{{guests: {{a: {{disk: {{size: {size}}}}}}}}}"))
        assert (refused(plan_run(experiment, experiment.points()[0], 0)) == []) == fits
