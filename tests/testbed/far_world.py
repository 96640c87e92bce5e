"""Existing hosts for tests: an sshd each, as a plain process in network and mount namespaces of its own.

They hang on a bridge in a third namespace, where the ssh client runs too: nothing of it touches the machine's own
network, keys or configuration. Everything ends with the processes that hold the namespaces.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
NAMES = ("a", "b")
NETWORK = "10.77.0."
USER = "plain"  # an ordinary user of every host, whom the same key lets in
_USER_ID = 2077
ENDED_S = 40.0


def missing() -> str | None:
    """Why no existing host can be played here, or None."""
    if os.geteuid() != 0:
        return "only root can run sshd for itself in namespaces"
    for program in (SSHD, "ssh", "ssh-keygen", "nsenter", "unshare", "ip", "bridge"):
        if shutil.which(program) is None:
            return f"{program} is missing (openssh-server, openssh-client, util-linux, iproute2)"
    return None


@dataclass
class FarHosts:
    """Two hosts, `host-a` and `host-b`, and how to reach them. `command` is what $VIRTLAB_SSH has to be."""

    folder: Path
    command: str = ""
    holders: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, name: str, *argv: str) -> str:
        """Runs a command in a host (or in `middle`, the network between), as if one sat there."""
        done = subprocess.run([*self.enter(name), *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout

    def enter(self, name: str) -> list[str]:
        """The words in front of a command that runs in a host."""
        return ["nsenter", f"--target={self.holders[name].pid}", "--net", "--mount"]

    def agents(self, name: str) -> list[Path]:
        """Copies of the agent that lie there."""
        listed = self.run(
            name, "sh", "-c", "ls -d /tmp/virtlab-agent-* /var/tmp/virtlab-agent-* 2>/dev/null || true"
        )
        return [Path(line) for line in listed.split()]

    def processes(self, name: str) -> list[int]:
        """Processes whose network is a host's, without the one that holds it and the sshd that listens."""
        network = Path(f"/proc/{self.holders[name].pid}/ns/net").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "ns/net").readlink() == network:
                    found.append(int(entry.name))
        own = {self.holders[name].pid, *(each.pid for key, each in self.daemons.items() if key == name)}
        return [pid for pid in found if pid not in own]

    def ended(self) -> bool:
        """Whether nothing runs in the hosts any more; what served a connection there ends a little after it."""
        deadline = time.monotonic() + ENDED_S
        while (
            left := [pid for name in NAMES for pid in self.processes(name)]
        ) and time.monotonic() < deadline:
            time.sleep(0.05)
        return not left

    def cut(self, name: str) -> None:
        """The host is gone from one moment to the next: every process of it is killed."""
        self.daemons[name].kill()
        self.daemons[name].wait()
        for pid in self.processes(name):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def silence(self, name: str) -> None:
        """From now on no frame of the host crosses the network between, either way; its link stays up and nobody is
        told.
        """
        self._pass_on(name, "0")

    def restore(self, name: str) -> None:
        """Frames cross the network between again."""
        self._pass_on(name, "3")

    def _pass_on(self, name: str, state: str) -> None:
        port = f"port{NAMES.index(name) + 1}"
        self.run("middle", "bridge", "link", "set", "dev", port, "state", state)

    def close(self) -> None:
        """Ends everything."""
        for name in list(self.daemons):
            self.cut(name)
        for holder in self.holders.values():
            holder.kill()
            holder.wait()


@contextlib.contextmanager
def far_hosts(folder: Path) -> Iterator[FarHosts]:
    """Both hosts, while the context lasts."""
    made = FarHosts(folder)
    try:
        _networks(made)
        _keys(made)
        for number, name in enumerate(NAMES, start=1):
            _user(made, name)
            _daemon(made, name, f"{NETWORK}{number}")
        yield made
    finally:
        made.close()


# Folders for programs of its own, where the keys ($0) are seen as before.
_HOLDER = (
    "mount -t tmpfs none /run && mkdir /run/sshd /run/keys && mount --bind '$0' /run/keys"
    " && mount -t tmpfs none /var/tmp && mount -t tmpfs none /tmp && mkdir -p '$0'"
    " && mount --bind /run/keys '$0' && echo up && exec sleep 3600"
).replace("'", '"')


def _networks(made: FarHosts) -> None:
    for name in ("middle", *NAMES):
        argv = ["unshare", "--net", "--mount", "sh", "-c", _HOLDER, str(made.folder)]
        made.holders[name] = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert made.holders[name].stdout.readline() == b"up\n"  # type: ignore[union-attr]
    middle = made.holders["middle"].pid
    for name in ("middle", *NAMES):
        # Without addresses that the kernel makes and tests for itself, a host looks the same at any moment.
        for scope in ("all", "default"):
            made.run(name, "sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
    made.run("middle", "ip", "link", "set", "lo", "up")
    made.run("middle", "ip", "link", "add", "bridge", "type", "bridge")
    made.run("middle", "ip", "address", "add", f"{NETWORK}254/24", "dev", "bridge")
    made.run("middle", "ip", "link", "set", "bridge", "up")
    for number, name in enumerate(NAMES, start=1):
        # An index and a name of its own on each side: nothing of the Plan's.
        made.run(
            name,
            "ip",
            "link",
            "add",
            f"lan{number}",
            "type",
            "veth",
            "peer",
            "name",
            f"port{number}",
            "netns",
            str(middle),
        )
        made.run(name, "ip", "link", "add", "spare", "type", "bridge")
        made.run(name, "ip", "address", "add", f"{NETWORK}{number}/24", "dev", f"lan{number}")
        for link in ("lo", f"lan{number}"):
            made.run(name, "ip", "link", "set", link, "up")
        made.run("middle", "ip", "link", "set", f"port{number}", "master", "bridge", "up")


def _user(made: FarHosts, name: str) -> None:
    """The host's own lists of users, with one more."""
    lines = {
        "passwd": f"{USER}:x:{_USER_ID}:{_USER_ID}::/run:/bin/sh",
        "shadow": f"{USER}:*:19000:0:99999:7:::",
    }
    for file, line in lines.items():
        script = f'cp -p /etc/{file} /run/{file} && echo "$0" >> /run/{file} && mount --bind /run/{file} /etc/{file}'
        made.run(name, "sh", "-c", script, line)
    made.run(name, "sh", "-c", "cp /run/keys/user.pub /run/user.pub && chmod 644 /run/user.pub")


def _keys(made: FarHosts) -> None:
    for name in ("user", "stranger", "host"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(made.folder / name)]
        subprocess.run(argv, check=True)
    host_key = (made.folder / "host.pub").read_text().split()[:2]
    known = [f"[{NETWORK}{number}]:2222 {' '.join(host_key)}" for number in range(1, 10)]
    (made.folder / "known_hosts").write_text("\n".join(known) + "\n")
    lines = []
    for number, name in enumerate(NAMES, start=1):
        lines += [f"Host host-{name}", f"  HostName {NETWORK}{number}", f"  IdentityFile {made.folder}/user"]
    lines += ["Host host-nowhere", f"  HostName {NETWORK}9", "  ConnectTimeout 2"]
    lines += ["Host host-closed", f"  HostName {NETWORK}254"]
    lines += ["Host stranger-a", f"  HostName {NETWORK}1", f"  IdentityFile {made.folder}/stranger"]
    lines += [
        "Host *", "  Port 2222", "  User root", "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {made.folder}/known_hosts", "  StrictHostKeyChecking yes", "  ControlPath none",
    ]  # fmt: skip
    (made.folder / "config").write_text("\n".join(lines) + "\n")
    middle = made.holders["middle"].pid
    made.command = f"nsenter --target={middle} --net ssh -F {made.folder}/config"


def _daemon(made: FarHosts, name: str, address: str, *more: str) -> None:
    lines = [
        "Port 2222", f"ListenAddress {address}", f"HostKey {made.folder}/host", f"PidFile {made.folder}/{name}.pid",
        f"AuthorizedKeysFile {made.folder}/user.pub /run/user.pub", "StrictModes no",
        "UsePAM no", "PasswordAuthentication no",
        "KbdInteractiveAuthentication no", "PermitRootLogin yes", "PrintMotd yes", "LogLevel ERROR", *more,
        "SetEnv HOME=/run",  # what shells of this machine's root begin with may hold locks of its files when it is cut
    ]  # fmt: skip
    config = made.folder / f"sshd-{name}"
    config.write_text("\n".join(lines) + "\n")
    errors = (made.folder / f"sshd-{name}.log").open("ab")
    made.daemons[name] = subprocess.Popen(
        [*made.enter(name), SSHD, "-D", "-e", "-f", str(config)], stderr=errors
    )
    deadline = time.monotonic() + 60
    probe = [
        *made.enter(name),
        "python3",
        "-c",
        f"import socket; socket.create_connection(('{address}', 2222), 1)",
    ]
    while subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        assert time.monotonic() < deadline, (made.folder / f"sshd-{name}.log").read_text()
        time.sleep(0.1)


def restart(made: FarHosts, name: str, *more: str) -> None:
    """The host's sshd again, with more lines of configuration."""
    made.daemons[name].kill()
    made.daemons[name].wait()
    _daemon(made, name, f"{NETWORK}{NAMES.index(name) + 1}", *more)
