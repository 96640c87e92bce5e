"""Kernels to boot, from a distribution's packages, unpacked and not installed, in the user's cache.

Two flavours of Debian's kernel: `cloud` is small and boots fast, and knows virtio only; `generic` has drivers of real
devices (e1000). What is kept of a package is the kernel and the modules that a guest or a laboratory machine may want.
A third, `xen`, is the generic one with Xen's modules, and lies beside the hypervisor (`image.xen`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.image import modules
from virtlab.testbed.image.bzimage import has_pvh_entry, unpacked_kernel
from virtlab.testbed.leader.environment import FETCHING, PLACES, of_program

FLAVOURS = {"cloud": "linux-image-cloud-amd64", "generic": "linux-image-amd64"}
WANTED = (
    "virtio_pci", "virtio_console", "virtio_net", "virtio_blk", "virtio_rng", "virtio_balloon", "e1000", "e1000e",
    "sch_htb", "sch_tbf", "sch_sfq", "sch_codel", "sch_fq_codel", "sch_hfsc", "sch_netem", "sch_prio", "sch_fq",
    "sch_cake", "sch_pie", "sch_drr", "sch_ingress", "cls_u32", "cls_flower", "cls_matchall", "cls_flow", "cls_fw",
    "bridge", "veth", "tun", "vxlan", "ifb", "crc32c_generic", "openvswitch", "tcp_diag", "udp_diag", "overlay",
    "loop", "ext4", "isofs", "ata_piix", "sr_mod",
)  # fmt: skip
XEN = "xen"
_OF_XEN = (
    "xenfs", "xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd", "xen_netback", "xen_netfront",
)  # fmt: skip
_DESCRIPTION = "kernel.json"
CURE_ROOM = "make room, or set XDG_CACHE_HOME"
_CURES = {
    "apt": "run `apt-get update`, and see whether the network is there",
    "dpkg": "give a package of Debian that is whole",
}  # by the package of the program that failed


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in the cache. `version` is its own (`uname -r`), `package` the package with its version."""

    flavour: str
    version: str
    package: str
    folder: Path

    @property
    def image(self) -> Path:
        """The compressed kernel, as bootloaders take it."""
        return self.folder / "vmlinuz"

    @property
    def program(self) -> Path:
        """What QEMU and Xen boot at once: the kernel unpacked, where it was packed in a way that is slow to unpack."""
        unpacked = self.folder / "vmlinux"
        return unpacked if unpacked.is_file() else self.image

    def modules(self) -> list[str]:
        """Modules that were kept of it."""
        return sorted(path.stem for path in (self.folder / "modules").glob("*.ko"))

    def module(self, name: str) -> bytes | None:
        """A module by name; None when it is built in, or was not kept."""
        path = self.folder / "modules" / f"{name}.ko"
        return path.read_bytes() if path.is_file() else None


def folder() -> Path:
    """Where images are kept: `virtlab/images` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "virtlab" / "images"


def find(flavour: str) -> Kernel | None:
    """The kernel of a flavour in the cache, or None."""
    home = folder() / flavour
    try:
        said = json.loads((home / _DESCRIPTION).read_text(encoding="utf-8"))
        found = Kernel(flavour, str(said["version"]), str(said["package"]), home)
    except (OSError, ValueError, KeyError):
        return None
    return found if found.image.is_file() else None


def missing(flavour: str) -> MachineError:
    """The error that there is no kernel of a flavour yet."""
    return MachineError(
        "image",
        f"there is no {flavour} kernel in {folder()}",
        f"run `virtlab image build --kernel {flavour}`",
    )


def build(
    flavour: str,
    package: Path | None = None,
    progress: Callable[[str], None] = lambda _step: None,
    more: Callable[[Path, Path], None] = lambda _work, _folder: None,
) -> Kernel:
    """Fetches the newest kernel package of the distribution (or takes a file) and keeps what a guest needs of it.

    `more` puts what else belongs to the flavour into its second folder; the first is to work in. MachineError when
    there is no such package, no tool to fetch or unpack it, or nothing to boot inside.
    """
    home = folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home), tempfile.TemporaryDirectory(prefix=".build-", dir=home) as scratch:
            for left in home.glob(".build-*"):  # by somebody who was killed: no other builds now
                if left != Path(scratch):
                    shutil.rmtree(left, ignore_errors=True)
            work = Path(scratch)
            if package is None:
                meta = FLAVOURS["generic" if flavour == XEN else flavour]
                progress(f"fetch {meta}")
                package = _fetch(meta, work)
            progress(f"unpack {package.name}")
            unpacked = work / "unpacked"
            run(["dpkg-deb", "-x", str(package), str(unpacked)], work, "dpkg")
            progress("pick kernel and modules")
            _keep(unpacked, package, work / "kept", (*WANTED, *_OF_XEN) if flavour == XEN else WANTED)
            more(work, work / "kept")
            _replace(work / "kept", home / flavour)
    except OSError as error:
        raise MachineError("image", f"{home} cannot be written ({error.strerror})", CURE_ROOM) from error
    found = find(flavour)
    assert found is not None
    return found


def _fetch(name: str, work: Path) -> Path:
    """The package that a meta-package depends on, downloaded by apt."""
    said = run(["apt-cache", "depends", "--important", name], work, "apt")
    wanted = [
        line.split()[-1] for line in said.splitlines() if line.strip().startswith("Depends: linux-image-")
    ]
    if not wanted:
        what = f"apt knows no package {name}"
        raise MachineError("image", what, "run `apt-get update`, or give a package with --package")
    place = work / "fetched"
    place.mkdir()
    run(["apt-get", "download", "-q", wanted[0]], place, "apt")
    return next(place.glob("*.deb"))


def run(command: list[str], place: Path, package: str) -> str:
    """What a program of `package` writes, in English, run in a folder. MachineError when it is missing or fails."""
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, errors="replace", check=False,
            stdin=subprocess.DEVNULL, env=of_program(*FETCHING, *PLACES, LC_ALL="C"),
        )  # fmt: skip
    except FileNotFoundError:
        cure = (
            f"install {package}, or give a kernel package of Debian with --package on a machine that has it"
        )
        raise MachineError("image", f"{command[0]} is missing", cure) from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()
        if (full := os.strerror(errno.ENOSPC)) in done.stderr:
            raise MachineError("image", f"{folder()} cannot be written ({full})", CURE_ROOM)
        why = words[-1] if words else f"it ended with {done.returncode}"
        raise MachineError("image", f"{' '.join(command[:2])}: {why}", _CURES[package])
    return done.stdout


def _keep(unpacked: Path, package: Path, folder: Path, wanted: Sequence[str]) -> None:
    images = sorted((unpacked / "boot").glob("vmlinuz-*"))
    if not images:
        raise MachineError(
            "image", f"{package.name} holds no kernel", "give a package called linux-image-VERSION-amd64"
        )
    version = images[-1].name.removeprefix("vmlinuz-")
    tree = next(
        (root for root in (unpacked / "lib", unpacked / "usr/lib") if (root / "modules").is_dir()), None
    )
    paths = {}
    if tree is not None:
        paths = {
            modules.plain(path.name): path
            for path in (tree / "modules" / version).rglob("*.ko*")
            if path.name.endswith(modules.SUFFIXES)
        }
    chosen = modules.closure(wanted, lambda name: modules.content_of(paths[name]) if name in paths else None)
    (folder / "modules").mkdir(parents=True)
    shutil.copyfile(images[-1], folder / "vmlinuz")
    image = images[-1].read_bytes()
    if (program := unpacked_kernel(image)) is not image and has_pvh_entry(program):
        (folder / "vmlinux").write_bytes(program)
    for name, content in chosen.items():
        (folder / "modules" / f"{name}.ko").write_bytes(content)
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    said = {
        "version": version,
        "package": package.name.removesuffix(".deb").replace("%3a", ":"),
        "sha256": digest,
    }
    (folder / _DESCRIPTION).write_text(json.dumps(said, indent=1), encoding="utf-8")


def _replace(new: Path, place: Path) -> None:
    """Puts a folder in place of another at once, as far as a file system can."""
    old = new.parent / "old"
    if place.exists():
        place.rename(old)
    new.rename(place)


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    descriptor = os.open(home / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
