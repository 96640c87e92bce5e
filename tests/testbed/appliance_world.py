"""Appliances for tests: a router like OpenWrt, busybox behind a login on the serial console, without anything of ours.

Its kernel is the guests' own from the cache, its initial file system is made here. It knows nothing of the Plan but
what is typed on its console, or lies on the disc in its drive. Another one boots a disk with a system of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import testbed_world as worlds

from virtlab.testbed.image import kernels, modules
from virtlab.testbed.image.archive import Archive
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.platforms.appliance.iso import program_here
from virtlab.testbed.platforms.appliance.platform import appliances_missing

DRIVERS = ("virtio_pci", "virtio_net", "e1000")
DRIVERS_OF_A_DRIVE = ("ata_piix", "sr_mod", "isofs")
INIT = """#!/bin/sh
export PATH=/bin HOME=/ TERM=linux
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
for name in virtio_pci virtio_net; do modprobe $name; done
exec 0</dev/ttyS0 1>/dev/ttyS0 2>&1
while :; do setsid -c /bin/login-here </dev/ttyS0 >/dev/ttyS0 2>&1; done
"""
ENDS = """#!/bin/sh
export PATH=/bin
mount -t devtmpfs none /dev
echo 'no configuration, no router' >/dev/ttyS0
poweroff -f
"""
LOGIN = """#!/bin/sh
export PATH=/bin
printf '\\nPlease press Enter to activate this console.\\n'
read -r nothing
printf 'router login: '
read -r user
stty -echo
printf 'Password: '
read -r word
stty echo
echo
[ "$user:$word" = root:secret ] || { echo 'Login incorrect'; exit 1; }
PS1='root@router:~# ' exec sh -i
"""
CONFIGURE = """
{% for vnic in vnics %}
ip link set {{ vnic.interface }} up
{% for address in vnic.addresses %}
ip address add {{ address.text }} dev {{ vnic.interface }}
{% endfor %}
{% endfor %}
{% for route in routes %}
ip route add {{ route.to }} via {{ route.via }}
{% endfor %}
echo 1 > /proc/sys/net/ipv4/ip_forward
"""
DISC = f"""
for name in {" ".join(DRIVERS_OF_A_DRIVE)}; do modprobe $name; done
mount -r -t iso9660 $(findfs LABEL=LAB) /mnt
sh -e /mnt/lab/setup.sh
cat /mnt/said
"""
ON_THE_DISC = f"""
[iso]
"lab/setup.sh" = '''{CONFIGURE}'''
said = "{{{{ name }}}} has {{{{ vnics | length }}}} ports\\n"
"""
RECIPE = r"""
kernel = "vmlinuz"
initramfs = "initramfs.cpio"
append = "console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=unstable"
memory = "128 MiB"
prompt = 'root@router:~# $'
fail = '(not found|Login incorrect|invalid|File exists|can.t find device).*'

[[step]]
expect = "press Enter"
timeout = "240 s"

[[step]]
expect = "login: $"
send = "root"

[[step]]
expect = "Password: $"
send = "PASSWORD"

[[step]]
expect = 'root@router:~# $'
send = '''
CONFIGURE
MORE
'''
"""

DISK_RECIPE = f"""
memory = "128 MiB"
interface = "own{{number}}"
prompt = '/ # $'
fail = '(sh: .* not found|invalid|File exists|can.t find device).*'

[[step]]
expect = "press Enter"
timeout = "240 s"

[[step]]
expect = '/ # $'
send = '''
ip link set eth1 name own1
ip address flush dev own0
{CONFIGURE.strip()}
'''
"""


def missing() -> str | None:
    """Why no appliance can be booted here, or None."""
    if (why := worlds.missing() or appliances_missing()) is not None:
        return why
    return None if kernels.find("cloud") is not None else "there is no kernel: run `virtlab image build`"


def install(
    configuration: Path,
    *,
    password: str = "secret",
    more: str = "true",
    extra: str = "",
    configure: str = CONFIGURE,
    name: str = "router",
    init: str = INIT,
) -> Path:
    """A recipe with its images, in a folder that $XDG_CONFIG_HOME shall be."""
    place = _folder(configuration, name)
    kernel = kernels.find("cloud")
    assert kernel is not None
    shutil.copy(kernel.image, place / "vmlinuz")
    (place / "initramfs.cpio").write_bytes(_initramfs(kernel, init))
    told = RECIPE.replace("PASSWORD", password).replace("CONFIGURE", configure.strip()).replace("MORE", more)
    (place / "appliance.toml").write_text(extra + told)
    return place


def drive_missing() -> str | None:
    """Why no appliance can read a disc here, or None."""
    if (why := missing()) is not None:
        return why
    if program_here() is None:
        return "nothing here writes ISO images (xorriso)"
    kernel = kernels.find("cloud")
    assert kernel is not None
    lacking = [name for name in DRIVERS_OF_A_DRIVE if kernel.module(name) is None]
    return f"the kernel was kept without {', '.join(lacking)}: run `virtlab image build`" if lacking else None


def install_with_a_disc(configuration: Path) -> Path:
    """The router `router`, which is told on its console only to do what stands on its disc."""
    place = install(configuration, configure=DISC, extra="label = 'LAB'\n")
    with (place / "appliance.toml").open("a") as recipe:
        recipe.write(ON_THE_DISC)
    return place


def install_disk(configuration: Path, disk: Path, kind: str) -> Path:
    """The router `router`, a disk with a system of its own."""
    place = _folder(configuration, "router")
    (place / "own.img").symlink_to(disk)
    (place / "appliance.toml").write_text(f"disk = 'own.img'\nformat = '{kind}'\n{DISK_RECIPE}")
    return place


def _folder(configuration: Path, name: str) -> Path:
    place = configuration / "virtlab" / "appliances" / name
    place.mkdir(parents=True)
    return place


def _initramfs(kernel: kernels.Kernel, init: str) -> bytes:
    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "run", "tmp", "sbin", "etc", "mnt"):
        archive.folder(name)
    busybox = find_busybox()
    archive.file("init", init.encode(), executable=True)
    archive.file("bin/login-here", LOGIN.encode(), executable=True)
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    listed = subprocess.run(
        [str(busybox), "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    for name in listed:
        if name not in {"busybox", "init", "linuxrc"}:
            archive.link(f"bin/{name}", "busybox")
    archive.link("sbin/modprobe", "/bin/busybox")
    # What this kernel was kept without is for those to miss who need it.
    held = modules.closure((*DRIVERS, *DRIVERS_OF_A_DRIVE), kernel.module)
    for name, content in held.items():
        archive.file(f"lib/modules/{kernel.version}/{name}.ko", content)
    dependencies, names = modules.tables(held)
    archive.file(f"lib/modules/{kernel.version}/modules.dep", dependencies.encode())
    archive.file(f"lib/modules/{kernel.version}/modules.alias", names.encode())
    return bytes(archive)
