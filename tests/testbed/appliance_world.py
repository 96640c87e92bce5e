"""An appliance for tests: a router like OpenWrt, busybox behind a login on the serial console, without anything of ours.

Its kernel is the guests' own from the cache, its initial file system is made here. It knows nothing of the Plan but what is
typed on its console.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import testbed_world as worlds

from virtlab.testbed.image import kernels, modules
from virtlab.testbed.image.archive import Archive
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.platforms.appliance.refusals import appliances_missing

DRIVERS = ("virtio_pci", "virtio_net", "e1000")
INIT = """#!/bin/sh
export PATH=/bin HOME=/ TERM=linux
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
for name in virtio_pci virtio_net; do modprobe $name; done
exec 0</dev/ttyS0 1>/dev/ttyS0 2>&1
while :; do setsid -c /bin/login-here </dev/ttyS0 >/dev/ttyS0 2>&1; done
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
MORE
'''
"""


def missing() -> str | None:
    """Why no appliance can be booted here, or None."""
    if (why := worlds.missing() or appliances_missing()) is not None:
        return why
    return None if kernels.find("cloud") is not None else "there is no kernel: run `virtlab image build`"


def install(configuration: Path, *, password: str = "secret", more: str = "true", extra: str = "") -> Path:
    """The recipe `router` with its images, in a folder that $XDG_CONFIG_HOME shall be."""
    place = configuration / "virtlab" / "appliances" / "router"
    place.mkdir(parents=True)
    kernel = kernels.find("cloud")
    assert kernel is not None
    shutil.copy(kernel.image, place / "vmlinuz")
    (place / "initramfs.cpio").write_bytes(_initramfs(kernel))
    (place / "appliance.toml").write_text(extra + RECIPE.replace("PASSWORD", password).replace("MORE", more))
    return place


def _initramfs(kernel: kernels.Kernel) -> bytes:
    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "run", "tmp", "sbin", "etc"):
        archive.folder(name)
    busybox = find_busybox()
    archive.file("init", INIT.encode(), executable=True)
    archive.file("bin/login-here", LOGIN.encode(), executable=True)
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    listed = subprocess.run(
        [str(busybox), "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    for name in listed:
        if name not in {"busybox", "init", "linuxrc"}:
            archive.link(f"bin/{name}", "busybox")
    archive.link("sbin/modprobe", "/bin/busybox")
    held = modules.closure(DRIVERS, kernel.module)
    for name, content in held.items():
        archive.file(f"lib/modules/{kernel.version}/{name}.ko", content)
    dependencies, names = modules.tables(held)
    archive.file(f"lib/modules/{kernel.version}/modules.dep", dependencies.encode())
    archive.file(f"lib/modules/{kernel.version}/modules.alias", names.encode())
    return bytes(archive)
