"""An ordinary user's libvirt daemon for one test: it looks after nothing of this machine, and ends with the test.

Behind it are libvirt's own test driver, whose domain `test` runs, or QEMU with a domain `probe` that is shut off.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Plan
from virtlab.testbed.image import find
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.libvirt.domains import Domain, virsh

DAEMON = shutil.which("libvirtd") or "/usr/sbin/libvirtd"
NOBODY = 65_534
START_TIMEOUT_S = 30
END_TIMEOUT_S = 20
SWEEP_TIMEOUT_S = 60
SESSION = "qemu:///session"
QEMU = shutil.which("qemu-system-x86_64")
KERNEL = find("cloud")
# A machine is its daemon's orphan. Were it left to a process that does not await it, its end would never be seen.
REAPER = """
import ctypes, os, signal, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
daemon = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
signal.signal(signal.SIGTERM, lambda *_: os.kill(daemon, signal.SIGTERM))
while os.wait()[0] != daemon:
    pass
"""
DOMAIN = """
<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type><kernel>{kernel}</kernel><cmdline>panic=0</cmdline></os>
<devices><emulator>{qemu}</emulator></devices></domain>
"""


def missing() -> str | None:
    """Which program is missing, or None."""
    for program, package in ((DAEMON, "libvirt-daemon"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            return f"{program} is missing ({package})"
    return None


def as_a_user(home: Path) -> list[str]:
    """Words before a command that run it as an ordinary user at home in this folder; all in it is the user's then."""
    places = {
        "HOME": home,
        "XDG_RUNTIME_DIR": home,
        "XDG_CONFIG_HOME": home / "c",
        "XDG_CACHE_HOME": home / "k",
    }
    words = ["env", *(f"{name}={place}" for name, place in places.items())]
    if os.geteuid() != 0:
        return words
    for path in (home, *home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words]


@contextmanager
def daemon(user: Sequence[str], socket: Path, errors: Path, *options: str) -> Iterator[None]:
    """A daemon that answers at `socket` while the block runs; skips the test where it does not run."""
    with errors.open("wb") as said:
        argv = [sys.executable, "-c", REAPER, *user, DAEMON, *options, "--timeout", "120"]
        process = subprocess.Popen(argv, stdout=said, stderr=said)
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.skip("libvirtd does not run here as an ordinary user")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def session_missing() -> str | None:
    """Why no domain of `qemu:///session` can be had here, or None."""
    if (why := domains.missing() or missing()) is not None:
        return why
    if QEMU is None:
        return "qemu-system-x86_64 is missing"
    return "there is no cloud kernel: virtlab image build" if KERNEL is None else None


@contextmanager
def test_driver(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A connection whose domains live as long as somebody holds it, so one is kept open: those of `test:///default`."""
    if (why := missing()) is not None:
        pytest.skip(why)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    with tempfile.TemporaryDirectory(prefix="virtlab-") as folder:
        home, errors = Path(folder), place / "errors"
        (home / "s").mkdir()
        config = home / "libvirtd.conf"
        config.write_text(f'unix_sock_dir = "{home}/s"\nauth_unix_rw = "none"\n')
        options = ("--config", str(config), "--pid-file", str(home / "pid"))
        socket = home / "s" / "libvirt-sock"
        with daemon(as_a_user(home), socket, errors, *options):
            made = f"test+unix:///default?socket={socket}"
            argv = [domains.PROGRAM, "--connect", made]
            with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
                assert held.stdin is not None
                assert held.stdout is not None
                held.stdin.write(b"list\n")
                held.stdin.flush()
                while b"running" not in (line := held.stdout.readline()):
                    assert line, errors.read_text()
                yield made
                held.kill()


test_driver.__test__ = False  # type: ignore[attr-defined]  # a world, no test


@contextmanager
def session(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a user who has the domain `probe`, shut off, behind a daemon that ends with the block."""
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    with tempfile.TemporaryDirectory(prefix="virtlab-") as folder:
        home = Path(folder)
        assert KERNEL is not None
        (home / "vmlinuz").write_bytes(KERNEL.image.read_bytes())
        user = as_a_user(home)
        wrap(place, monkeypatch, f'exec {shlex.join([*user, str(shutil.which(domains.PROGRAM))])} "$@"')
        with daemon(user, home / "libvirt" / "libvirt-sock", place / "errors"):
            define(home, "probe", home / "vmlinuz")
            try:
                yield home
            finally:  # a machine would outlive its daemon
                with contextlib.suppress(GuestError):
                    virsh("", SESSION, "destroy", "--domain", "probe")
            virsh("", SESSION, "undefine", "--domain", "probe")


def define(home: Path, name: str, kernel: Path) -> None:
    """Gives the user of a session one more domain."""
    description = home / f"{name}.xml"
    description.write_text(DOMAIN.format(name=name, kernel=kernel, qemu=QEMU))
    virsh("", SESSION, "define", str(description))


def wrap(place: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a script in the way to `virsh`, for this process and those that it starts."""
    wrapper = place / "wrapped" / domains.PROGRAM
    wrapper.parent.mkdir()
    wrapper.write_text(f"#!/bin/sh\n{script}\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")


def machines(name: str = "probe") -> int:
    """Processes of QEMU that a daemon calls so."""
    found = 0
    for entry in Path("/proc").iterdir():
        try:
            found += entry.name.isdigit() and f"guest={name},".encode() in (entry / "cmdline").read_bytes()
        except OSError:
            continue
    return found


def daemons() -> set[int]:
    """Processes of the daemons and of the machines that they keep: nobody's who asked for them."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            program = entry.name.isdigit() and (entry / "exe").readlink().name
            if program and program.startswith(("libvirtd", "virtlogd", "qemu-system")):
                found.add(int(entry.name))
    return found


def sweep(uri: str) -> None:
    """What whoever uses a connection next does first, until nothing is noted any more: a start may be under way."""
    deadline = time.monotonic() + SWEEP_TIMEOUT_S
    while left := list(far_ledger.folder().glob("*")):
        assert time.monotonic() < deadline, [path.read_text() for path in left]
        far_ledger.sweep(domains.KIND, uri, Domain("guests.b", uri, "")._stop_left)
        time.sleep(0.05)


def named(place: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> str:
    """A name of the connection in settings of the user's own."""
    settings = place / "config" / "virtlab" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[hypervisors]\nours = "{uri}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    return "ours"


def plan_over_ssh(uri: str, *, count: int) -> Plan:
    """Echoes from the domain `test` to a host that exists; both are reached by ssh."""
    vnic = {"network": "own", "mac": "", "offloads": "default"}
    guests = {
        "a": {"platform": "libvirt", "host": "h1", "vnics": {"eth0": vnic}},
        "b": {"platform": "ssh", "host": "h2", "vnics": {"eth0": vnic}},
    }
    hosts = {
        "h1": {"at": "ssh", "address": "host-a", "domain": "test", "hypervisor": uri},
        "h2": {"at": "ssh", "address": "host-b"},
    }
    return worlds.echo_plan({"hosts": hosts, "guests": guests}, source="a", target="b", count=count)
