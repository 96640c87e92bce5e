"""A disk of somebody's own system for tests: partitioned, with a boot loader, a kernel, and busybox as its init.

It knows of virtlab what `virtlab image agent` wrote, unpacked at its root, and the line of an inittab that it says. Its
own start is like a distribution's: it names its vNIC by itself, brings it up with an address, and writes on its disk.
"""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import testbed_world as worlds

from virtlab.testbed.image import carried, firmware, kernels, modules
from virtlab.testbed.image.archive import Archive
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.platforms.appliance.platform import appliances_missing

MBR = (Path("/usr/lib/SYSLINUX/mbr.bin"), Path("/usr/lib/syslinux/mbr/mbr.bin"))
PROGRAMS = ("syslinux", "mformat", "mcopy")
SECTOR = 512
EFI = Path("/usr/lib/SYSLINUX.EFI/efi64/syslinux.efi")
EFI_CORE = Path("/usr/lib/syslinux/modules/efi64/ldlinux.e64")
FIRST = 2048  # sector of the partition
SECTORS = 65_536
CLUSTER = 65_536
DRIVERS = ("virtio_pci", "virtio_blk", "virtio_net", "e1000")
DISCIPLINES = ("sch_htb", "sch_sfq")  # which its kernel loads when they are asked for
MENU = """DEFAULT own
PROMPT 0
LABEL own
  KERNEL vmlinuz
  INITRD system
  APPEND console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=unstable
"""
RC = f"""#!/bin/sh
export PATH=/bin
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
for name in {" ".join(DRIVERS)}; do modprobe $name; done
ip link set eth0 name own0
ip address add 192.0.2.7/24 dev own0
ip link set own0 up
echo "written at $(cat /proc/sys/kernel/random/boot_id)" | dd of=/dev/vda seek={SECTORS - 1} conv=notrunc 2>/dev/null
sync
echo "own disk: $(dd if=/dev/vda skip={SECTORS - 1} 2>/dev/null | head -n 1)"
echo "own system is up"
"""


def missing() -> str | None:
    """Why no disk can be made or booted here, or None."""
    if (why := worlds.missing() or appliances_missing()) is not None:
        return why
    if any(shutil.which(name) is None for name in PROGRAMS) or not any(path.is_file() for path in MBR):
        return "a disk with a boot loader is made with the packages syslinux and mtools"
    return None if kernels.find("cloud") is not None else "there is no kernel: run `virtlab image build`"


def uefi_missing() -> str | None:
    """Why no disk for UEFI can be made or booted here, or None."""
    if not EFI.is_file() or not EFI_CORE.is_file():
        return "a disk that UEFI boots is made with the package syslinux-efi"
    return "there is no UEFI firmware: install ovmf" if firmware.find() is None else missing()


def raw(place: Path, *, agent: bool, carried_along: Sequence[str] = DISCIPLINES, uefi: bool = False) -> Path:
    """A disk with one partition of FAT, and a system on it; `uefi`: no BIOS finds a boot loader there."""
    scratch = place.with_suffix(".parts")
    scratch.mkdir()
    kernel = kernels.find("cloud")
    assert kernel is not None
    (scratch / "system").write_bytes(_system(kernel, carried_along, agent=agent))
    (scratch / "syslinux.cfg").write_text(MENU)
    boot_code = b"" if uefi else next(path for path in MBR if path.is_file()).read_bytes()[:440]
    # One partition: active, begins where it says, of kind FAT with logical block addresses.
    table = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x0E, b"\xfe\xff\xff", FIRST, SECTORS - FIRST)
    with place.open("wb") as file:
        file.write(boot_code.ljust(446, b"\0") + table.ljust(64, b"\0") + b"\x55\xaa")
        file.truncate(SECTORS * SECTOR)
    partition = f"{place}@@{FIRST * SECTOR}"
    geometry = ["-T", str(SECTORS - FIRST), "-H", str(FIRST), "-h", "255", "-s", "63"]
    _run("mformat", "-i", partition, *geometry, "::")
    if uefi:
        _run("mmd", "-i", partition, "::/EFI", "::/EFI/BOOT")
        for source, name in (
            (EFI, "BOOTX64.EFI"),
            (EFI_CORE, "LDLINUX.E64"),
            (scratch / "syslinux.cfg", "SYSLINUX.CFG"),
        ):
            _run("mcopy", "-i", partition, str(source), f"::/EFI/BOOT/{name}")
        for source in (kernel.image, scratch / "system"):
            _run("mcopy", "-i", partition, str(source), "::/EFI/BOOT")
    else:
        _run("syslinux", "--offset", str(FIRST * SECTOR), "--install", str(place))
        files = [kernel.image, scratch / "system", scratch / "syslinux.cfg"]
        _run("mcopy", "-i", partition, *map(str, files), "::")
    shutil.rmtree(scratch)
    return place


def qcow2(disk: Path, place: Path) -> Path:
    """The same disk in QEMU's own kind: header, tables of places and of uses, and the clusters that hold something."""
    content = disk.read_bytes()
    clusters = [content[at : at + CLUSTER] for at in range(0, len(content), CLUSTER)]
    held = [number for number, cluster in enumerate(clusters) if cluster.strip(b"\0")]
    first = 5  # header, uses' table, uses, level 1, level 2
    places = {number: (first + at) * CLUSTER for at, number in enumerate(held)}
    used = first + len(held)
    bits = CLUSTER.bit_length() - 1
    assert max(len(clusters) * 8, used * 2) <= CLUSTER
    head = struct.pack(
        ">4sIQIIQIIQQIIQ", b"QFI\xfb", 2, 0, 0, bits, len(content), 0, 1, 3 * CLUSTER, CLUSTER, 1, 0, 0
    )
    copied = 1 << 63
    level_2 = b"".join(
        struct.pack(">Q", places[number] | copied if number in places else 0)
        for number in range(len(clusters))
    )
    parts = [
        head, struct.pack(">Q", 2 * CLUSTER), struct.pack(">H", 1) * used, struct.pack(">Q", 4 * CLUSTER | copied), level_2,
        *(clusters[number] for number in held),
    ]  # fmt: skip
    place.write_bytes(b"".join(part.ljust(CLUSTER, b"\0") for part in parts))
    return place


def _system(kernel: kernels.Kernel, carried_along: Sequence[str], *, agent: bool) -> bytes:
    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "run", "tmp", "sbin", "etc"):
        archive.folder(name)
    busybox = find_busybox()
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    listed = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True).stdout
    for name in listed.split():
        if name not in {"busybox", "linuxrc"}:
            archive.link(f"bin/{name}", "busybox")
    archive.link("init", "bin/busybox")
    archive.link("sbin/modprobe", "/bin/busybox")
    lines = ["::sysinit:/etc/rc", "ttyS0::askfirst:/bin/sh"]
    if agent:
        lines.append(carried.INITTAB)
        with tarfile.open(fileobj=io.BytesIO(carried.archive())) as tar:
            for member in tar.getmembers():
                if member.isfile() and (file := tar.extractfile(member)) is not None:
                    archive.file(member.name, file.read(), executable=bool(member.mode & 0o100))
    archive.file("etc/inittab", "".join(f"{line}\n" for line in lines).encode())
    archive.file("etc/rc", RC.encode(), executable=True)
    held = modules.closure((*DRIVERS, "virtio_console", *carried_along), kernel.module)
    for name, content in held.items():
        archive.file(f"lib/modules/{kernel.version}/{name}.ko", content)
    dependencies, names = modules.tables(held)
    archive.file(f"lib/modules/{kernel.version}/modules.dep", dependencies.encode())
    archive.file(f"lib/modules/{kernel.version}/modules.alias", names.encode())
    return bytes(archive)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
