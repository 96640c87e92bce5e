"""Virtual machines that boot a disk of somebody's own: measured like any guest, the disk as it was, its silence
told.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import disk_world as disks
import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Action, Trial
from virtlab.plan.model import Trigger
from virtlab.testbed import Testbed
from virtlab.testbed.image import kernels
from virtlab.testbed.leader.control import Control
from virtlab.testbed.platforms.qemu import machines as runtime
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(disks.missing() is not None, reason=str(disks.missing())),
    pytest.mark.timeout(600),
]
COUNT = 20


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disks.raw(tmp_path_factory.mktemp("disk") / "own.img", agent=True)


def scratch() -> set[str]:
    """Files that QEMU made to write to (`vl.XXXXXX`)."""
    place = Path(os.environ.get("TMPDIR", "/var/tmp"))
    return {str(path) for path in place.glob("vl.*")}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_two_machines_of_one_disk_answer_a_namespace_and_leave_the_disk_as_it_was(
    disk: Path, tmp_path: Path
) -> None:
    image = disks.qcow2(disk, tmp_path / "own.qcow2")
    image.chmod(0o444)
    before, files = digest(image), scratch()
    world = machines.machines(worlds.one_host(3), "g1", "g2", image=str(image))
    collect = {"packets": ["probe"], "counters": ["guests"]}
    plan = worlds.echo_plan(world, source="g1", target="g3", count=COUNT, collect=collect)
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        kernel = kernels.find("cloud")
        assert kernel is not None
        written = set()
        for name in ("g1", "g2"):
            realised = session.realised.objects[f"guests.{name}"]
            assert realised.applied["image_format"] == "qcow2"
            assert realised.applied["image_sha256"] == before
            assert realised.applied["disk_bytes"] == disk.stat().st_size
            assert "kernel" not in realised.applied, "the disk brings its own"
            assert realised.read_back["kernel"] == kernel.version
            assert realised.read_back["memory_bytes"] == 256 << 20
            console = sink.artefacts[f"console-{name}.log"].decode(errors="replace")
            assert "own system is up" in console
            held = sink.counters("end")
            assert held[f"guests.{name}", "resident_bytes"] > 64 << 20
            assert {(f"guests.{name}", f"disk_{what}_bytes") for what in ("read", "written")} <= set(held)
            written.add(console.partition("own disk: written at ")[2].split()[0])
        assert scratch() <= files, "what they write has no name"
        assert len(written) == 2, "each wrote on the disk and read what it wrote itself"
    assert digest(image) == before


def test_what_a_machine_reads_and_writes_on_its_disk_is_counted(disk: Path) -> None:
    for place in (disk.parent, Path("/var/tmp")):
        kind = subprocess.run(
            ["stat", "-f", "-c", "%T", place], capture_output=True, text=True, check=True
        ).stdout
        if kind.strip() == "tmpfs":
            pytest.skip(f"{place} lies in memory, of which nothing is read and to which nothing is written")
    size = 4 << 20
    words = (
        "dd if=/dev/vda of=/dev/null bs=65536 count=256 && "
        f"dd if=/dev/urandom of=/dev/vda bs=65536 seek=256 count={size >> 16} conv=notrunc,fsync"
    )
    plan = worlds.plan(
        machines.machines(worlds.one_host(2), "g1", image=str(disk)),
        timeline=[{"id": "work", "do": "exec", "guest": "g1", "argv": ["sh", "-c", words]}],
        collect={"counters": ["guests"]},
        limits={"run_ns": 60_000_000_000},
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        with disk.open("rb") as image:  # what this machine has in memory is read from no disk
            os.fsync(image.fileno())
            os.posix_fadvise(image.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    begin, end = sink.counters("begin"), sink.counters("end")
    for what in ("read", "written"):
        key = ("guests.g1", f"disk_{what}_bytes")
        assert end[key] - begin[key] >= size, what


def test_a_machine_of_a_raw_disk_has_what_was_asked_for_and_boots_again_when_it_was_reset(disk: Path) -> None:
    world = machines.machines(worlds.one_host(3), "g1", image=str(disk), vcpus=2, memory_bytes=200 << 20)
    before = digest(disk)
    gone = Action(
        id="gone", do="reset", guest="g1", after=Trigger(event="measure.started", plus_ns=50_000_000)
    )
    plan = worlds.echo_plan(world, source="g2", target="g3", count=COUNT)
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        for trial, also in enumerate([(gone,), ()]):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{trial}", trial, also=also), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") == COUNT
        assert sink.artefacts["console-g1.log"].count(b"own system is up") == 2
        read_back = session.realised.objects["guests.g1"].read_back
        assert (read_back["vcpus"], read_back["memory_bytes"]) == (2, 200 << 20)
        assert session.realised.objects["guests.g1"].applied["image_format"] == "raw"
    assert digest(disk) == before


@pytest.mark.skipif(disks.uefi_missing() is not None, reason=str(disks.uefi_missing()))
def test_a_machine_boots_by_uefi_where_no_bios_would_find_a_loader(tmp_path: Path) -> None:
    image = disks.raw(tmp_path / "own.img", agent=True, uefi=True)
    world = machines.machines(worlds.one_host(2), "g1", image=str(image), firmware="uefi")
    plan = worlds.echo_plan(world, source="g1", target="g2", count=COUNT)
    before, files = digest(image), scratch()
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        applied = session.realised.objects["guests.g1"].applied
        assert applied["firmware"].endswith(".fd")
        assert len(applied["firmware_sha256"]) == 64
        assert b"own system is up" in sink.artefacts["console-g1.log"]
        assert scratch() <= files, "neither disk nor variables leave a file"
    assert digest(image) == before


@pytest.mark.skipif(disks.uefi_missing() is not None, reason=str(disks.uefi_missing()))
def test_a_disk_that_uefi_cannot_boot_is_told_in_its_firmwares_words(tmp_path: Path) -> None:
    image = tmp_path / "empty.img"
    image.write_bytes(bytes(510) + b"\x55\xaa" + bytes(1 << 20))
    world = machines.machines(worlds.one_host(2), "g1", image=str(image), firmware="uefi")
    with pytest.raises(GuestError, match=r"its disk does not boot: .*EFI Internal Shell") as error:
        Testbed().open(worlds.echo_plan(world, source="g1", target="g2"), worlds.Patient())
    assert "failed to load" in str(error.value)
    assert "\x1b" not in str(error.value), "nobody's terminal is told what a guest says"


def test_a_disk_without_our_agent_is_given_up_with_its_console_and_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "BOOT_TIMEOUT_S", 10.0)
    image = disks.raw(tmp_path / "bare.img", agent=False)
    world = machines.machines(worlds.one_host(2), "g1", image=str(image))
    before = worlds.own_processes()
    with pytest.raises(
        GuestError, match=r"guests\.g1: no agent of ours answered within 10 s; its console ends with: "
    ) as error:
        Testbed().open(worlds.echo_plan(world, source="g1", target="g2"), worlds.Patient())
    assert "virtlab image agent" in error.value.cure
    assert worlds.own_processes() <= before


def test_what_a_kernel_on_a_disk_lacks_is_told_as_the_guests_lack_not_this_machines(tmp_path: Path) -> None:
    image = disks.raw(tmp_path / "small.img", agent=True, carried_along=())
    world = machines.machines(worlds.bridged(switches=1), "a", image=str(image))
    with pytest.raises(
        GuestError, match=r"guests\.a\.vnics\.eth0: the system on its disk refused qdisc: "
    ) as error:
        Testbed().open(worlds.echo_plan(world), worlds.Patient())
    assert "sch_NAME" in error.value.cure


def test_a_disk_with_nothing_to_boot_is_told_at_once_in_the_words_of_its_bios(tmp_path: Path) -> None:
    image = tmp_path / "own,empty.raw"  # a comma would end the name for QEMU
    image.write_bytes(
        b"\xcd\x18".ljust(510, b"\0") + b"\x55\xaa" + bytes(1 << 20)
    )  # gives up at once: int 18h
    world = machines.machines(worlds.one_host(2), "g1", image=str(image))
    with pytest.raises(GuestError, match=r"its disk does not boot: No bootable device"):
        Testbed().open(worlds.echo_plan(world, source="g1", target="g2"), worlds.Patient())


def test_a_disk_that_is_none_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    image = tmp_path / "own.img"
    world = machines.machines(worlds.one_host(2), "g1", image=str(image))
    plan = worlds.echo_plan(world, source="g1", target="g2")
    [refusal] = Testbed().check(plan)
    assert refusal.path == "guests.g1.image"
    assert f"there is no disk image {image}" in refusal.reason
    image.write_bytes(bytes(4096))
    [refusal] = Testbed().check(plan)
    assert "no boot signature" in refusal.reason


def test_a_disk_with_an_agent_of_another_build_is_refused_before_anything_is_measured(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet = Control.greet

    def other(self: Control, channel: int = 0, **more: Any) -> dict[str, Any]:
        said = greet(self, channel, **more)
        return said if channel else {**said, "build": "0.0.1+of-another-day"}

    monkeypatch.setattr(Control, "greet", other)
    world = machines.machines(worlds.one_host(2), "g1", image=str(disk))
    with pytest.raises(
        GuestError, match=r"its disk holds our agent of build .*, and this is build 0\.0\.1\+of"
    ) as error:
        Testbed().open(worlds.echo_plan(world, source="g1", target="g2"), worlds.Patient())
    assert error.value.where == "guests.g1"
    assert "`virtlab image agent`" in error.value.cure
