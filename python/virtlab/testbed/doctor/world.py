"""The private world: namespaces one by one, the agent, and the world itself, as root and as an ordinary user."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from virtlab import __version__
from virtlab.errors import MachineError
from virtlab.testbed.build.machine import findings
from virtlab.testbed.finding import Finding, State
from virtlab.testbed.leader import trial
from virtlab.testbed.leader.environment import of_program
from virtlab.testbed.leader.process import agent_path

GROUP = "private world"
_KINDS = {
    "network": trial.CLONE_NEWNET,
    "mount": trial.CLONE_NEWNS,
    "pid": trial.CLONE_NEWPID,
    "cgroup": trial.CLONE_NEWCGROUP,
}
_ELF_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_PROC_SYS = Path("/proc/sys")


def examine() -> Iterator[Finding]:
    """Findings, what the default testbed needs marked so."""
    yield _agent()
    yield from _namespaces()
    yield from _limits()
    yield _world()


def _agent() -> Finding:
    name = "agent"
    try:
        path = agent_path()
    except MachineError as error:
        return Finding(name, GROUP, "no", error.what, error.cure, needed=True)
    with path.open("rb") as file:
        head = file.read(20)
    built_for = "no ELF binary"
    if head[:4] == b"\x7fELF":
        number = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])[0]
        built_for = _ELF_MACHINES.get(number, f"machine {number}")
    values = {"path": str(path), "built_for": built_for, "machine": platform.machine()}
    if built_for != platform.machine():
        says = f"{path} is built for {built_for}, this is {platform.machine()}"
        cure = "build it here with 'make agent', or install the wheel of this architecture"
        return Finding(name, GROUP, "no", says, cure, needed=True, values=values)
    try:
        done = subprocess.run(
            [str(path), "--version"], capture_output=True, text=True, timeout=10, check=True, env=of_program()
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(
            name,
            GROUP,
            "no",
            f"{path} does not run: {error}",
            "build it with 'make agent'",
            needed=True,
            values=values,
        )
    version = done.stdout.split()[-1] if done.stdout.split() else ""
    values["version"] = version
    if version != __version__:
        says = f"the agent is of version {version}, virtlab of {__version__}"
        return Finding(
            name, GROUP, "no", says, "build it again with 'make agent'", needed=True, values=values
        )
    return Finding(name, GROUP, "yes", f"{built_for}, version {version}", needed=True, values=values)


def _namespaces() -> Iterator[Finding]:
    """Each kind by trying it, and all as an ordinary user: what rootless testbeds stand on."""
    root = os.geteuid() == 0
    user = trial.in_child(partial(trial.unshare, trial.CLONE_NEWUSER), as_nobody=root)
    who = "an ordinary user" if root else "this user"
    if user.ok:
        yield Finding("namespaces.user", GROUP, "yes", f"{who} can make them", needed=not root)
    else:
        says = f"{who} cannot make them: {user.error}"
        yield Finding("namespaces.user", GROUP, "no", says, user_namespace_cure(_PROC_SYS), needed=not root)
    for kind, flag in _KINDS.items():
        needed = kind in ("network", "mount", "pid")
        ways = [
            ("this user", trial.in_child(partial(trial.unshare, flag | (0 if root else trial.CLONE_NEWUSER))))
        ]
        if root:
            ways = [("root", ways[0][1])]
            inside = partial(trial.unshare, flag | trial.CLONE_NEWUSER)
            ways.append(("an ordinary user", trial.in_child(inside, as_nobody=True)))
        can = [name for name, tried in ways if tried.ok]
        cannot = "; ".join(f"{name}: {tried.error}" for name, tried in ways if not tried.ok)
        state: State = "yes" if not cannot else "limited" if ways[0][1].ok else "no"
        says = "; ".join(filter(None, [f"{' and '.join(can)} can make them" if can else "", cannot]))
        cure = "" if state == "yes" else user_namespace_cure(_PROC_SYS)
        if state == "no" and root:
            cure = f"use a kernel with CONFIG_{_option(kind)}, or allow it in the container that this is"
        yield Finding(f"namespaces.{kind}", GROUP, state, says, cure, needed=needed)


def _option(kind: str) -> str:
    return {"network": "NET_NS", "mount": "NAMESPACES", "pid": "PID_NS", "cgroup": "CGROUPS"}[kind]


def user_namespace_cure(proc_sys: Path) -> str:
    """What keeps ordinary users from user namespaces on the systems that restrict them, and the way out."""
    if _read(proc_sys / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor restricts unprivileged user namespaces: run as root, or as root "
            "'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0', or give the agent a profile with 'userns'"
        )
    if _read(proc_sys / "kernel/unprivileged_userns_clone") == "0":
        return "as root 'sysctl -w kernel.unprivileged_userns_clone=1', or run as root"
    if _read(proc_sys / "user/max_user_namespaces") == "0":
        return "as root 'sysctl -w user.max_user_namespaces=10000', or run as root"
    return "run as root, or allow unshare in the container or seccomp profile that this runs in"


def _limits() -> Iterator[Finding]:
    for name, path, enough in (
        ("limits.network_namespaces", "user/max_net_namespaces", 1000),
        ("limits.neighbours", "net/ipv4/neigh/default/gc_thresh3", 1024),
    ):
        text = _read(_PROC_SYS / path)
        if not text:
            yield Finding(name, GROUP, "untried", f"/proc/sys/{path} cannot be read here")
            continue
        state: State = "yes" if int(text) >= enough else "limited"
        cure = f"as root 'sysctl -w {path.replace('/', '.')}={enough}'" if state == "limited" else ""
        yield Finding(name, GROUP, state, f"at most {text}", cure, values={"most": int(text)})


def _world() -> Finding:
    found = findings()
    if found.world is not None:
        what, cure = found.world
        return Finding("world", GROUP, "no", what, cure or user_namespace_cure(_PROC_SYS), needed=True)
    says = "a private world starts and ends" + (", with what root adds" if found.root else ", without root")
    return Finding(
        "world", GROUP, "yes", says, needed=True, values={"root": found.root, "ipv6": found.has_ipv6}
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
