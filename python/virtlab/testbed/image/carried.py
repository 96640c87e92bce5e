"""Our agent for a system of somebody's own: a tar archive to unpack at the root of a disk image, with what starts it.

The system starts one shell script at boot, by systemd, OpenRC or an inittab, whichever it has. The script does
nothing in a machine without our serial port, so that the image stays good for everything else. Where the port is,
the script takes the vNICs from the network manager there, until the next boot, and leads the machine: when the
agent ends, so does the machine, as with a kernel that we boot ourselves, and no process waits for one that cannot
answer.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.image.elf import loaded_part
from virtlab.testbed.image.initramfs import PORT
from virtlab.testbed.leader.process import agent_path

AGENT = "usr/local/sbin/virtlab-agent"
STARTER = "usr/local/sbin/virtlab-guest"
UNIT = "etc/systemd/system/virtlab-guest.service"
ENABLED = "etc/systemd/system/multi-user.target.wants/virtlab-guest.service"
OPENRC = "etc/init.d/virtlab-guest"
INITTAB = f"::once:/{STARTER}"
SYSV = f"vl:2345:once:/{STARTER}"
PORT_WAIT_S = 30
_DRIVERS = ("virtio_net", "e1000", "e1000e")

_SCRIPT = f"""#!/bin/sh
# Leads this virtual machine for virtlab, where it has virtlab's serial port; does nothing elsewhere.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin
modprobe virtio_console 2>/dev/null
waited=0
found=
while [ -z "$found" ] && [ $waited -lt {PORT_WAIT_S} ]; do
    for port in /sys/class/virtio-ports/*; do
        [ "$(cat "$port/name" 2>/dev/null)" = {PORT} ] && [ -c "/dev/${{port##*/}}" ] && found=/dev/${{port##*/}}
    done
    [ -n "$found" ] && break
    sleep 1
    waited=$((waited + 1))
done
[ -n "$found" ] || exit 0

# Its vNICs are virtlab's until the next boot.
mkdir -p /run/systemd/network /run/NetworkManager/conf.d
printf '[Match]\\nDriver={" ".join(_DRIVERS)}\\n[Link]\\nUnmanaged=yes\\n' >/run/systemd/network/00-virtlab.network
printf '[keyfile]\\nunmanaged-devices={";".join(f"driver:{name}" for name in _DRIVERS)}\\n' \\
    >/run/NetworkManager/conf.d/virtlab.conf
networkctl reload 2>/dev/null
nmcli general reload 2>/dev/null
for device in /sys/class/net/*; do
    driver=$(readlink "$device/device/driver")
    case ${{driver##*/}} in
        {"|".join(_DRIVERS)})
            ip address flush dev "${{device##*/}}"
            ip link set dev "${{device##*/}}" down ;;
    esac
done

/{AGENT} inside --port "$found"
echo "virtlab: the agent ended ($?), and this machine with it" >/dev/console
echo o >/proc/sysrq-trigger
"""
_UNIT = f"""[Unit]
Description=virtlab's agent, on a serial port of this virtual machine
ConditionVirtualization=vm
After=network-pre.target

[Service]
ExecStart=/{STARTER}
StandardOutput=journal+console
StandardError=journal+console
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
"""
_OPENRC = f"""#!/sbin/openrc-run
description="virtlab's agent, on a serial port of this virtual machine"
command=/{STARTER}
command_background=yes
pidfile=/run/virtlab-guest.pid
"""


def archive() -> bytes:
    """The tar archive: agent, script, unit with the link that enables it, OpenRC's script. MachineError without an
    agent.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        _file(tar, AGENT, loaded_part(agent_path().read_bytes()), 0o755)
        _file(tar, STARTER, _SCRIPT.encode(), 0o755)
        _file(tar, UNIT, _UNIT.encode(), 0o644)
        link = tarfile.TarInfo(ENABLED)
        link.type, link.linkname = tarfile.SYMTYPE, f"/{UNIT}"
        tar.addfile(link)
        _file(tar, OPENRC, _OPENRC.encode(), 0o755)
    return content.getvalue()


def _file(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def write(place: Path) -> Path:
    """Writes the archive to a file, at once. MachineError when that cannot be."""
    new = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        new.write_bytes(archive())
        new.replace(place)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise MachineError(
            "--output", f"{place} cannot be written ({error.strerror})", "name another"
        ) from error
    return place


def instructions(place: Path) -> str:
    """Instructions for putting the archive into an image."""
    return f"""{place}: unpack it at the root of the image's system, for instance
  tar -x -C / -f {place.name}                      inside the running system, as root
  virt-tar-in -a IMAGE.qcow2 {place.name} /        from outside, with libguestfs
It is started at boot
  by systemd       as it is: the unit is enabled
  by OpenRC        after `rc-update add virtlab-guest default`
  by an inittab    with the line {INITTAB} (busybox) or {SYSV} (System V)
The kernel needs virtio_console; with console=ttyS0 on its command line its console is kept."""
