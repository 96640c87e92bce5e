"""What a laboratory machine with Xen boots: Debian's hypervisor, a domain 0 with `xl`, and what its guests boot.

The machine boots the hypervisor; that starts domain 0, the kernel that has the machine's devices, from its own initial
file system; domain 0 starts paravirtualised guests (PV) with the same kernel and a small one. All three are of Debian's
packages, unpacked and not installed. The kernel is unpacked here once: an emulated processor would need ten seconds for
each guest.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.image import elf, kernels, packages
from virtlab.testbed.image.initramfs import (
    BECOME_AGENT,
    BEGIN,
    Image,
    archive_of,
    cached,
    digest_of,
    find_busybox,
)
from virtlab.testbed.image.kernels import XEN, Kernel
from virtlab.testbed.leader.process import agent_path

BUILD = f"virtlab image build --kernel {XEN}"
PROGRAMS = ("xl", "xenstored", "xenconsoled", "xentop", "xen-init-dom0")
PORTS = "virtlab.ports"  # word of a guest's command line: how many ports it has
READY = "virtlab: ready"  # a guest's console takes frames from then on
GUEST_MODULES = (
    "xen_netfront", "bridge", "tcp_diag", "sch_htb", "sch_tbf", "sch_sfq", "sch_codel", "sch_hfsc", "sch_netem",
    "sch_prio", "sch_fq", "sch_ingress", "cls_u32",
)  # fmt: skip
GUEST_KERNEL, GUEST_INITRAMFS = "/guest/vmlinux", "/guest/initramfs"
SCRIPTS = {
    "guest": "bin/xen-guest", "port": "bin/xen-port", "top": "bin/xen-top", "sweep": "bin/xen-sweep",
}  # fmt: skip
DOMAIN_0_MODULES = ("virtio_pci", "virtio_console", "xenfs", "xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd",
                    "xen_netback", "bridge")  # fmt: skip
DOMAIN_0_NETWORK = "/run/netns/domain-0"  # where the hypervisor's back ends are born
_HYPERVISOR = re.compile(r"^xen-hypervisor-(\d+\.\d+)-amd64\b", re.MULTILINE)
_FACTS = "xen.json"

GUEST_INIT = f"""{BEGIN}for word in $(cat /proc/cmdline); do
    case $word in
        {PORTS}=*) ports=${{word#*=}} ;;
    esac
done
# A port is there once domain 0 has answered.
waited=0
while [ "$(ls -d /sys/class/net/eth* 2>/dev/null | wc -l)" -lt "$ports" ] && [ $waited -lt 1500 ]; do
    usleep 20000
    waited=$((waited + 1))
done
# From here on the console carries frames: only a dying kernel may still speak.
echo 1 > /proc/sys/kernel/printk
stty -F /dev/hvc0 raw -echo
echo "{READY}"
exec virtlab-agent inside --port /dev/hvc0
"""

DOMAIN_0_INIT = f"""{BEGIN}mkdir -p /run/netns /run/xen /run/lock /var/lib/xen /var/log/xen /proc/xen
ln -s /run /var/run
ln -s /run/lock /var/lock
modprobe -a {" ".join(DOMAIN_0_MODULES)} || echo "virtlab: a driver is missing"
mount -t xenfs none /proc/xen
touch {DOMAIN_0_NETWORK}
mount --bind /proc/1/ns/net {DOMAIN_0_NETWORK}
# A program that ends here ends the machine, with its words on the console: nothing works without one of these.
mkdir -p /run/xenstored
xenstored --pid-file /run/xenstored.pid || exit 1
xen-init-dom0 > /dev/null || exit 1
xenconsoled --pid-file=/run/xenconsoled.pid || exit 1
{BECOME_AGENT}"""

# Starts a guest and becomes the way to its agent: descriptor 3 is the stream. $1: its name, $2: its configuration.
GUEST_SCRIPT = f"""#!/bin/sh
export PATH=/bin
printf '%s' "$2" > "/run/xen/$1.cfg"
# libxl gives the back end of a port ten seconds, which an emulated processor that others use too may not have: one
# guest is made at a time, and again where that was not enough.
until mkdir /run/xen/making 2> /dev/null; do usleep 50000; done
tries=0
until xl create -q "/run/xen/$1.cfg" 3>&- 2> "/run/xen/$1.errors"; do
    tries=$((tries + 1))
    if [ $tries -ge 3 ] || ! grep -q "unable to add" "/run/xen/$1.errors"; then
        cat "/run/xen/$1.errors" >&2
        rmdir /run/xen/making
        exit 1
    fi
    xl destroy "$1" 2> /dev/null
done
rmdir /run/xen/making
id=$(xl domid "$1") || exit 1
tty=
waited=0
while [ -z "$tty" ] && [ $waited -lt 500 ]; do
    tty=$(xenstore read "/local/domain/$id/console/tty" 2>/dev/null)
    [ -n "$tty" ] || usleep 20000
    waited=$((waited + 1))
done
[ -n "$tty" ] || {{ echo "xenconsoled gave it no terminal" >&2; exit 1; }}
exec virtlab-agent console --control-fd 3 --tty "$tty" --ready "{READY}"
"""

# Called by xl as a guest's port comes and goes: brings domain 0's end into the network that xl was called from,
# down, with an address of its own by which it is known there.
PORT_SCRIPT = f"""#!/bin/sh
export PATH=/bin
case $1 in
    online|add)
        mac=$(xenstore read "$XENBUS_PATH/mac")
        there="nsenter --net={DOMAIN_0_NETWORK} ip link set $vif"
        if $there down && $there address "fe:${{mac#*:}}" && $there netns $$; then
            xenstore write "$XENBUS_PATH/hotplug-status" connected
        else
            xenstore write "$XENBUS_PATH/hotplug-error" "$vif could not be moved"
            xenstore write "$XENBUS_PATH/hotplug-status" error
            exit 1
        fi ;;
esac
exit 0
"""

# xentop in the network of a process, with what /sys says of that network. $1: the process, the others: options.
TOP_SCRIPT = """#!/bin/sh
export PATH=/bin
there=/proc/$1/ns/net
shift
exec nsenter --net=$there unshare -m sh -c 'mount -t sysfs none /sys && exec xentop "$@"' xentop "$@"
"""

# Ends every guest, side by side; those of a world that is over have no owner left.
SWEEP_SCRIPT = """#!/bin/sh
export PATH=/bin
rmdir /run/xen/making 2> /dev/null
others() { xl list | while read -r _ id _; do case $id in ''|0|*[!0-9]*) ;; *) echo "$id" ;; esac; done; }
for id in $(others); do
    xl destroy "$id" &
done
wait
[ -z "$(others)" ] || { echo "guests are left: $(others)" >&2; exit 1; }
"""


@dataclass(frozen=True, slots=True)
class XenImage(Image):
    """What the laboratory machine with Xen boots; the initial file system is domain 0's, and holds what guests boot."""

    hypervisor: Path
    xen: str  # the hypervisor's package, with its version

    @property
    def domain_0(self) -> Path:
        """Its kernel, as it is loaded."""
        return self.kernel.program


def build_xen(package: Path | None = None, progress: Callable[[str], None] = lambda _step: None) -> Kernel:
    """Fetches hypervisor, tools with their libraries, and a kernel; keeps what is needed of them.

    `package`: a kernel package to take instead of fetching one. MachineError when one of them cannot be had.
    """

    def more(work: Path, folder: Path) -> None:
        said = kernels.run(["apt-cache", "search", "--names-only", "^xen-hypervisor-.*-amd64$"], work, "apt")
        versions = sorted((_number(found[1]), found[1]) for found in _HYPERVISOR.finditer(said))
        if not versions:
            raise MachineError(
                "image", "apt knows no package xen-hypervisor-VERSION-amd64", "run `apt-get update`"
            )
        version = versions[-1][1]
        name = f"xen-hypervisor-{version}-amd64"
        progress(f"fetch {name} and its tools")
        first = packages.fetch([name, f"xen-utils-{version}", "xenstore-utils"], work / "xen")
        programs, libraries = packages.gather(first, lambda root: _programs(root, version), work)
        _put(programs, libraries, folder / "root")
        hypervisor = next((work / "root/boot").glob("xen-*.gz"))
        (folder / "xen").write_bytes(gzip.decompress(hypervisor.read_bytes()))
        facts = {"package": f"{name}_{packages.version_of(first[name])}"}
        (folder / _FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")

    return kernels.build(XEN, package, progress, more)


def xen_missing() -> str | None:
    """Why there is nothing to boot; None when there is."""
    try:
        _stored()
    except MachineError as error:
        return error.what
    return None


def package_kept() -> str | None:
    """The hypervisor's package in the cache, with its version; None if none exists."""
    try:
        return _stored()[1]
    except MachineError:
        return None


def xen_image() -> XenImage:
    """Hypervisor, kernel and initial file system; the latter is made when one of its parts changed.

    MachineError when they are not in the cache, or busybox is missing or not static.
    """
    kernel, package = _stored()
    busybox, agent = find_busybox(), agent_path()
    root = kernel.folder / "root"
    more = {str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()}
    names = kernel.modules()
    scripts = {"guest": GUEST_SCRIPT, "port": PORT_SCRIPT, "top": TOP_SCRIPT, "sweep": SWEEP_SCRIPT}
    texts = "\0".join([DOMAIN_0_INIT, GUEST_INIT, *scripts.values(), *GUEST_MODULES])

    def make() -> bytes:
        inner = archive_of(GUEST_INIT, kernel, busybox, agent, GUEST_MODULES, {})
        outer = archive_of(DOMAIN_0_INIT, kernel, busybox, agent, names, more)
        for name, script in scripts.items():
            outer.file(SCRIPTS[name], script.encode(), executable=True)
        outer.file("etc/xen/xl.conf", b'autoballoon="off"\n')
        outer.file(GUEST_KERNEL, kernel.program.read_bytes())
        outer.file(GUEST_INITRAMFS, bytes(inner))
        return bytes(outer)

    digest = digest_of(texts, kernel, busybox, agent, names, more)
    return XenImage(kernel, cached(XEN, digest, make), kernel.folder / "xen", package)


def _stored() -> tuple[Kernel, str]:
    kernel = kernels.find(XEN)
    try:
        assert kernel is not None
        facts = json.loads((kernel.folder / _FACTS).read_text(encoding="utf-8"))
        return kernel, str(facts["package"])
    except (AssertionError, OSError, ValueError, KeyError):
        what = f"there is no hypervisor in {kernels.folder()}"
        raise MachineError("image", what, f"run `{BUILD}`") from None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _programs(root: Path, version: str) -> list[Path]:
    found = [root / "usr/lib" / f"xen-{version}" / "bin" / name for name in PROGRAMS]
    found.append(root / "usr/bin/xenstore")
    for path in found:
        if not path.is_file():
            raise MachineError("image", f"no package of Xen {version} holds {path.relative_to(root)}")
    return found


def _put(programs: list[Path], libraries: dict[str, Path], root: Path) -> None:
    """Programs to `bin`, libraries where the loader looks for them, the loader where programs ask for it."""
    (root / "bin").mkdir(parents=True)
    for path in programs:
        content = path.read_bytes()
        (root / "bin" / path.name).write_bytes(elf.loaded_part(content))
        loader = elf.interpreter(content)
        if loader is not None:
            place = root / loader.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(libraries[place.name], place)
    folder = root / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    for name, path in libraries.items():
        shutil.copyfile(path, folder / name)
