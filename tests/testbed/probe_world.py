"""Two guests on one bridge and a probe in each, for the tests and the bench of the probe: no leader in between.
Offloads and the bridge's packet filter are off, as in every world that virtlab builds.

Namespaces live as long as their holder processes, which read a pipe of this process and so end with it; the kernel then
removes all else. As an ordinary user everything stands in a private user namespace.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from virtlab import _native
from virtlab.testbed.build.lower import UNFILTERED_BRIDGES

AGENT = Path(
    os.environ.get(
        "VIRTLAB_AGENT", Path(__file__).parents[2] / "python" / "virtlab" / "_bin" / "virtlab-agent"
    )
)
FILTERS_BRIDGES = Path("/proc/sys/net/bridge").is_dir()
TOOLS = ("unshare", "nsenter", "ip")
DTYPES = {"i64": np.int64, "i32": np.int32, "f64": np.float64}


def missing() -> str | None:
    """Why no such world can be made here, or None."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"needs {', '.join(lacking)}"
    if not AGENT.exists():
        return "needs the agent: make agent"
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    tried = subprocess.run(["unshare", *user, "--net", "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no network namespaces here: {tried.stderr.strip()}"


class ProbeError(Exception):
    """The probe answered with an error."""


@dataclass
class Samples:
    """What `collect` brought: columns per schema, counters, taints."""

    columns: dict[str, dict[str, NDArray[Any]]]
    rows: Mapping[str, int]
    counters: Mapping[str, int]
    taints: Sequence[str]
    blocks: list[tuple[str, int]] = field(default_factory=list)  # (schema, number) in order of arrival


class Probe:
    """One probe process and its control stream."""

    def __init__(self, process: subprocess.Popen[bytes], end: socket.socket) -> None:
        self.process = process
        self._end = end
        self._decoder = _native.FrameDecoder()
        self._last = 0
        self.events: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self.blocks: list[bytes] = []

    def send(self, do: str, **fields: Any) -> int:
        """Sends a request without waiting; its id."""
        self._last += 1
        body = json.dumps({"id": self._last, "do": do, **fields}).encode()
        self._end.sendall(_native.encode_frame(0, 0, body))
        return self._last

    def reply(self, wanted: int, timeout_s: float = 30.0) -> Any:
        """The `ok` of that request's reply; ProbeError with its text otherwise."""
        while True:
            message = self._message(timeout_s)
            if message.get("re") == wanted:
                if "error" in message:
                    raise ProbeError(message["error"]["what"])
                return message["ok"]
            self._keep(message)

    def ask(self, do: str, **fields: Any) -> Any:
        """A request and its reply. A role that is disarmed takes its events along."""
        answer = self.reply(self.send(do, **fields))
        if do == "disarm":
            self.events = [event for event in self.events if event["role"] != fields["role"]]
        return answer

    def wait_event(self, name: str, role: str, timeout_s: float = 60.0) -> dict[str, Any]:
        """The next event of that name and role."""
        while True:
            for event in self.events:
                if event["event"] == name and event["role"] == role:
                    self.events.remove(event)
                    return event
            self._keep(self._message(timeout_s))

    def wait_log(self, part: str, timeout_s: float = 60.0) -> None:
        """Waits until it has told of what has that part; a role's last words may come after its reply."""
        while not any(part in line["text"] for line in self.logs):
            self._keep(self._message(timeout_s))

    def collect(self, role: str) -> Samples:
        """All samples of a role."""
        self.blocks.clear()
        reply = self.ask("collect", role=role)
        columns, order = decode(self.blocks)
        taints = [f"{each['kind']}: {each['text']}" for each in reply["taints"]]
        return Samples(columns, reply["rows"], reply["counters"], taints, order)

    def close(self) -> None:
        """Ends the control stream."""
        self._end.close()

    def _keep(self, message: dict[str, Any]) -> None:
        if "event" in message:
            self.events.append(message)
        elif "log" in message:
            self.logs.append(message)

    def _message(self, timeout_s: float) -> dict[str, Any]:
        self._end.settimeout(timeout_s)
        while True:
            while (frame := self._decoder.next_frame()) is not None:
                _, kind, body = frame
                if kind == 0:
                    message: dict[str, Any] = json.loads(body)
                    return message
                self.blocks.append(body)
            data = self._end.recv(1 << 20)
            if not data:
                raise ProbeError("the probe closed its control stream")
            self._decoder.feed(data)


def decode(blocks: Sequence[bytes]) -> tuple[dict[str, dict[str, NDArray[Any]]], list[tuple[str, int]]]:
    """Columns per schema of all blocks in order; names as text."""
    pieces: dict[str, dict[str, list[NDArray[Any]]]] = {}
    order = []
    for body in blocks:
        text, ranges = _native.decode_block(body)
        header = json.loads(text)
        order.append((header["schema"], header["number"]))
        for column, (begin, end, _) in zip(header["columns"], ranges, strict=True):
            values: NDArray[Any] = np.frombuffer(body[begin:end], dtype=DTYPES[column["dtype"]])
            names = header.get("dictionary", {}).get(column["name"])
            if names is not None:
                values = np.array(names, dtype=object)[values]
            pieces.setdefault(header["schema"], {}).setdefault(column["name"], []).append(values)
    joined = {
        schema: {name: np.concatenate(parts) for name, parts in columns.items()}
        for schema, columns in pieces.items()
    }
    return joined, order


@dataclass(frozen=True)
class Guest:
    """A network namespace with one vNIC `eth0` on the bridge."""

    name: str
    holder: int
    prefix: tuple[str, ...]
    address: str
    address6: str
    mac: str

    def argv(self, *argv: str) -> list[str]:
        """The command line that runs `argv` in this guest."""
        return [*self.prefix, *argv]

    def run(self, *argv: str, timeout_s: float = 60.0) -> str:
        """Its output; CalledProcessError when it fails."""
        done = subprocess.run(self.argv(*argv), capture_output=True, text=True, check=True, timeout=timeout_s)
        return done.stdout

    def end(self, version: int = 4, **more: Any) -> dict[str, Any]:
        """This guest as an endpoint of `arm`."""
        address = self.address if version == 4 else self.address6
        return {"address": address, "vnic": "eth0", "mac": self.mac, "mtu_bytes": 1500, **more}

    def interface(self) -> dict[str, int]:
        """Packets and bytes of eth0, both ways, as the kernel counts them."""
        line = next(line for line in self.run("cat", "/proc/net/dev").splitlines() if "eth0:" in line)
        numbers = [int(word) for word in line.split(":")[1].split()]
        return {
            "rx_bytes": numbers[0], "rx_packets": numbers[1], "rx_drops": numbers[3],
            "tx_bytes": numbers[8], "tx_packets": numbers[9], "tx_drops": numbers[11],
        }  # fmt: skip


@dataclass
class World:
    """Guests a and b on one bridge."""

    a: Guest
    b: Guest
    bridge: tuple[str, ...]
    _stack: ExitStack

    def probe(self, guest: Guest, *before: str) -> Probe:
        """Starts a probe in a guest; `before` is put in front of its command line."""
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            guest.argv(*before, str(AGENT), "probe", "--control-fd", str(theirs.fileno())),
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        self._stack.callback(_end, process, ours)
        return Probe(process, ours)

    def shape(self, guest: Guest, *tc: str) -> None:
        """Puts a queue discipline on the guest's vNIC."""
        guest.run("tc", "qdisc", "replace", "dev", "eth0", "root", *tc)


def _end(process: subprocess.Popen[bytes], ours: socket.socket) -> None:
    ours.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _hold(stack: ExitStack, argv: Sequence[str]) -> int:
    """A process that waits on a pipe of ours; its pid once it runs `cat`."""
    process = subprocess.Popen([*argv, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"ready\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"ready\n"

    def release() -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()

    stack.callback(release)
    return process.pid


@contextmanager
def two_guests(offloads: str = "off") -> Iterator[World]:
    """Guests a (10.0.0.1, fd00::1) and b (10.0.0.2, fd00::2); neighbours permanent, IPv6 without duplicate
    detection.
    """
    with ExitStack() as stack:
        user = os.geteuid() != 0
        outer = _hold(stack, ["unshare", *(["--user", "--map-root-user"] if user else []), "--net"])
        enter = ["nsenter", *(["--user", "--preserve-credentials"] if user else [])]
        bridge = (*enter, "--net", "--target", str(outer))
        batch = ["link set lo up", "link add br0 type bridge", "link set br0 up"]
        guests = []
        for number, name in enumerate("ab", start=1):
            holder = _hold(stack, [*bridge, "unshare", "--net"])
            mac = f"02:00:00:00:00:0{number}"
            batch += [
                f"link add v{name} type veth peer name eth0 address {mac} netns {holder}",
                f"link set v{name} master br0 up",
            ]
            prefix = (*enter, "--net", "--target", str(holder))
            guests.append(Guest(name, holder, prefix, f"10.0.0.{number}", f"fd00::{number}", mac))
        subprocess.run([*bridge, "ip", "-batch", "-"], input="\n".join(batch), text=True, check=True)
        if FILTERS_BRIDGES:
            unfiltered = [f"echo {value} > /proc/sys/{path}" for path, value in UNFILTERED_BRIDGES.items()]
            subprocess.run([*bridge, "sh", "-c", " && ".join(unfiltered)], check=True)
        for guest, other in (guests, guests[::-1]):
            commands = [
                "link set lo up", "link set eth0 up",
                f"addr add {guest.address}/24 dev eth0", f"addr add {guest.address6}/64 dev eth0 nodad",
                f"neigh replace {other.address} lladdr {other.mac} dev eth0 nud permanent",
                f"neigh replace {other.address6} lladdr {other.mac} dev eth0 nud permanent",
            ]  # fmt: skip
            subprocess.run(guest.argv("ip", "-batch", "-"), input="\n".join(commands), text=True, check=True)
            if offloads == "off" and shutil.which("ethtool"):
                off = ["tx", "off", "sg", "off", "tso", "off", "gso", "off", "gro", "off"]
                subprocess.run(guest.argv("ethtool", "-K", "eth0", *off), capture_output=True, check=False)
        yield World(guests[0], guests[1], bridge, stack)


def arm(
    client: Probe,
    server: Probe | None,
    workload: str,
    world: World,
    *,
    version: int = 4,
    name: str = "role",
    **parameters: Any,
) -> None:
    """Arms both ends of a role, a towards b."""
    common = {"role": name, "workload": workload, "parameters": parameters, "seed": 7}
    a, b = world.a.end(version), world.b.end(version)
    if server is not None:
        answer = server.ask("arm", side="server", local=b, peer=a, **common)
        b = {**b, **({"port": answer["port"]} if "port" in answer else {})}
    client.ask("arm", side="client", local=a, peer=b, **common)


@contextmanager
def role(
    client: Probe, server: Probe | None, workload: str, world: World, *, name: str = "role", **parameters: Any
) -> Iterator[None]:
    """Both ends of a role armed, and disarmed afterwards."""
    arm(client, server, workload, world, name=name, **parameters)
    try:
        yield
    finally:
        for probe in (client, server):
            if probe is not None:
                probe.ask("disarm", role=name)


def play(
    client: Probe,
    server: Probe | None,
    workload: str,
    world: World,
    *,
    version: int = 4,
    stop_after_s: float | None = None,
    **parameters: Any,
) -> tuple[Samples, Samples | None]:
    """One whole role, from arming to disarming; the samples of both ends."""
    with role(client, server, workload, world, version=version, **parameters):
        if server is not None:
            server.ask("start", role="role")
        client.ask("start", role="role")
        if stop_after_s is not None:
            time.sleep(stop_after_s)
            client.ask("stop", role="role")
        client.wait_event("finished", "role")
        if server is not None:
            server.ask("stop", role="role")
        return client.collect("role"), None if server is None else server.collect("role")
