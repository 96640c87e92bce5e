"""Are the tools here that building and testing need?

What is needed and missing is installed when this machine is Debian or Ubuntu and we are root (or sudo asks nothing),
after it was said what; with NO_INSTALL=1, and elsewhere, it is named with the cure, and the exit code is 3. What is
only useful is named and no error, and left out with `--needed`. With `--platforms` also what virtual machines,
containers, switches, routers and real distributed stores are made with: several hundred MB that the demonstration does
without, 46 MB of which are the stores'. With `--benches` also peers of the benchmarks; with `--stores` those stores
alone; with `--release` also what makes and tries the container image; with `--arm64` what makes and tries a wheel for
aarch64.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

RUST = (1, 89)
PYTHON = (3, 11)


@dataclass(frozen=True)
class Tool:
    """Something a distribution package brings: how to see that it is here, and what for."""

    package: str
    program: str
    purpose: str
    needed: bool


TOOLS = (
    Tool("gcc", "cc", "links the Rust programs", needed=True),
    Tool("python3-venv", "", "makes Python environments", needed=True),
    Tool("iputils-ping", "ping", "is an alternative meter and a cross-check in the tests", needed=False),
    Tool("iperf3", "iperf3", "is an alternative meter and a cross-check in the tests", needed=False),
    Tool("sockperf", "sockperf", "is a peer of the benchmarks", needed=False),
    Tool("ethtool", "ethtool", "is a cross-check in the tests of the soft switch", needed=False),
    Tool("iproute2", "ip", "is a peer of the benchmarks and a cross-check in the tests", needed=False),
)
BENCHES = (
    Tool("netsniff-ng", "trafgen", "is a peer of the benchmarks", needed=False),
    Tool("util-linux", "taskset", "gives a peer of the benchmarks a processor of its own", needed=False),
    Tool("g++", "g++", "compiles what ns-3 plays in the benchmarks", needed=False),
    Tool("fio", "fio", "is a peer of operations on files in the benchmarks", needed=False),
)
PLATFORMS = (
    Tool("qemu-system-x86", "qemu-system-x86_64", "runs virtual machines", needed=False),
    Tool("busybox-static", "busybox", "is what virtual machines start with", needed=False),
    Tool("openvswitch-switch", "ovs-vswitchd", "is Open vSwitch", needed=False),
    Tool("runc", "runc", "runs containers", needed=False),
    Tool("crun", "crun", "runs containers, those of podman without root among them", needed=False),
    Tool("openssh-client", "ssh", "reaches hosts that exist already", needed=False),
    Tool("libvirt-daemon", "libvirtd", "holds domains of libvirt, in tests", needed=False),
    Tool("frr", "/usr/lib/frr/ospfd", "routes by OSPF", needed=False),
    Tool("openssh-server", "sshd", "stands for a host elsewhere in the tests", needed=False),
    Tool("syslinux", "syslinux", "puts a boot loader on a disk, in tests", needed=False),
    Tool("mtools", "mformat", "makes a disk to boot, in tests", needed=False),
    Tool("xorriso", "xorrisofs", "writes the ISO images that appliances are configured by", needed=False),
    Tool("podman", "podman", "runs containers by its user's configuration", needed=False),
    Tool("ovmf", "/usr/share/OVMF/OVMF_CODE_4M.fd", "starts disks by UEFI", needed=False),
    Tool(
        "syslinux-efi",
        "/usr/lib/SYSLINUX.EFI/efi64/syslinux.efi",
        "is a boot loader for UEFI, in tests",
        needed=False,
    ),
    Tool(
        "syslinux-common",
        "/usr/lib/syslinux/modules/efi64/ldlinux.e64",
        "is the core of that boot loader",
        needed=False,
    ),
    Tool("libvirt-clients", "virsh", "leads guests of libvirt", needed=False),
    Tool("zsh", "zsh", "completes commands in the tests", needed=False),
    Tool("fish", "fish", "completes commands in the tests", needed=False),
    Tool("libxml2-utils", "xmllint", "holds JUnit XML to a schema in the tests", needed=False),
    Tool("prometheus", "prometheus", "receives numbers in the tests", needed=False),
    Tool(
        "prometheus-node-exporter", "prometheus-node-exporter", "reads text files in the tests", needed=False
    ),
    Tool("redis-server", "redis-server", "is a server in the how-to of programs under test", needed=False),
    Tool("redis-tools", "redis-benchmark", "loads that server", needed=False),
    Tool("nginx-light", "nginx", "is a server in the how-to of programs under test", needed=False),
    Tool("wrk", "wrk", "loads that server", needed=False),
    Tool("postgresql", "pgbench", "is server and load in the how-to of programs under test", needed=False),
    Tool("influxdb", "influxd", "receives numbers in the tests", needed=False),
)
STORES = (
    Tool("swift-proxy", "swift-proxy-server", "serves clients of Swift", needed=False),
    Tool("swift-account", "swift-account-server", "keeps accounts of Swift", needed=False),
    Tool("swift-container", "swift-container-server", "keeps containers of Swift", needed=False),
    Tool("swift-object", "swift-object-server", "keeps objects of Swift", needed=False),
    Tool("memcached", "memcached", "is the cache of Swift's proxies", needed=False),
    Tool("rsync", "rsync", "copies databases of Swift", needed=False),
    Tool("glusterfs-server", "glusterd", "is a node of Gluster", needed=False),
    Tool("glusterfs-cli", "gluster", "makes volumes of Gluster", needed=False),
    Tool("glusterfs-client", "glusterfs", "mounts volumes of Gluster", needed=False),
)
RELEASE = (
    Tool("buildah", "buildah", "builds the container image", needed=False),
    Tool("mmdebstrap", "mmdebstrap", "makes the Debian on which the image is tried", needed=False),
    Tool("podman", "podman", "runs the image where it is tried", needed=False),
    Tool("runc", "runc", "starts the image's container", needed=False),
)
ARM64 = (
    Tool("gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc", "links the agent for aarch64", needed=True),
    Tool(
        "libc6-dev-arm64-cross",
        "/usr/aarch64-linux-gnu/lib/libc.a",
        "is what the agent for aarch64 is linked with",
        needed=True,
    ),
    Tool("qemu-user-static", "qemu-aarch64-static", "runs programs of aarch64", needed=True),
    Tool("qemu-system-arm", "qemu-system-aarch64", "is a whole machine of aarch64", needed=False),
    Tool("kmod", "depmod", "says which drivers need which, in that machine", needed=False),
)


def has(tool: Tool) -> bool:
    """Whether the tool is on this machine."""
    if tool.package == "python3-venv":
        return importlib.util.find_spec("ensurepip") is not None
    if tool.program.startswith("/"):
        return Path(tool.program).is_file()
    return any(shutil.which(tool.program, path=path) for path in (None, "/usr/sbin:/sbin"))


def privilege() -> list[str] | None:
    """The words before a command that needs root; None when there is no way to be root without asking."""
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    ):
        return ["sudo", "-n"]
    return None


def install(missing: list[Tool]) -> None:
    """Installs distribution packages where that is possible; says what it does."""
    before = privilege()
    if before is None or shutil.which("apt-get") is None:
        return
    packages = [tool.package for tool in missing]
    print(
        f"virtlab: installing {' '.join(packages)} ({' '.join([*before, 'apt-get install'])}; NO_INSTALL=1 refuses)",
        file=sys.stderr,
    )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
    ):
        done = subprocess.run(
            [*before, *command], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(
                f"virtlab: {' '.join(command[:2])} failed: {done.stderr.strip().splitlines()[-1:]}",
                file=sys.stderr,
            )
            return


def toolchains() -> list[str]:
    """What is wrong with Python and Rust, which are never installed unasked."""
    found = []
    if sys.version_info < PYTHON:
        found.append(
            f"Python {sys.version.split()[0]} is too old; install 3.11 or newer, then 'make PYTHON=python3.11 ...'"
        )
    if shutil.which("cargo") is None:
        found.append(
            "no Rust toolchain; install 1.89 or newer with rustup (https://rustup.rs), then open a new shell"
        )
        return found
    text = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    match = re.search(r"(\d+)\.(\d+)", text)
    if not match or (int(match[1]), int(match[2])) < RUST:
        found.append(f"{text or 'cargo'} is too old; 'rustup update stable' brings 1.89 or newer")
    return found


def main() -> int:
    """Prints a line per problem; 0 when building can begin."""
    wanted = TOOLS
    wanted += PLATFORMS if "--platforms" in sys.argv[1:] else ()
    wanted += BENCHES if "--benches" in sys.argv[1:] else ()
    wanted += STORES if {"--stores", "--platforms"} & set(sys.argv[1:]) else ()
    wanted += RELEASE if "--release" in sys.argv[1:] else ()
    wanted += ARM64 if "--arm64" in sys.argv[1:] else ()
    if "--needed" in sys.argv[1:]:
        wanted = tuple(tool for tool in wanted if tool.needed)
    if "--install" in sys.argv[1:] and os.environ.get("NO_INSTALL", "") in {"", "0"}:
        missing = [tool for tool in wanted if not has(tool)]
        if missing:
            install(missing)
    lacking = [tool for tool in wanted if not has(tool)]
    for tool in lacking:
        word = "missing" if tool.needed else "not here (optional)"
        print(
            f"virtlab: {tool.package} is {word}: it {tool.purpose}; cure: apt-get install {tool.package}",
            file=sys.stderr,
        )
    problems = toolchains()
    for line in problems:
        print(f"virtlab: {line}", file=sys.stderr)
    return 3 if problems or any(tool.needed for tool in lacking) else 0


if __name__ == "__main__":
    sys.exit(main())
