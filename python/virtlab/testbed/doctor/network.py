"""What guests and switches are joined with: packet rings, tun devices, kernel timestamps, Open vSwitch."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtlab.testbed.finding import Finding
from virtlab.testbed.leader import trial

GROUP = "network"
_SOL_PACKET = 263
_PACKET_RX_RING, _PACKET_VERSION, _PACKET_IGNORE_OUTGOING, _PACKET_QDISC_BYPASS = 5, 10, 23, 20
_TPACKET_V2 = 1
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_SIOCSIFFLAGS = 0x8914
_SO_TIMESTAMPING = 37
_TX_SOFTWARE, _RX_SOFTWARE, _SOFTWARE = 1 << 1, 1 << 3, 1 << 4
_NETLINK_GENERIC, _GENL_ID_CTRL, _CTRL_GETFAMILY, _CTRL_FAMILY_NAME = 16, 16, 3, 2
_NLM_F_REQUEST, _NLMSG_ERROR = 1, 2


def examine() -> Iterator[Finding]:
    """Findings about interfaces and sockets, each tried in a private network namespace."""
    yield _packet_ring()
    yield _timestamps()
    yield _tun()
    yield _vswitch()


def _packet_ring() -> Finding:
    name, needed = "network.packet_ring", True

    def work() -> None:
        trial.private_network()
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as end:
            end.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
            end.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            end.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
            end.setsockopt(_SOL_PACKET, _PACKET_RX_RING, struct.pack("=IIII", 1 << 16, 16, 2048, 512))

    tried = trial.in_child(work)
    if tried.ok:
        return Finding(
            name, GROUP, "yes", "memory-mapped packet sockets, as the soft switch uses them", needed=needed
        )
    cure = "use Linux 4.20 or newer with CONFIG_PACKET"
    return Finding(name, GROUP, "no", f"no memory-mapped packet sockets: {tried.error}", cure, needed=needed)


def _timestamps() -> Finding:
    """Kernel stamps of sending and receiving, on a datagram over the loopback interface."""

    def work() -> dict[str, bool]:
        trial.private_network()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            fcntl.ioctl(end, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", 0x1 | 0x40))
            end.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _TX_SOFTWARE | _RX_SOFTWARE | _SOFTWARE)
            end.bind(("127.0.0.1", 0))
            end.settimeout(1)
            sent = received = False
            # The first stamps after they are turned on can be missing.
            for _ in range(20):
                end.sendto(b"stamp", end.getsockname())
                received = received or any(kind == _SO_TIMESTAMPING for _, kind, _ in end.recvmsg(64, 512)[1])
                try:
                    extra = end.recvmsg(256, 512, socket.MSG_ERRQUEUE)[1]
                    sent = sent or any(kind == _SO_TIMESTAMPING for _, kind, _ in extra)
                except BlockingIOError:
                    time.sleep(0.001)
                if sent and received:
                    break
        return {"sent": sent, "received": received}

    tried = trial.in_child(work)
    name = "network.timestamps"
    if not tried.ok:
        return Finding(
            name, GROUP, "no", f"no kernel stamps: {tried.error}", "use a kernel with SO_TIMESTAMPING"
        )
    missing = [which for which, there in tried.value.items() if not there]
    if missing:
        says = f"no kernel stamps of {' and '.join(missing)} datagrams; path delay is then application delay"
        return Finding(name, GROUP, "limited", says, "use a kernel with CONFIG_NETWORK_PHY_TIMESTAMPING")
    return Finding(name, GROUP, "yes", "kernel stamps of sent and received datagrams")


def _tun() -> Finding:
    def work() -> None:
        trial.private_network()
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"trial", _IFF_TAP | _IFF_NO_PI))

    tried = trial.in_child(work)
    if tried.ok:
        return Finding("network.tun", GROUP, "yes", "tap devices, for virtual machines and Open vSwitch")
    mode = f" (mode {Path('/dev/net/tun').stat().st_mode & 0o777:o})" if Path("/dev/net/tun").exists() else ""
    cure = "as root 'chmod 666 /dev/net/tun'" if mode else "load the kernel module tun"
    return Finding("network.tun", GROUP, "no", f"no tap devices: {tried.error}{mode}", cure)


def generic_family(name: str) -> None:
    """Asks the kernel for a generic netlink family, which loads its module where that is allowed. OSError if none."""
    attribute = struct.pack("=HH", 4 + len(name) + 1, _CTRL_FAMILY_NAME) + name.encode() + b"\0"
    attribute += bytes(-len(attribute) % 4)
    body = struct.pack("=BBH", _CTRL_GETFAMILY, 1, 0) + attribute
    header = struct.pack("=IHHII", 16 + len(body), _GENL_ID_CTRL, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as end:
        end.settimeout(2)
        end.send(header + body)
        reply = end.recv(1 << 16)
    if struct.unpack_from("=H", reply, 4)[0] == _NLMSG_ERROR:
        number = -struct.unpack_from("=i", reply, 16)[0]
        if number:
            raise OSError(number, os.strerror(number))


def _vswitch() -> Finding:
    tools = {
        tool: shutil.which(tool, path=_search()) for tool in ("ovsdb-server", "ovs-vswitchd", "ovs-vsctl")
    }
    lacking = [tool for tool, path in tools.items() if path is None]
    module = trial.in_child(lambda: generic_family("ovs_datapath"))
    values: dict[str, Any] = {"tools": tools, "kernel_datapath": module.ok}
    name = "network.open_vswitch"
    if lacking:
        says = f"not installed: {', '.join(lacking)}"
        return Finding(name, GROUP, "no", says, "install openvswitch-switch", values=values)
    if not module.ok:
        says = "user-space datapath only; the kernel has no openvswitch module"
        cure = f"install the module openvswitch for {platform.release()}, or accept the user-space datapath"
        return Finding(name, GROUP, "limited", says, cure, values=values)
    return Finding(name, GROUP, "yes", "kernel and user-space datapath", values=values)


def _search() -> str:
    """Where programs lie, the folders of administrators included."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
