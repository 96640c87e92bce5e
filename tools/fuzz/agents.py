"""Agents in a thread at the other end of a socket: a small world whose guests answer as real ones do, or are spoiled.

Guest `a` has a leader of its own with a range of channels, as virtual machines, containers and existing hosts have;
guest `b` is a namespace of the world. `spoil` is given each message before it is sent, with its number, and returns the
bytes that are sent in its place.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from virtlab._native import FrameDecoder, encode_frame

from virtlab.errors import VirtlabError
from virtlab.plan import BLOCKS, Outcome, Plan, Trial, Unobserved
from virtlab.testbed.build import networks
from virtlab.testbed.build.lower import lower
from virtlab.testbed.kinds.clock import GuestClock
from virtlab.testbed.kinds.findings import Machine
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.kinds.reach import Reach
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.run_clock import raw_ns
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.play.priority import Priorities
from virtlab.testbed.play.probes import Probes
from virtlab.testbed.play.run import Pass
from virtlab.testbed.site import HERE

LEADER, CHANNELS = 35_000, 64  # of guest a
CONTROL, BLOCK, DATA = 0, 1, 2
PACKETS = 5
DTYPES = {"i64": (8, "i64"), "i32": (4, "i32"), "f64": (8, "f64"), "name": (4, "i32")}


@dataclass(frozen=True, slots=True)
class Said:
    """One message of an agent. `body`: of a control message its mapping, else the bytes."""

    channel: int
    kind: int
    body: Any

    def frame(self) -> bytes:
        """As it is sent."""
        body = json.dumps(self.body).encode() if self.kind == CONTROL else self.body
        return bytes(encode_frame(self.channel, self.kind, body))


Spoil = Callable[[int, Said], bytes]


def block(
    stream: str, schema: str, number: int, columns: Mapping[str, tuple[str, list[int]]], **more: Any
) -> bytes:
    """A block of columns (dtype, values); `more` is put into its head."""
    rows = len(next(iter(columns.values()))[1]) if columns else 0
    head = {
        "stream": stream, "schema": schema, "number": number, "n": rows,
        "columns": [{"name": name, "dtype": DTYPES[dtype][1]} for name, (dtype, _) in columns.items()],
        **more,
    }  # fmt: skip
    text = json.dumps(head).encode()
    body = bytearray(len(text).to_bytes(4, "little") + text)
    for dtype, values in columns.values():
        body += bytes(-len(body) % 8)
        for value in values:
            body += value.to_bytes(DTYPES[dtype][0], "little", signed=True)
    return bytes(body)


def echoes(stream: str = "probe", number: int = 0) -> bytes:
    """A block of replies as a probe sends them."""
    now = raw_ns()
    each = [now + at for at in range(PACKETS)]
    columns = {
        "seq": ("i64", list(range(PACKETS))), "flow": ("i32", [0] * PACKETS), "intended_ns": ("i64", each),
        "sent_ns": ("i64", each), "received_ns": ("i64", each), "rtt_ns": ("i64", [1000] * PACKETS),
        "path_rtt_ns": ("i64", [900] * PACKETS),
    }  # fmt: skip
    return block(stream, "rtt/1", number, columns)


INTERVAL: dict[str, tuple[str, list[int]]] = {
    name: (dtype, [1]) for name, dtype in BLOCKS["interval/1"].columns.items()
}


def series() -> bytes:
    """A block of a series."""
    columns = {
        "t_ns": ("i64", [raw_ns()]),
        "entity": ("name", [0]),
        "metric": ("name", [0]),
        "value": ("f64", [0]),
    }
    return block("series", "series/1", 0, columns, dictionary={"entity": ["cpu"], "metric": ["cpu"]})


LINK = {
    "up": True, "running": True, "carrier": True, "mtu_bytes": 1500, "segments_at_once": 1, "queue_length_packets": 1000,
    "mac": "02:00:00:00:00:01", "kind": "veth", "master": None, "bridge_port": None, "addresses": ["10.0.0.1/24"],
    "offloads": {"tx": False}, "coalescing": None, "filters": [],
    "qdiscs": [{
        "kind": "htb", "handle": "1:", "parent": "root", "bytes": 0, "packets": 0, "drops": 0, "overlimits": 0,
        "backlog_packets": 0, "backlog_bytes": 0, "rate_bit_per_s": 10**8,
    }],
}  # fmt: skip


def answers(channel: int, request: Mapping[str, Any]) -> Iterator[Said]:
    """What an honest agent says to a request."""
    now = raw_ns()
    clocks = {"raw_ns": now, "realtime_ns": time.time_ns(), "bound_ns": 10}
    do = request["do"]
    route = {"to": "10.0.0.0/24", "via": None, "link": "eth0"}
    kept: dict[str, Any] = {
        "hello": {
            "protocol": [1, 0], "build": "x", "role": "probe", "capabilities": ["rtt"], "boot_id": "b", "clocks": clocks,
        },
        "clock": clocks, "spawn": {"pid": 7}, "exec": {"pid": 8}, "arm": {"port": 7}, "start": {"t_ns": now},
        "stop": {"t_ns": now}, "set": {"t_ns": now}, "live": {"t_ns": now, "roles": {}},
        "collect": {"rows": {}, "counters": {"received_packets": 5}, "taints": []},
        "counters": {"t_ns": now, "rows": [["cpu", "user_ns", 5], ["guest:a/eth0", "sent_packets", 5]]},
        "ping": {"answers": [1000 for _ in request.get("pairs", ())]},
        "observe": {
            "namespaces": {
                name: {"links": {"eth0": LINK}, "routes": [route], "sysctls": {}}
                for name in request.get("namespaces", ())
            }
        },
    }  # fmt: skip
    if do == "ack":
        return
    ok = kept.get(do, {})
    if do == "collect" and request.get("role") == "probe" and channel == LEADER + 1:
        yield Said(channel, BLOCK, echoes())
        ok = {**ok, "rows": {"rtt/1": PACKETS}}
    if do == "sample" and not request["sources"]:
        yield Said(channel, BLOCK, series())
    yield Said(channel, CONTROL, {"re": request["id"], "ok": ok})
    if do == "start" and channel == LEADER + 1:
        for event in ("started", "finished"):
            told = {"event": event, "role": request["role"], "t_ns": now, "reason": "complete"}
            yield Said(channel, CONTROL, told)
        yield Said(channel, CONTROL, {"log": "info", "text": "done"})


class Agents(threading.Thread):
    """Everybody at the other end. After a spoiled message it ends `after_s` later, so that nobody waits for the
    rest.
    """

    def __init__(self, stream: socket.socket, spoil: Spoil, after_s: float | None = None) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.spoil = spoil
        self.after_s = after_s
        self.said = 0
        self.asked: list[tuple[int, str]] = []

    def run(self) -> None:
        """Until nobody asks any more."""
        decoder = FrameDecoder()
        self.stream.settimeout(60.0)
        with contextlib.suppress(OSError), self.stream:
            while content := self.stream.recv(1 << 16):
                decoder.feed(content)
                while (frame := decoder.next_frame()) is not None:
                    self._answer(*frame)

    def _answer(self, channel: int, kind: int, body: bytes) -> None:
        if kind != CONTROL:
            return
        request = json.loads(body)
        self.asked.append((channel, request["do"]))
        for said in answers(channel, request):
            frame = said.frame()
            sent = self.spoil(self.said, said)
            self.said += 1
            self.stream.sendall(sent)
            if sent != frame and self.after_s is not None:
                self.stream.settimeout(self.after_s)


@dataclass(slots=True)
class Led(Running):
    """The platform of guest a: it is there, and leads itself."""

    clock: GuestClock = field(default_factory=GuestClock)

    def guests(self) -> Mapping[str, Reach]:
        """How to talk to it."""
        return {"a": Reach(LEADER, range(LEADER + 1, LEADER + CHANNELS), self.clock)}


def plan() -> Plan:
    """Guests a and b on one bridge, and a role between them."""
    vnics = [{"mac": f"02:00:00:00:00:0{at}", "ip": [f"10.0.0.{at}/24"], "vswitch": "h.br"} for at in (1, 2)]
    guests = {
        name: {"platform": "namespace", "host": "h", "vnics": {"eth0": vnic}}
        for name, vnic in zip("ab", vnics, strict=True)
    }
    world = {
        "hosts": {"h": {}}, "guests": guests, "vswitches": {"h.br": {"kind": "linux_bridge", "host": "h"}},
    }  # fmt: skip
    role = {
        "workload": "rtt", "from": "a", "to": "b", "protocol": "icmp", "ip_packet_bytes": 100, "interval_ns": 10**6,
        "count": PACKETS, "timeout_ns": 10**9,
    }  # fmt: skip
    return Plan.model_validate({
        "world": world, "roles": {"probe": role}, "timeline": [{"id": "m", "do": "run", "role": "probe"}],
        "windows": {"measured": {"from": "m.started", "to": "m.finished"}},
        "collect": {
            "packets": ["probe"], "counters": ["vnics", "cpu"], "series": [{"source": "host.cpu", "every_ns": 10**8}],
        },
        "limits": {"run_ns": 5 * 10**9},
    })  # fmt: skip


class Kept(Unobserved):
    """A sink that checks as a dataset does, and what came; nobody watches."""

    def __init__(self) -> None:
        self.blocks: list[tuple[str, str, Any]] = []
        self.events: list[Any] = []

    def block(self, stream: str, schema: str, columns: Any) -> None:
        """One more."""
        from virtlab.results import parquet

        self.blocks.append(
            (stream, schema, parquet.checked(stream, parquet.schema_of(schema, stream), columns))
        )

    def event(self, event: Any) -> None:
        """One more."""
        json.dumps(event.details, allow_nan=False).encode()
        self.events.append(event)

    def artefact(self, name: str, chunks: Any) -> None:
        """None is looked at."""


def played(spoil: Spoil, after_s: float | None = None) -> tuple[Outcome, Kept, Agents]:
    """A trial among such agents, after a look at their networks. GuestError where one breaks the protocol."""
    ours, theirs = socket.socketpair()
    agents = Agents(theirs, spoil, after_s)
    agents.start()
    control = Control(ours)
    try:
        kept, asked = Kept(), plan()
        lowered = lower(asked, Machine())
        led = Led()
        stations = Guests(control, asked, lowered, HERE, running=[led], owners={"a": led})
        control.begin(LEADER, CHANNELS)
        try:
            networks.observe_each(control, {"guest:a": LEADER})
            probes = Probes(control, asked, lowered, stations, Priorities.of(asked, machine=True))
            one = Pass(control, asked, lowered, probes, Trial(id="t0", seed=1), kept, kept, stations)
            return one.play(), kept, agents
        except VirtlabError as error:
            raise stations.behind(error, str) or error from error
    finally:
        control.close()
        agents.join(10.0)
