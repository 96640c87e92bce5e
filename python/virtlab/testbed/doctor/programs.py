"""Programs that other arms of an experiment use: alternative meters, container runtimes, libvirt."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from virtlab.testbed.build import routing
from virtlab.testbed.doctor.network import _search
from virtlab.testbed.finding import Finding
from virtlab.testbed.leader.environment import of_program

ROUTERS = "routing daemons"
METERS = "other meters"
RUNTIMES = "containers and libvirt"
_METERS = {
    "ping": ("-V", "iputils-ping"),
    "iperf3": ("--version", "iperf3"),
    "sockperf": ("--version", "sockperf"),
    "netperf": ("-V", "netperf (Debian: non-free)"),
    "fio": ("--version", "fio"),
}
_RUNTIMES = {
    "runc": ("--version", "runc"),
    "crun": ("--version", "crun"),
    "podman": ("--version", "podman"),
    "docker": ("--version", "docker.io"),
    "virsh": ("--version", "libvirt-clients"),
    "libvirtd": ("--version", "libvirt-daemon"),
}


def examine() -> Iterator[Finding]:
    """Each program: there or not, and its version."""
    for group, programs in ((METERS, _METERS), (RUNTIMES, _RUNTIMES)):
        for program, (flag, package) in programs.items():
            yield _program(group, program, flag, package)
    yield _routing()


def _routing() -> Finding:
    """FRRouting, which is no program of the search path."""
    why = routing.missing()
    if why is not None:
        return Finding("program.frr", ROUTERS, "no", why, "install frr, for 'routing: ospf'")
    path = routing.DAEMONS / "ospfd"
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=10, check=False, env=of_program()
    )
    version = (done.stdout or done.stderr).partition("\n")[0].strip()
    return Finding("program.frr", ROUTERS, "yes", version, values={"path": str(path), "version": version})


def _program(group: str, program: str, flag: str, package: str) -> Finding:
    path = shutil.which(program, path=_search())
    name = f"program.{program}"
    if path is None:
        return Finding(name, group, "no", "not installed", f"install {package}")
    try:
        done = subprocess.run(
            [path, flag],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            stdin=subprocess.DEVNULL,
            env=of_program(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, group, "no", f"{path} does not run: {error}", f"install {package} again")
    lines = [line.strip() for line in (done.stdout or done.stderr).splitlines() if line.strip()]
    version = next((line for line in lines if any(letter.isdigit() for letter in line)), "")
    values = {"path": path, "version": version}
    if program == "docker" and not Path("/var/run/docker.sock").exists():
        return Finding(name, group, "limited", f"{version}; no daemon runs", "start dockerd", values=values)
    return Finding(name, group, "yes", version, values=values)
