"""The initial file system of a guest: busybox, drivers, and our agent, which is all that runs in it.

Its first process loads the drivers that the kernel's command line names (`virtlab.load=a,b`), and becomes the agent on
the serial port called `virtlab.agent`. Modules that are only carried along are loaded when the kernel asks for them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.image import kernels, modules
from virtlab.testbed.image.archive import Archive
from virtlab.testbed.image.elf import is_static, loaded_part
from virtlab.testbed.image.kernels import Kernel
from virtlab.testbed.image.programs import digest
from virtlab.testbed.leader.environment import of_program
from virtlab.testbed.leader.process import agent_path

PORT = "virtlab.agent"
LOAD = "virtlab.load"
BUSYBOX = (Path("/bin/busybox"), Path("/usr/lib/busybox-static/busybox"), Path("/bin/busybox-static"))
# What a guest may need; a laboratory machine carries all that was kept.
OF_A_GUEST = (
    "virtio_pci", "virtio_console", "virtio_net", "virtio_blk", "virtio_rng", "virtio_balloon", "e1000", "e1000e",
    "bridge", "tcp_diag", "ifb",
    "sch_htb", "sch_tbf", "sch_sfq", "sch_codel", "sch_hfsc", "sch_netem", "sch_prio", "sch_fq", "sch_ingress", "cls_u32",
)  # fmt: skip
# The end of an init: it becomes the agent at the machine's serial port.
BECOME_AGENT = f"""waited=0
while [ $waited -lt 500 ]; do
    for port in /sys/class/virtio-ports/*; do
        if [ "$(cat "$port/name" 2>/dev/null)" = {PORT} ] && [ -c "/dev/${{port##*/}}" ]; then
            exec virtlab-agent inside --port "/dev/${{port##*/}}"
        fi
    done
    usleep 20000
    waited=$((waited + 1))
done
echo "virtlab: there is no serial port called {PORT}"
"""

# The beginning of an init: what a kernel shows of itself, and the drivers that its command line names.
BEGIN = f"""#!/bin/sh
export PATH=/bin HOME=/ TERM=linux
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
mkdir -p /dev/pts /dev/shm /var/tmp
mount -t devpts none /dev/pts
for word in $(cat /proc/cmdline); do
    case $word in
        {LOAD}=*) modprobe -a $(echo "${{word#*=}}" | tr , ' ') || echo "virtlab: a driver is missing" ;;
    esac
done
"""
INIT = BEGIN + BECOME_AGENT


@dataclass(frozen=True, slots=True)
class Image:
    """The kernel and the initramfs that a machine boots."""

    kernel: Kernel
    initramfs: Path


def boot_image(
    flavour: str, carried: Sequence[str] | None = OF_A_GUEST, programs: Mapping[str, Path] | None = None
) -> Image:
    """Kernel and initial file system of a flavour; the latter is made when one of its parts changed.

    `carried`: modules that can be loaded inside, with all that they need; None: every one that was kept.
    `programs`: more files, place inside -> file here. MachineError when the kernel is not in the cache, or busybox
    is missing or not static.
    """
    kernel = kernels.find(flavour)
    if kernel is None:
        raise kernels.missing(flavour)
    busybox = find_busybox()
    agent = agent_path()
    names = list(carried) if carried is not None else kernel.modules()
    more = programs or {}
    digest = digest_of(INIT, kernel, busybox, agent, names, more)
    place = cached(flavour, digest, lambda: bytes(archive_of(INIT, kernel, busybox, agent, names, more)))
    return Image(kernel, place)


def cached(flavour: str, digest: str, make: Callable[[], bytes]) -> Path:
    """The initial file system of that digest, made when it is not there; those it replaces are forgotten after a day.

    MachineError when the cache cannot be written.
    """
    name = f"initramfs-{flavour}-{digest}.cpio"
    place = kernels.folder() / name
    if not place.is_file():
        content = make()
        new = place.with_name(f".{name}.{os.getpid()}")
        try:
            new.write_bytes(content)
            new.rename(place)
        except OSError as error:
            new.unlink(missing_ok=True)
            what = f"{place.parent} cannot be written ({error.strerror})"
            raise MachineError("image", what, "make room, or set XDG_CACHE_HOME") from error
        # With those that somebody was writing who was killed.
        for pattern in (f"initramfs-{flavour}-*.cpio", f".initramfs-{flavour}-*.cpio.*"):
            for old in place.parent.glob(pattern):
                if old != place and not _fresh(old, place):
                    old.unlink(missing_ok=True)
    return place


def _fresh(old: Path, new: Path) -> bool:
    """Whether an older one may still be about to be read by somebody: a day."""
    try:
        return new.stat().st_mtime - old.stat().st_mtime < 86_400
    except OSError:
        return True


def find_busybox() -> Path:
    """A static busybox. MachineError if none exists."""
    named = shutil.which("busybox")
    for path in (*BUSYBOX, *((Path(named),) if named else ())):
        if path.is_file() and is_static(path.read_bytes()):
            return Path(path)
    raise MachineError("image", "there is no static busybox", "install busybox-static")


def digest_of(
    init: str,
    kernel: Kernel,
    busybox: Path,
    agent: Path,
    carried: Sequence[str],
    more: Mapping[str, Path],
) -> str:
    """Changes when one of the parts does."""
    found = hashlib.sha256("\0".join([init, *carried]).encode())
    if more:
        found.update(digest(more))
    for part in (busybox, agent):
        state = part.stat()
        found.update(f"{part} {state.st_size} {state.st_mtime_ns}\0".encode())
    description = kernel.folder / "kernel.json"
    found.update(description.read_bytes())
    return found.hexdigest()[:16]


def archive_of(
    init: str,
    kernel: Kernel,
    busybox: Path,
    agent: Path,
    carried: Sequence[str],
    more: Mapping[str, Path],
) -> Archive:
    """First process, busybox, agent, modules, and files beyond them."""
    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "run", "tmp", "sbin", "etc", "etc/openvswitch"):
        archive.folder(name)
    archive.file("init", init.encode(), executable=True)
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    archive.file("bin/virtlab-agent", loaded_part(agent.read_bytes()), executable=True)
    for place, path in more.items():
        archive.file(place, path.read_bytes(), executable=True)
    for name in applets(busybox):
        if name not in {"init", "linuxrc"}:
            archive.link(f"bin/{name}", "busybox")
    # The kernel asks this one for modules.
    archive.link("sbin/modprobe", "/bin/busybox")
    held = modules.closure(carried, kernel.module)
    place = f"lib/modules/{kernel.version}"
    for name, content in held.items():
        archive.file(f"{place}/{name}.ko", content)
    dependencies, names = modules.tables(held)
    archive.file(f"{place}/modules.dep", dependencies.encode())
    archive.file(f"{place}/modules.alias", names.encode())
    return archive


@cache
def programs_of_machines() -> tuple[str, ...] | None:
    """Those that a machine of our own system holds by name; None where there is no busybox for one."""
    try:
        return ("busybox", *applets(find_busybox()))
    except MachineError:
        return None


def applets(busybox: Path) -> tuple[str, ...]:
    """The names by which busybox can be called, its own aside."""
    done = subprocess.run(
        [str(busybox), "--list"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=of_program(),
    )
    return tuple(name for name in done.stdout.split() if name != "busybox")
