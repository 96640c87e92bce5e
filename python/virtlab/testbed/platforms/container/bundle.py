"""What an OCI runtime is given: a bundle, made by us, of a configuration and a root file system.

Bundles lie on a tmpfs that only the private world sees, so they are gone with it. A container gets no network of
its own: it is started where its guest's vNICs are, and stays there. Its root file system is the image that the file
names, under a layer of its own that takes what it writes; or, without an image, a bare one, with busybox where
there is a static one.

Source: Open Container Initiative Runtime Specification 1.0.2, config.md and config-linux.md.
"""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from virtlab.catalogue.disks import FOLDER
from virtlab.testbed.kinds.capabilities import CAPABILITIES
from virtlab.testbed.platforms.container import seccomp
from virtlab.testbed.steps.operations import Users

AGENT = "/virtlab-agent"
BUSYBOX = "/bin/busybox"
FILTER = "/virtlab-filter"  # of system calls, compiled; the same name where bundles lie
BARE = "bare.tar"
PROGRAMS = "programs"
CONTROL_FD = 3
USERS_FD = 4  # of the runtime, and of what it starts: the user namespace that the container is to join
FOLDERS = ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr")
MASKED = (
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
)
READ_ONLY = ("/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a container may use; None: no bound. `bandwidth_us`: CPU time in each period, and the period.

    `swaps`: the kernel accounts for swap. Then what a container may have of memory and `swap_bytes` is all that it may
    have: one that needs more is killed, and does not continue at the pace of a disk, whichever runtime runs it.
    """

    bandwidth_us: tuple[int, int] | None = None
    memory_bytes: int | None = None
    swaps: bool = False
    pids: int | None = None  # processes and threads
    swap_bytes: int = 0  # beyond its memory

    def json(self) -> dict[str, Any]:
        """As `linux.resources`."""
        out: dict[str, Any] = {}
        if self.bandwidth_us is not None:
            out["cpu"] = {"quota": self.bandwidth_us[0], "period": self.bandwidth_us[1]}
        if self.memory_bytes is not None:
            out["memory"] = {"limit": self.memory_bytes}
            if self.swaps:
                out["memory"]["swap"] = self.memory_bytes + self.swap_bytes  # memory and swap together
        if self.pids is not None:
            out["pids"] = {"limit": self.pids}
        return out


@dataclass(frozen=True, slots=True)
class Bundle:
    """One container. `cgroup`: the path of its control group; None where it gets none (an ordinary user's).

    `capabilities`: what root has where it runs; None: all. `filtered`: its system calls are. `users`: whom those inside
    are outside, in the user namespace that its network belongs to; None: itself.
    """

    guest: str
    agent: str
    image: Path | None
    busybox: Path | None
    limits: Limits
    cgroup: str | None
    capabilities: tuple[str, ...] | None = None
    filtered: bool = True
    users: Users | None = None
    disk_bytes: int | None = None  # of a folder in memory; None: it has none
    stored_disk: bool = False  # its disk is mounted already, at the same place where its runtime is started

    def config(self, place: str = "") -> dict[str, Any]:
        """config.json. `place`: where bundles lie."""
        granted = list(CAPABILITIES if self.capabilities is None else self.capabilities)
        sets = ("bounding", "effective", "permitted")
        linux: dict[str, Any] = {
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")],
            "maskedPaths": list(MASKED),
            "readonlyPaths": list(READ_ONLY),
        }
        if self.filtered and not self._filters_itself:
            linux["seccomp"] = seccomp.profile()
        if self.users is not None:
            linux["namespaces"].append({"type": "user", "path": f"/proc/self/fd/{USERS_FD}"})
            mapped = [{"containerID": 0, "hostID": self.users.first, "size": self.users.count}]
            linux |= {"uidMappings": mapped, "gidMappings": mapped}
        if self.cgroup is not None:
            linux["namespaces"].append({"type": "cgroup"})
            linux["cgroupsPath"] = self.cgroup
            linux["resources"] = self.limits.json()
        return {
            "ociVersion": "1.0.2",
            "hostname": self.guest,
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": [AGENT, "inside", "--control-fd", str(CONTROL_FD), *self._filter],
                "env": [
                    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "HOME=/root",
                    "TERM=linux",
                ],
                "cwd": "/",
                "capabilities": dict.fromkeys(sets, granted),
                "noNewPrivileges": True,
            },
            "root": {"path": "rootfs"},
            "mounts": list(self._mounts(place)),
            "linux": linux,
        }

    @property
    def _filters_itself(self) -> bool:
        """Whether its first process hands the filter to the kernel, and not the runtime."""
        return self.filtered and seccomp.program() is not None

    @property
    def _filter(self) -> list[str]:
        return ["--filter", FILTER] if self._filters_itself else []

    def source(self, path: str, place: str) -> str:
        """Where a program that it is given can be reached: not by the path of a folder that only root may enter."""
        return path if self.users is None else f"{place}/{PROGRAMS}/{Path(path).name}"

    def _mounts(self, place: str) -> list[dict[str, Any]]:
        def mount(place: str, kind: str, source: str, *options: str) -> dict[str, Any]:
            return {"destination": place, "type": kind, "source": source, "options": list(options)}

        quiet = ("nosuid", "noexec", "nodev")
        found = [
            mount("/proc", "proc", "proc"),
            mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
            mount(
                "/dev/pts",
                "devpts",
                "devpts",
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
            ),
            mount("/dev/shm", "tmpfs", "shm", *quiet, "mode=1777", "size=65536k"),  # noqa: S108 - inside the container
            mount("/sys", "sysfs", "sysfs", *quiet, "ro"),
        ]
        if self.cgroup is not None:
            found.append(mount("/sys/fs/cgroup", "cgroup", "cgroup", *quiet, "relatime", "ro"))
        if self.disk_bytes is not None:
            options = ("nosuid", "nodev", "mode=1777", f"size={self.disk_bytes}")
            found.append(mount(FOLDER, "tmpfs", "tmpfs", *options))
        if self.stored_disk:
            found.append(mount(FOLDER, "bind", FOLDER, "bind"))
        found.append(mount(AGENT, "bind", self.source(self.agent, place), "bind", "ro"))
        if self._filters_itself:
            found.append(mount(FILTER, "bind", place + FILTER, "bind", "ro"))
        if self.image is None and self.busybox is not None:
            found.append(mount(BUSYBOX, "bind", self.source(str(self.busybox), place), "bind", "ro"))
        return found


def archive(bundles: Sequence[Bundle], applets: Sequence[str], place: str = "") -> bytes:
    """All bundles as a tar file, each in a folder of its number. `applets`: what busybox can be called."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for number, bundle in enumerate(bundles):
            _folder(tar, str(number))
            for name in ("rootfs", "upper", "work"):
                _folder(tar, f"{number}/{name}")
            _file(tar, f"{number}/config.json", json.dumps(bundle.config(place)).encode())
        if any(bundle.filtered for bundle in bundles) and (program := seccomp.program()) is not None:
            _file(tar, FILTER.removeprefix("/"), program)
        if any(bundle.image is None for bundle in bundles):
            _file(tar, BARE, bare(tuple(applets)))
    return out.getvalue()


@cache
def bare(applets: tuple[str, ...]) -> bytes:
    """The bare root file system as a tar file: folders, a user, and busybox's other names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in FOLDERS:
            _folder(tar, name, mode=0o1777 if name == "tmp" else 0o755)
        _file(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _file(tar, "etc/group", b"root:x:0:\n")
        for name in applets:
            _link(tar, f"bin/{name}", "busybox")
    return out.getvalue()


def prepare(place: str, bundles: Sequence[Bundle], *, before: str = "") -> str:
    """A shell script that makes `place` a tmpfs of the world's, unpacks the archive of its input there, and puts
    images.
    """
    mapped = [bundle for bundle in bundles if bundle.users is not None]
    mode = "0711" if mapped else "0700"  # root of a user namespace is one of the others
    lines = [
        f"{before}mount -t tmpfs -o mode={mode} virtlab {place}",
        f"cd {place}",
        "tar -x --no-same-owner",
    ]
    programs = {str(path) for each in mapped for path in (each.agent, each.busybox) if path is not None}
    lines += [f"mkdir {PROGRAMS}"] if programs else []
    for path in sorted(programs):
        target = f"{PROGRAMS}/{Path(path).name}"
        lines += [f"touch {target}", f"mount --bind {shlex.quote(path)} {target}"]
    for number, bundle in enumerate(bundles):
        if bundle.image is None:
            lines.append(f"tar -x --no-same-owner -f {BARE} -C {number}/rootfs")
        else:
            # Paths with these characters are refused before: the kernel splits its options at them.
            layers = f"lowerdir={bundle.image},upperdir={place}/{number}/upper,workdir={place}/{number}/work"
            # A new owner is noted in the upper layer without a copy of the content.
            layers += ",metacopy=on" if bundle.users is not None else ""
            lines.append(f"mount -t overlay -o '{layers}' virtlab {place}/{number}/rootfs")
        if bundle.users is not None:
            users = f"--first {bundle.users.first} --count {bundle.users.count}"
            lines.append(f"{shlex.quote(bundle.agent)} shift {users} {place}/{number}/rootfs")
    return " && ".join(lines)


def _folder(tar: tarfile.TarFile, name: str, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


def _file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
    tar.addfile(entry)
