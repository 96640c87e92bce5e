"""A virtual machine as QEMU's command line. Pure: what it needs of the machine comes in.

Nothing is there that is not named (`-nodefaults`): a processor, memory, one network device per vNIC, a virtual serial
device for the agent, a serial port for the kernel's console, and the monitor. Ports, agent and monitor are descriptors
that the process is born with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtlab.plan import Guest
from virtlab.testbed.image.disk import Disk
from virtlab.testbed.image.firmware import Firmware
from virtlab.testbed.image.initramfs import LOAD, PORT
from virtlab.testbed.platforms.qemu import confinement

PROGRAM = "qemu-system-x86_64"
MEMORY_BYTES = {
    "cloud": 96 << 20,
    "generic": 160 << 20,
}  # of a guest that says nothing: kernels panic with less
DISK_MEMORY_BYTES = 256 << 20  # of one that boots a whole system from its disk
DEFAULT_MODEL = "virtio"
DEVICES = {"virtio": "virtio-net-pci", "e1000": "e1000", "e1000e": "e1000e"}
DRIVERS = {"virtio": "virtio_net", "e1000": "e1000", "e1000e": "e1000e"}
BALLOON_DRIVER = "virtio_balloon"
BALLOON = "balloon"  # what QEMU calls the device
DISK_NODE = "own"  # what QEMU calls it
DISK_SERIAL = "virtlab-disk"  # by which the agent inside knows it
TRANSLATION_MIB = 32  # of translated code; QEMU's own choice may fill a gigabyte
MIB = 1 << 20
# What a machine that moves under TCG has beside whole MiB. Up to QEMU 8.2, pages of memory whose size is a multiple of
# 256 KiB are taken from the bitmap of dirty ones by a shorter way, which forgets that translated code still writes to
# them unseen: the guest arrives with old pages. (Mended in 9.0: "physmem: Fix migration dirty bitmap coherency with TCG
# memory access".) Any other size takes the longer way. QEMU rounds to 8 KiB.
UNEVEN_BYTES = 8192


def flavour_of(guest: Guest) -> str:
    """The kernel that has drivers for a guest's devices."""
    return (
        "cloud"
        if {vnic.model or DEFAULT_MODEL for vnic in guest.vnics.values()} <= {DEFAULT_MODEL}
        else "generic"
    )


@dataclass(frozen=True, slots=True)
class Port:
    """A vNIC: the device that the guest sees, its address, and the descriptor of its tap."""

    mac: str
    model: str
    descriptor: int
    offloads: bool = False


@dataclass(frozen=True, slots=True)
class OwnDisk:
    """A disk that the leader serves: the descriptor of its connection, and whether it has a write cache to be
    flushed.
    """

    descriptor: int
    cached: bool
    written_by_two: bool = False  # while it is mirrored, its guest's device is not alone


@dataclass(frozen=True, slots=True)
class Machine:
    """What is asked of QEMU. `accelerator`: tcg or kvm. Of a `disk` the boot loader is started, and no kernel of
    ours.
    """

    name: str
    kernel: str
    initramfs: str
    accelerator: str
    vcpus: int
    memory_bytes: int
    ports: Sequence[Port]
    agent: int
    monitor: int
    program: str = PROGRAM
    disk: Disk | None = None
    firmware: Firmware | None = None  # that starts the disk's boot loader; None: a PC's BIOS
    own_disk: OwnDisk | None = None  # beside what it boots
    # It gives memory back, and takes it again before its kernel would end a process for want of it.
    balloon: bool = False
    moves: bool = False  # its memory is copied to another machine while it runs
    incoming: bool = False  # it waits for the memory of a machine that moves here
    held: bool = False  # its processors wait to be let go
    dirty_ring: int = (
        0  # pages that KVM notes as they are written to, of each processor; 0: it keeps bitmaps alone
    )
    account: int | None = None  # whose rights it has while the guest runs; None: its caller's

    @property
    def whole_memory_bytes(self) -> int:
        """Its memory, in whole MiB but for one that moves under TCG: not less than was requested."""
        uneven = UNEVEN_BYTES if self.moves and self.accelerator == "tcg" else 0
        return -(-self.memory_bytes // MIB) * MIB + uneven

    def drivers(self) -> list[str]:
        """Kernel modules that the guest loads before anything else."""
        own = ["virtio_blk"] if self.own_disk is not None else []
        balloon = [BALLOON_DRIVER] if self.balloon and self.disk is None else []
        return [
            "virtio_pci",
            "virtio_console",
            *dict.fromkeys(DRIVERS[port.model] for port in self.ports),
            *own,
            *balloon,
        ]

    def argv(self) -> list[str]:
        """The command line."""
        out = [
            self.program, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-name", f"guest={self.name.replace(',', ',,')},debug-threads=on",
            "-machine", self._board(), *self._processor(), "-smp", str(self.vcpus),
            "-m", self._memory(), *self._booted(),
            "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
            "-chardev", f"socket,id=monitor,fd={self.monitor}", "-mon", "chardev=monitor,mode=control",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={self.agent}",
            "-device", f"virtserialport,chardev=agent,name={PORT}",
            *confinement.words(self.account), *(["-incoming", "defer"] if self.incoming else []),
            *(["-S"] if self.held else []),
        ]  # fmt: skip
        for number, port in enumerate(self.ports):
            out += ["-netdev", f"tap,id=net{number},fd={port.descriptor}"]
            # Without its boot rom a device is ready sooner; no guest boots from it.
            device = f"{DEVICES[port.model]},netdev=net{number},mac={port.mac},romfile="
            out += ["-device", device]
        if self.balloon:
            out += ["-device", f"virtio-balloon-pci,id={BALLOON},deflate-on-oom=on"]
        return out + self._own_disk()

    def _own_disk(self) -> list[str]:
        """Requests go to the leader as they come: QEMU caches nothing, and neither merges nor splits them."""
        if self.own_disk is None:
            return []
        cached = "on" if self.own_disk.cached else "off"
        served = f"driver=nbd,node-name={DISK_NODE},server.type=fd,server.str={self.own_disk.descriptor}"
        device = f"virtio-blk-pci,drive={DISK_NODE},serial={DISK_SERIAL},write-cache={cached}"
        if self.own_disk.written_by_two:
            device += ",share-rw=on"
        return ["-blockdev", f"{served},cache.direct=on", "-device", device]

    def _memory(self) -> str:
        whole = self.whole_memory_bytes
        return f"{whole >> 10}K" if whole % MIB else f"{whole // MIB}M"

    def _processor(self) -> list[str]:
        return processor(self.accelerator, self.dirty_ring)

    def _board(self) -> str:
        # Without a screen its BIOS speaks on the serial port: that it found nothing to boot, say.
        return "pc" if self.disk is None or self.firmware is not None else "pc,graphics=off"

    def _booted(self) -> list[str]:
        if self.disk is not None:
            started = [] if self.firmware is None else self.firmware.drives()
            disk = self.disk.drive(alone=self.firmware is not None)
            return [*started, *disk, "-device", "virtio-rng-pci"]
        return ["-kernel", self.kernel, "-initrd", self.initramfs, "-append", self._append()]

    def _append(self) -> str:
        words = [
            "console=ttyS0", "quiet", "panic=-1", "nokaslr", "mitigations=off", "audit=0", "psi=1",
            f"{LOAD}={','.join(self.drivers())}",
        ]  # fmt: skip
        if self.accelerator == "tcg":
            # Its clock jumps between processors, and on a busy host the test of its timer's interrupt fails: that
            # panics. Changing instructions for a single processor, and tests of ciphers, take a quarter of its boot.
            words += ["tsc=unstable", "no_timer_check", "noreplace-smp", "cryptomgr.notests"]
        return " ".join(words)


def processor(accelerator: str, dirty_ring: int = 0) -> list[str]:
    """The options for the accelerator and the processor model."""
    if accelerator == "kvm":
        ring = f",dirty-ring-size={dirty_ring}" if dirty_ring else ""
        return ["-accel", f"kvm{ring}", "-cpu", "host"]
    return ["-accel", f"tcg,thread=multi,tb-size={TRANSLATION_MIB}", "-cpu", "qemu64"]
