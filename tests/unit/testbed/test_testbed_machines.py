"""Virtual machines before they run: command lines, Steps, refusals, and clocks that are not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.errors import AgentError, VirtlabError
from virtlab.experiment import load
from virtlab.plan import Guest, Host, Plan, Refusal, World
from virtlab.planner import plan_run
from virtlab.testbed.build.lower import lower
from virtlab.testbed.image import firmware
from virtlab.testbed.image.disk import Disk
from virtlab.testbed.image.firmware import Firmware
from virtlab.testbed.kinds import tap
from virtlab.testbed.kinds.clock import GuestClock, OurClock, Reading, read
from virtlab.testbed.kinds.stamps import on_our_clock
from virtlab.testbed.platforms.qemu import platform as refusals
from virtlab.testbed.platforms.qemu.command import Machine, Port
from virtlab.testbed.platforms.qemu.machines import Started
from virtlab.testbed.steps.operations import AddressAdd, Claim, HomeAdd, TapAdd, VethAdd

FILE = """
version: 1
name: machines
hosts: {h1: {guests: 1, platform: qemu, vcpus: 2, memory: 128 MiB, vnic_model: e1000}, h2: {platform: namespace}}
topology: line
link: {rate: 100 Mbit/s}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B payload, interval: 10 ms, count: 10}}
"""


def refused(path: str, guest: Guest) -> list[Refusal]:
    plan = Plan(world=World(hosts={guest.host: Host()}, guests={"g": guest}))
    return list(refusals.machine_refusals(path, "g", plan, HERE))


def planned(tmp_path: Path, text: str = FILE) -> Plan:
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    experiment = load(path)
    return plan_run(experiment, experiment.points()[0], 0)


def machine(**more: Any) -> Machine:
    values: dict[str, Any] = {
        "name": "h1.g1", "kernel": "/k", "initramfs": "/i", "accelerator": "tcg", "vcpus": 2, "memory_bytes": 96 << 20,
        "ports": [Port("02:00:00:00:00:01", "virtio", 5), Port("02:00:00:00:00:02", "e1000", 6)], "agent": 3, "monitor": 4,
    }  # fmt: skip
    return Machine(**{**values, **more})


def test_a_file_says_vcpus_memory_and_vnic_model_of_a_machine(tmp_path: Path) -> None:
    guest = planned(tmp_path).world.guests["h1.g1"]
    assert (guest.platform, guest.vcpus, guest.memory_bytes) == ("qemu", 2, 128 << 20)
    assert guest.vnics["eth0"].model == "e1000"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (FILE.replace("platform: qemu, ", ""), "share their host's processors"),
        (FILE.replace("vnic_model: e1000", "vnic_model: e2000"), "no vNIC model 'e2000'"),
        (FILE.replace("vnic_model: e1000", "vswitch: none"), "stand on a virtual switch"),
    ],
)
def test_what_only_a_machine_has_is_a_mistake_elsewhere(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(VirtlabError) as caught:
        planned(tmp_path, text)
    assert what in str(caught.value)


def test_a_machine_is_a_tap_outside_and_steps_inside(tmp_path: Path) -> None:
    lowered = lower(planned(tmp_path))
    outside = [step.op for step in lowered.steps]
    taps = [op for op in outside if isinstance(op, TapAdd)]
    assert [(tap.namespace, tap.name, tap.master) for tap in taps] == [("host:h1", "h1.g1.eth0", "br")]
    assert not any(isinstance(op, AddressAdd) and op.namespace == "guest:h1.g1" for op in outside)
    assert sum(isinstance(op, VethAdd) for op in outside) == 3  # the other guest, and two uplinks
    inside = [step.op for step in lowered.machines["h1.g1"].steps]
    assert inside[0] == HomeAdd("guest:h1.g1")
    assert any(isinstance(op, Claim) and op.name == "eth0" for op in inside)
    assert any(isinstance(op, AddressAdd) for op in inside)
    assert {op.namespace for op in inside if not isinstance(op, HomeAdd)} == {"guest:h1.g1"}  # type: ignore[attr-defined]


def test_nothing_is_in_a_machine_that_was_not_asked_for() -> None:
    argv = machine().argv()
    assert "-nodefaults" in argv
    assert argv[argv.index("-smp") + 1] == "2"
    assert argv[argv.index("-m") + 1] == "96M"
    devices = [argv[at + 1] for at, word in enumerate(argv) if word == "-device"]
    assert [device.partition(",")[0] for device in devices] == [
        "virtio-serial-pci",
        "virtserialport",
        "virtio-net-pci",
        "e1000",
    ]
    assert "tap,id=net1,fd=6" in argv
    append = argv[argv.index("-append") + 1]
    assert "virtlab.load=virtio_pci,virtio_console,virtio_net,e1000" in append
    assert "tsc=unstable no_timer_check" in append


def test_the_hardware_is_used_only_when_it_was_said_to_work() -> None:
    assert "kvm" in machine(accelerator="kvm").argv()
    assert not any("kvm" in word for word in machine().argv())
    assert "tsc=unstable" not in " ".join(machine(accelerator="kvm").argv())


def test_memory_is_rounded_up_to_what_qemu_takes_and_told_so() -> None:
    odd = machine(memory_bytes=100_000_000)
    assert odd.whole_memory_bytes == 96 << 20
    assert odd.argv()[odd.argv().index("-m") + 1] == "96M"
    assert machine(memory_bytes=96 << 20).whole_memory_bytes == 96 << 20


def test_a_name_with_a_comma_stays_one_word_for_qemu() -> None:
    assert "guest=a,,b,debug-threads=on" in machine(name="a,b").argv()


def test_what_is_missing_is_refused_with_its_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(refusals, "PROGRAM", "qemu-of-nowhere")
    monkeypatch.setattr(tap, "TUN", str(tmp_path / "tun"))
    guest = planned(tmp_path).world.guests["h1.g1"]
    found = {refusal.cure for refusal in refused("guests.h1.g1", guest)}
    assert {"install qemu-system-x86", "run `virtlab image build --kernel generic`"} <= found
    assert any("/dev/net/tun" in cure for cure in found)


def test_too_little_memory_is_refused_before_a_kernel_panics(tmp_path: Path) -> None:
    guest = planned(tmp_path, FILE.replace("128 MiB", "64 MiB")).world.guests["h1.g1"]
    found = [refusal for refusal in refused("guests.g", guest) if refusal.path.endswith("memory_bytes")]
    assert len(found) == 1
    assert "64 MiB" in found[0].reason
    assert found[0].cure == "write at least '100 MiB'", "its device needs the generic kernel"


@pytest.mark.parametrize(("model", "least_mib"), [("virtio", 84), ("e1000e", 100)])
def test_the_least_memory_is_of_the_kernel_that_the_devices_need(
    model: str, least_mib: int, tmp_path: Path
) -> None:
    guest = planned(tmp_path).world.guests["h1.g1"]
    vnics = {name: vnic.model_copy(update={"model": model}) for name, vnic in guest.vnics.items()}
    for memory_mib in (least_mib - 1, least_mib):
        bounded = guest.model_copy(update={"vnics": vnics, "memory_bytes": memory_mib << 20})
        found = [one.path for one in refused("guests.g", bounded)]
        assert ("guests.g.memory_bytes" in found) == (memory_mib < least_mib)


def test_a_disk_is_booted_by_its_own_loader_and_never_written() -> None:
    disk = Disk(Path("/disks/a,b.qcow2"), "qcow2", 10 << 30)
    own = machine(disk=disk, kernel="", initramfs="")
    argv = own.argv()
    assert not {"-kernel", "-initrd", "-append"} & set(argv)
    at = argv.index("-drive")
    assert argv[at : at + 4] == [
        "-drive", "file=/disks/a,,b.qcow2,format=qcow2,if=virtio,snapshot=on,werror=report", "-device", "virtio-rng-pci",
    ]  # fmt: skip
    booted = machine().argv()
    assert argv[argv.index("-machine") + 1] == "pc,graphics=off", "its BIOS speaks on the serial port"
    assert argv[argv.index("-smp") :][:3] == booted[booted.index("-smp") :][:3]
    assert argv[argv.index("-chardev") :] == booted[booted.index("-chardev") :], "ports and agent are as ever"


def test_uefi_starts_a_disk_from_flash_that_is_never_written_and_asks_no_network() -> None:
    disk = Disk(Path("/d.raw"), "raw", 1 << 20)
    argv = machine(
        disk=disk, kernel="", initramfs="", firmware=Firmware(Path("/c.fd"), Path("/v,1.fd"))
    ).argv()
    drives = [argv[at + 1] for at, word in enumerate(argv) if word == "-drive"]
    assert drives == [
        "if=pflash,unit=0,format=raw,readonly=on,file=/c.fd",
        "if=pflash,unit=1,format=raw,snapshot=on,file=/v,,1.fd",
        "file=/d.raw,format=raw,if=none,id=disk,snapshot=on,werror=report",
    ]
    assert "virtio-blk-pci,drive=disk,bootindex=1" in argv
    assert argv[argv.index("-boot") + 1] == "strict=on"
    assert argv[argv.index("-machine") + 1] == "pc"


def test_firmware_is_of_a_disk_and_has_to_be_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firmware, "FOLDERS", (tmp_path,))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    guest = planned(tmp_path, FILE.replace("vcpus: 2", "firmware: uefi")).world.guests["h1.g1"]
    assert guest.firmware == "uefi"
    found = [one for one in refused("guests.g", guest) if one.path == "guests.g.firmware"]
    assert [one.cure.partition(",")[0] for one in found] == ["remove it", "install ovmf"]
    with pytest.raises(VirtlabError, match="boot no disk"):
        planned(tmp_path, FILE.replace("platform: namespace", "platform: namespace, firmware: uefi"))


@pytest.mark.parametrize("image", ["own.qcow2", "~/disks/own.img", "/disks/a b.raw"])
def test_a_file_names_a_disk_by_its_path(image: str, tmp_path: Path) -> None:
    guest = planned(tmp_path, FILE.replace("memory: 128 MiB", f"image: '{image}'")).world.guests["h1.g1"]
    assert (guest.platform, guest.image, guest.memory_bytes) == ("qemu", image, None)


@pytest.mark.parametrize(
    ("image", "platform", "what"),
    [
        ("own.qcow2", "namespace", "boot no disk image"),
        ("own.qcow2", "container", "boot no disk image"),
        ("own", "qemu", "name a disk image by its path, e.g. 'own.qcow2'"),
        ("own.vhd", "qemu", "neither a name nor a disk image"),
    ],
)
def test_an_image_that_a_platform_cannot_have_is_a_mistake(
    image: str, platform: str, what: str, tmp_path: Path
) -> None:
    own = FILE.replace("vcpus: 2, memory: 128 MiB, vnic_model: e1000", f"image: {image}")
    with pytest.raises(VirtlabError) as caught:
        planned(tmp_path, own.replace("platform: qemu", f"platform: {platform}"))
    assert what in str(caught.value)


def test_an_image_of_a_host_is_of_those_guests_that_can_have_it(tmp_path: Path) -> None:
    hosts = "h1: {platform: qemu, image: own.raw, guests: {a: {}, b: {platform: namespace}}}, h2: {platform: namespace}"
    text = FILE.replace(FILE.splitlines()[3], f"hosts: {{{hosts}}}").replace("h1.g1", "h1.a")
    guests = planned(tmp_path, text).world.guests
    assert (guests["h1.a"].image, guests["h1.b"].image) == ("own.raw", None)


def test_a_disk_needs_no_kernel_of_ours_and_no_least_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    image = tmp_path / "own.img"
    image.write_bytes(bytes(510) + b"\x55\xaa")
    guest = planned(tmp_path, FILE.replace("128 MiB", "32 MiB")).world.guests["h1.g1"]
    guest = guest.model_copy(update={"image": str(image)})
    found = {refusal.path: refusal.cure for refusal in refused("guests.g", guest)}
    assert not any("image build" in cure for cure in found.values())
    assert "guests.g.memory_bytes" not in found
    assert "guests.g.image" not in found


def test_a_machine_that_stands_still_after_a_panic_is_given_up_only_with_a_disk() -> None:
    for said in (
        b"SeaBIOS\r\nNo bootable device.  Retrying in 60 seconds.",
        b"[ 1.0] Kernel panic - not syncing: VFS",
    ):
        started = Started("g", 1, console=bytearray(said), disk=Disk(Path("/d"), "raw", 1))
        assert str(started.hopeless()) in said.decode()
        assert Started("g", 1, console=bytearray(said)).hopeless() is None, "its process ends by itself"
    assert Started("g", 1, console=bytearray(b"login:"), disk=Disk(Path("/d"), "raw", 1)).hopeless() is None


@pytest.mark.slow
@settings(max_examples=500)
@given(
    offset=st.integers(-(10**15), 10**15), drift=st.integers(-200, 200), first=st.integers(10**9, 10**15),
    length=st.integers(10**6, 10**12), at=st.floats(0, 1),
)  # fmt: skip
def test_instants_travel_to_a_drifting_clock_and_back(
    offset: int, drift: int, first: int, length: int, at: float
) -> None:
    clock = GuestClock()
    for t_ns in (first, first + length):
        clock.add(Reading(t_ns, offset + (t_ns - first) * drift // 10**6, 100))
    t_ns = first + int(length * at)
    truth = t_ns + offset + (t_ns - first) * drift / 10**6
    assert abs(clock.from_ours(t_ns) - truth) <= 2
    assert abs(clock.to_ours(clock.from_ours(t_ns)) - t_ns) <= 2


@pytest.mark.parametrize(("offset_ns", "t_ns"), [(2**60, 0), (-(2**61), 2**60), (5, 4)])
def test_an_instant_that_our_clock_never_shows_is_refused(offset_ns: int, t_ns: int) -> None:
    with pytest.raises(AgentError, match=f"its instant {t_ns} ns is beyond all that our clock shows"):
        GuestClock([Reading(10, offset_ns, 1)]).to_ours(t_ns)


def test_the_tightest_of_several_questions_counts() -> None:
    ours = iter([0, 1000, 2000, 2040, 3000, 3500])
    reading = read(iter([5000, 6020, 7000]).__next__, ours.__next__, questions=3)
    assert reading == Reading(2020, 4000, 20)


def test_a_bound_grows_after_the_last_reading_and_not_between_two() -> None:
    clock = GuestClock([Reading(0, 0, 100), Reading(10**9, 0, 80)])
    assert clock.bound_ns(5 * 10**8) == 100
    assert clock.bound_ns(2 * 10**9) > 10_000


def test_blocks_of_a_guest_come_to_our_clock_and_absent_instants_stay() -> None:
    clock = GuestClock([Reading(0, 1000, 1), Reading(1000, 1000, 1)])
    columns = {
        "intended_ns": np.array([1500, 2500]), "sent_ns": np.array([1500, 2600]),
        "finished_ns": np.array([-1, 2700]), "sent_bytes": np.array([1500, 1500]),
    }  # fmt: skip
    out = on_our_clock("burst/1", columns, clock, OurClock())
    assert out["sent_ns"].tolist() == [500, 1600]
    assert out["finished_ns"].tolist() == [-1, 1700]
    assert out["sent_bytes"].tolist() == [1500, 1500]


def test_a_clock_that_stood_still_is_another_line_from_then_on() -> None:
    clock = GuestClock([Reading(0, 1000, 1), Reading(1000, 1000, 1)])
    # Paused from 2000 to 2500 of ours: it shows 3000 at both.
    clock.stood_still(2500, Reading(2600, 500, 1))
    assert (clock.to_ours(3000), clock.to_ours(3001), clock.from_ours(2700)) == (2000, 2501, 3200)
    columns = {"begin_ns": np.array([2900, 3000, 3100, -1]), "end_ns": np.array([3000, 3100, 3200, 3300])}
    out = on_our_clock("memory/1", columns, clock, OurClock())
    assert out["begin_ns"].tolist() == [1900, 2000, 2600, -1]
    assert out["end_ns"].tolist() == [2000, 2600, 2700, 2800]
    clock.forget()
    clock.add(Reading(0, 7, 1))
    assert clock.to_ours(3000) == 2993


def test_a_packets_departure_is_of_its_senders_clock() -> None:
    here = GuestClock([Reading(0, 1000, 1), Reading(1000, 1000, 1)])
    there = GuestClock([Reading(0, -500, 1), Reading(1000, -500, 1)])
    columns = {"sent_ns": np.array([100]), "received_ns": np.array([1700]), "user_ns": np.array([1710])}
    out = on_our_clock("packet/1", columns, here, there)
    assert (out["sent_ns"][0], out["received_ns"][0], out["user_ns"][0]) == (600, 700, 710)
