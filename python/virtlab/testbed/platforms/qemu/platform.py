"""Why a virtual machine cannot be started here, found before anything is built."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from virtlab.catalogue.platforms.qemu import QEMU
from virtlab.errors import MachineError
from virtlab.plan import Guest, Plan, Refusal
from virtlab.planner.mobility.moves import moves
from virtlab.testbed.image import find, firmware, folder
from virtlab.testbed.image.disk import look
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.kinds.platform import GuestPlatform, Running, Surroundings
from virtlab.testbed.kinds.tap import CURE_TUN, tun_missing
from virtlab.testbed.platforms.qemu.acceleration import own_bytes
from virtlab.testbed.platforms.qemu.command import (
    BALLOON_DRIVER,
    DISK_MEMORY_BYTES,
    MEMORY_BYTES,
    PROGRAM,
    flavour_of,
)
from virtlab.testbed.platforms.qemu.disks import disk_refusals

if TYPE_CHECKING:
    from virtlab.testbed.kinds.findings import Findings

# Measured with Debian 12's kernels: 4 MiB less, and they have no room to unpack what they boot (they panic,
# "deadlocked on memory"). With just this much they come up under memory pressure.
MEMORY_MIN_BYTES = {"cloud": 84 << 20, "generic": 100 << 20}
LEFT_MIN_BYTES = 64 << 20  # beside a balloon: kernel, what it was booted with, and our agent
VCPUS_MAX = 255


def machine_refusals(path: str, name: str, plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """Every refusal of one guest."""
    del findings
    guest = plan.world.guests[name]
    flavour = flavour_of(guest) if guest.image is None else None
    for what, cure in _lacking(flavour):
        yield Refusal(f"{path}.platform", what, cure)
    if guest.image is not None:
        try:
            look(f"{path}.image", guest.image)
        except MachineError as error:
            yield Refusal(f"{path}.image", error.what, error.cure)
    if guest.firmware is not None and guest.image is None:
        cure = "remove it, or give an 'image' whose boot loader it starts"
        yield Refusal(f"{path}.firmware", "a kernel of ours is booted without firmware", cure)
    if guest.firmware == "uefi" and firmware.find() is None:
        reason = "no UEFI firmware for virtual machines is installed"
        yield Refusal(f"{path}.firmware", reason, firmware.CURE)
    least = MEMORY_MIN_BYTES[flavour] if flavour is not None else 0
    if guest.memory_bytes is not None and guest.memory_bytes < least:
        reason = f"the {flavour} kernel does not boot in {guest.memory_bytes / (1 << 20):.4g} MiB"
        yield Refusal(f"{path}.memory_bytes", reason, f"write at least '{least >> 20} MiB'")
    yield from _balloon(path, name, plan, flavour)
    if guest.vcpus is not None and guest.vcpus > VCPUS_MAX:
        yield Refusal(f"{path}.vcpus", f"{guest.vcpus} are more than QEMU has", f"write {VCPUS_MAX} or less")
    if guest.idle == "poll":
        yield Refusal(
            f"{path}.idle", "a virtual machine has no processor of this machine", "write 'idle: sleep'"
        )
    if guest.routing == "ospf":
        yield Refusal(f"{path}.routing", "its image has no routing daemon", "write 'routing: static'")
    if guest.pin != "none":
        yield Refusal(f"{path}.pin", "a virtual machine forwards on its own processors", "write 'pin: none'")
    yield from disk_refusals(path, name, plan)
    for own, vnic in guest.vnics.items():
        if vnic.model is not None and vnic.model not in QEMU.vnic_models:
            models = ", ".join(QEMU.vnic_models)
            yield Refusal(
                f"{path}.vnics.{own}.model",
                f"QEMU's '{vnic.model}' is not used here",
                f"there are {models}",
            )
        if vnic.uplink is not None:
            reason = "a virtual machine stands on a virtual switch"
            yield Refusal(f"{path}.vnics.{own}", reason, "write 'vswitch: linux_bridge'")


def _balloon(path: str, name: str, plan: Plan, flavour: str | None) -> Iterator[Refusal]:
    """Why a machine's balloon cannot be filled. What a disk's own kernel has is seen as it is filled."""
    guest, where = plan.world.guests[name], f"{path}.balloon_bytes"
    if guest.balloon_bytes is None:
        return
    kernel = find(flavour) if flavour is not None else None
    if kernel is not None and kernel.module(BALLOON_DRIVER) is None:
        cure = f"run `virtlab image build --kernel {flavour}` again"
        yield Refusal(where, f"the {flavour} kernel was kept here without {BALLOON_DRIVER}", cure)
    if name in moves(plan):
        reason = "a machine that moves has no balloon: its memory is copied as a whole"
        yield Refusal(where, reason, "remove 'balloon', or let it stay")
    left = (guest.memory_bytes or 0) - guest.balloon_bytes
    if 0 < left < LEFT_MIN_BYTES:
        reason = (
            f"a balloon that leaves {left / (1 << 20):.4g} MiB cannot be filled: the system inside needs more"
        )
        yield Refusal(where, reason, f"leave it at least '{LEFT_MIN_BYTES >> 20} MiB'")


def machines_missing() -> str | None:
    """Why no virtual machine can be started here; None when one can."""
    first = next(_lacking("cloud"), None)
    return "; ".join(first) if first is not None else None


def _lacking(flavour: str | None) -> Iterator[tuple[str, str]]:
    """`flavour`: of the kernel that we boot; None: a disk brings its own."""
    if platform.machine() != "x86_64":
        yield f"images are of x86_64, this is {platform.machine()}", "use a machine with an x86_64 processor"
        return
    if shutil.which(PROGRAM) is None:
        yield f"{PROGRAM} is missing", "install qemu-system-x86"
    if (why := tun_missing()) is not None:
        yield why, CURE_TUN
    if flavour is None:
        return  # all else is on its disk
    if find(flavour) is None:
        cure = f"run `virtlab image build --kernel {flavour}`"
        yield f"there is no {flavour} kernel in {folder()}", cure
    try:
        find_busybox()
    except MachineError as error:
        yield error.what, error.cure


def _running(world: Surroundings, names: Sequence[str]) -> Running:
    from virtlab.testbed.platforms.qemu.machines import Machines

    machines = Machines(world.control, world.plan, world.lowered, names, world.tasks, now=world.now)
    machines.moving.switches = world.switches
    return machines


def memory_of(guest: Guest) -> int:
    """What a machine takes: what the file says, or as much as what it boots needs; its disk in memory; QEMU's own."""
    in_memory = guest.disk.size_bytes if guest.disk is not None and guest.disk.medium == "memory" else 0
    default = MEMORY_BYTES[flavour_of(guest)] if guest.image is None else DISK_MEMORY_BYTES
    return (guest.memory_bytes or default) + in_memory + own_bytes()


IMPLEMENTATION = GuestPlatform(lambda _: machines_missing(), machine_refusals, _running, memory_of)
