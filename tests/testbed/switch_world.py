"""Small worlds around one soft switch, for its tests and bench: namespaces, veth pairs, an agent on a socket.

Namespaces live as long as their holder processes, which end with the `with` block; the kernel removes the
rest. As an ordinary user everything stands in a private user namespace.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from virtlab import _native

BUILT = Path(__file__).parents[2] / "python" / "virtlab" / "_bin" / "virtlab-agent"
AGENT = Path(os.environ.get("VIRTLAB_AGENT", BUILT))
TOOLS = ("unshare", "nsenter", "ip", "ethtool", "ping")


def missing() -> str | None:
    """Why no such world can be made here, or None."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"needs {', '.join(lacking)}"
    if not AGENT.exists():
        return "needs the agent: make agent"
    tried = subprocess.run(
        ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if tried.returncode == 0 else f"no network namespaces here: {tried.stderr.strip()}"


class SwitchError(Exception):
    """The switch answered with an error."""


def control_frame(body: bytes) -> bytes:
    """One control frame."""
    return bytes(_native.encode_frame(0, 0, body))


class Conversation:
    """Requests to an agent at the other end of a socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._decoder = _native.FrameDecoder()
        self._last = 0

    def ask(self, do: str, **fields: Any) -> Any:
        """The reply's `ok`; SwitchError with its text otherwise."""
        self._last += 1
        body = json.dumps({"id": self._last, "do": do, **fields}).encode()
        self._end.sendall(control_frame(body))
        while True:
            message = json.loads(self._next())
            if message.get("re") == self._last:
                if "error" in message:
                    raise SwitchError(message["error"]["what"])
                return message["ok"]

    def _next(self) -> bytes:
        while (frame := self._decoder.next_frame()) is None:
            chunk = self._end.recv(1 << 16)
            if not chunk:
                raise SwitchError("the agent closed its stream")
            self._decoder.feed(chunk)
        return bytes(frame[2])


class World:
    """One fabric namespace, and one namespace per host that is joined to it by a veth pair."""

    def __init__(self, stack: ExitStack, *, private_user: bool) -> None:
        self._stack = stack
        self._private_user = private_user
        self._pids: dict[str, int] = {}
        self.hold("fabric")

    def pid(self, name: str) -> int:
        """The process that holds a namespace."""
        return self._pids[name]

    def hold(self, name: str) -> None:
        """A new, empty namespace."""
        if not self._pids and self._private_user:
            command = ["unshare", "--user", "--map-root-user", "--net", "--", "sleep", "infinity"]
        elif self._private_user:
            first = str(self._pids["fabric"])
            command = ["nsenter", "-t", first, "--user", "--preserve-credentials", "--"]
            command += ["unshare", "--net", "--", "sleep", "infinity"]
        else:
            command = ["unshare", "--net", "--", "sleep", "infinity"]
        holder = subprocess.Popen(command)
        self._stack.callback(holder.wait)
        self._stack.callback(holder.kill)
        self._pids[name] = holder.pid
        deadline = time.monotonic() + 10
        while Path(f"/proc/{holder.pid}/comm").read_text().strip() != "sleep":
            assert time.monotonic() < deadline, f"namespace {name} did not come up"
            time.sleep(0.002)

    def inside(self, name: str, *command: str) -> list[str]:
        """The command line that runs `command` in a namespace."""
        user = ["--user", "--preserve-credentials"] if self._private_user else []
        return ["nsenter", "-t", str(self._pids[name]), *user, "--net", "--", *command]

    def run(self, name: str, command: str, timeout_s: float = 60) -> str:
        """Runs a command in a namespace; its output."""
        done = subprocess.run(
            self.inside(name, *shlex.split(command)),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def host(self, name: str, address: str, mac: str, *, rate_bit_per_s: int | None = None) -> str:
        """A host with `eth0` joined to the fabric; the fabric's end. `rate_bit_per_s`: HTB pushback."""
        self.hold(name)
        port = f"p{len(self._pids) - 1}"
        for namespace in ("fabric", name):
            for which in ("all", "default"):
                self.run(namespace, f"sysctl -qw net.ipv6.conf.{which}.disable_ipv6=1")
        pid = self._pids[name]
        self.run("fabric", f"ip link add {port} type veth peer name eth0 address {mac} netns {pid}")
        self.run(name, "ethtool -K eth0 tx off sg off tso off gso off")
        self.run(name, f"ip address add {address} dev eth0")
        self.run("fabric", f"ip link set {port} up")
        self.run(name, "ip link set eth0 up")
        self.run(name, "ip link set lo up")
        if rate_bit_per_s is not None:
            shape = (
                f"rate {rate_bit_per_s}bit ceil {rate_bit_per_s}bit burst 15k cburst 15k overhead 24 mpu 84"
            )
            self.run(name, "tc qdisc add dev eth0 root handle 1: htb default 1")
            self.run(name, f"tc class add dev eth0 parent 1: classid 1:1 htb {shape}")
        return port

    def neighbours(self, hosts: Mapping[str, tuple[str, str]]) -> None:
        """Permanent neighbour entries of all hosts with each other: name -> (address without length, MAC)."""
        for name in hosts:
            for other, (address, mac) in hosts.items():
                if other != name:
                    self.run(name, f"ip neigh replace {address} lladdr {mac} nud permanent dev eth0")

    def switch(self, *, cpu: int | None = None) -> Conversation:
        """Starts the agent as switch in the fabric namespace."""
        ours, theirs = socket.socketpair()
        pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
        command = self.inside("fabric", *pinned, str(AGENT), "switch", "--control-fd", str(theirs.fileno()))
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        self._stack.callback(ours.close)
        ours.settimeout(30)
        conversation = Conversation(ours)
        conversation.ask("hello", protocol=[1, 0])
        return conversation


@contextmanager
def world(*, private_user: bool | None = None) -> Iterator[World]:
    """An empty world; `private_user` defaults to what this user needs."""
    with ExitStack() as stack:
        yield World(stack, private_user=os.geteuid() != 0 if private_user is None else private_user)


HOSTS = {"h1": ("10.0.0.1", "02:00:00:00:00:01"), "h2": ("10.0.0.2", "02:00:00:00:00:02")}


def line_layout(switches: int, rate_bit_per_s: int = 100_000_000, limit_packets: int = 100) -> dict[str, Any]:
    """`configure` fields of two hosts with so many switches in line, forwarding entries included."""
    stations = ["h1.up", *(f"s{n}.p{side}" for n in range(1, switches + 1) for side in (1, 2)), "h2.up"]
    queue = {"kind": "fifo", "limit_packets": limit_packets}
    links = {
        f"l{n}": {
            "ends": [stations[2 * n], stations[2 * n + 1]],
            "rate_bit_per_s": rate_bit_per_s,
            "propagation_ns": 0,
            "queue": {"ab": queue, "ba": queue},
        }
        for n in range(switches + 1)
    }
    names = [f"s{n}" for n in range(1, switches + 1)]
    return {
        "switches": {name: {"processing_ns": 0} for name in names},
        "links": links,
        "forwarding": {name: {HOSTS["h1"][1]: f"{name}.p1", HOSTS["h2"][1]: f"{name}.p2"} for name in names},
        "mtu_bytes": 1500,
    }


def two_hosts(world: World, *, rate_bit_per_s: int | None = None) -> dict[str, Any]:
    """Hosts h1 and h2 with permanent neighbours; the `ports` field of `configure`."""
    ports = {}
    for name, (address, mac) in HOSTS.items():
        port = world.host(name, f"{address}/24", mac, rate_bit_per_s=rate_bit_per_s)
        ports[f"{name}.up"] = {"ifname": port}
    world.neighbours(HOSTS)
    return ports


def two_hosts_without_switch(world: World) -> None:
    """Hosts h1 and h2 on the two ends of one veth pair, to compare with."""
    world.hold("h1")
    world.hold("h2")
    world.run("h1", f"ip link add eth0 type veth peer name eth0 netns {world.pid('h2')}")
    for name, (address, _) in HOSTS.items():
        world.run(name, f"ip address add {address}/24 dev eth0")
        world.run(name, "ip link set eth0 up")


def ping_rtts_ns(
    world: World, *, count: int, interval_s: float, payload_bytes: int, poll: bool = False
) -> list[int]:
    """RTTs from h1 to h2 as `ping` prints them (as root also with short intervals)."""
    pace = "-A" if poll else f"-i {interval_s}"
    command = f"ping -n {pace} -c {count} -s {payload_bytes} -W 2 {HOSTS['h2'][0]}"
    text = world.run("h1", command, timeout_s=120)
    return [
        round(float(line.split("time=")[1].split()[0]) * 1e6) for line in text.splitlines() if "time=" in line
    ]


def python_inside(world: World, name: str, code: str, *arguments: str) -> list[str]:
    """The command line of a Python program in a namespace."""
    return world.inside(name, sys.executable, "-c", code, *arguments)
