"""Plans of small worlds, and what a test needs to play them: a sink in memory, an observer, the reason to skip."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from virtlab.plan import Columns, Event, Plan
from virtlab.testbed.build.machine import findings


def missing() -> str | None:
    """Why no testbed can be built here, or None."""
    world = findings().world
    return None if world is None else f"{world[0]}; {world[1]}"


class MemorySink:
    """Keeps everything it is given."""

    def __init__(self) -> None:
        self.blocks: list[tuple[str, str, Columns]] = []
        self.events: list[Event] = []
        self.artefacts: dict[str, bytes] = {}

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        self.blocks.append((stream, schema, columns))

    def event(self, event: Event) -> None:
        self.events.append(event)

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        self.artefacts[name] = b"".join(chunks)

    def rows(self, stream: str, schema: str) -> int:
        """How many rows of a schema came from a stream."""
        return sum(
            len(next(iter(columns.values())))
            for name, kind, columns in self.blocks
            if (name, kind) == (stream, schema)
        )

    def columns(self, stream: str, schema: str) -> Columns:
        """All rows of a schema from a stream: a stream of more than 256 KiB comes in several blocks."""
        kept = [columns for name, kind, columns in self.blocks if (name, kind) == (stream, schema)]
        return {name: np.concatenate([each[name] for each in kept]) for name in kept[0]}

    def counters(self, mark: str) -> dict[tuple[str, str], int]:
        """(entity, counter) -> value at a mark."""
        found = {}
        for _, schema, columns in self.blocks:
            if schema == "counter/1":
                for at, entity, counter, value in zip(
                    columns["mark"], columns["entity"], columns["counter"], columns["value"], strict=True
                ):
                    if at == mark:
                        found[str(entity), str(counter)] = int(value)
        return found


class ActingSink(MemorySink):
    """Does something, once, in mid-run: so long after the first event whose name ends so."""

    def __init__(
        self, act: Callable[[], object], *, at: str = "measure.started", later_s: float = 0.3
    ) -> None:
        super().__init__()
        self._act: Callable[[], object] | None = act
        self._at, self._later_s = at, later_s

    def event(self, event: Event) -> None:
        super().event(event)
        if event.what.endswith(self._at) and (act := self._act) is not None:
            self._act = None
            threading.Timer(self._later_s, act).start()


class Patient:
    """Never cancels, until told to."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.stop = False

    def progress(self, what: str, done_ratio: float | None = None) -> None:
        self.steps.append(what)

    def cancelled(self) -> bool:
        return self.stop


RATE = 100_000_000
INTERVAL_NS = 5_000_000  # between two requests of an echo
LATE_NS = 5_000_000_000  # until then a reply that a busy machine holds up is late and not lost


def vnic(number: int, *, mtu: int = 1500, ip: list[str] | None = None, **attachment: Any) -> dict[str, Any]:
    """A vNIC with the MAC and address of a number."""
    return {
        "mac": f"02:00:00:00:00:{number:02x}",
        "ip": ip if ip is not None else [f"10.0.0.{number}/24"],
        "mtu_bytes": mtu,
        "pushback_bit_per_s": RATE,
        **attachment,
    }


def link(*ends: str, **more: Any) -> dict[str, Any]:
    """A link of 100 Mbit/s."""
    return {"ends": list(ends), "rate_bit_per_s": RATE, **more}


def bridged(*, switches: int = 1, mtu: int = 1500, ipv6: bool = False, **link_fields: Any) -> dict[str, Any]:
    """Guests a and b on bridges of h1 and h2, with physical switches in line between them."""
    addresses: list[list[str] | None] = [["fd00::1/64"], ["fd00::2/64"]] if ipv6 else [None, None]
    ends = ["h1.up"]
    for number in range(1, switches + 1):
        ends += [f"s{number}.p1", f"s{number}.p2"]
    ends.append("h2.up")
    return {
        "hosts": {"h1": {}, "h2": {}},
        "guests": {
            name: {
                "platform": "namespace",
                "host": host,
                "vnics": {"eth0": vnic(number, mtu=mtu, ip=addresses[number - 1], vswitch=f"{host}.br")},
            }
            for number, (name, host) in enumerate((("a", "h1"), ("b", "h2")), start=1)
        },
        "vswitches": {
            f"{host}.br": {"kind": "linux_bridge", "host": host, "uplinks": [f"{host}.up"]}
            for host in ("h1", "h2")
        },
        "switches": {f"s{number}": {} for number in range(1, switches + 1)},
        "links": {
            f"l{at // 2}": link(ends[at], ends[at + 1], **link_fields) for at in range(0, len(ends), 2)
        },
    }


def native() -> dict[str, Any]:
    """Two hosts without guests or virtual switches, through one physical switch."""
    return {
        "hosts": {"h1": {}, "h2": {}},
        "guests": {
            name: {
                "platform": "native",
                "host": host,
                "vnics": {"eth0": vnic(number, uplink=f"{host}.up")},
            }
            for number, (name, host) in enumerate((("a", "h1"), ("b", "h2")), start=1)
        },
        "switches": {"s1": {}},
        "links": {"l0": link("h1.up", "s1.p1"), "l1": link("s1.p2", "h2.up")},
    }


def routed() -> dict[str, Any]:
    """Two networks with a router between them in place of a switch."""
    world = bridged(switches=0)
    world["hosts"]["r"] = {}
    world["guests"]["b"]["vnics"]["eth0"]["ip"] = ["10.0.1.2/24"]
    world["guests"]["r"] = {
        "platform": "native",
        "host": "r",
        "forwards": True,
        "vnics": {
            "p1": {**vnic(11, ip=["10.0.0.254/24"], uplink="r.p1"), "pushback_bit_per_s": None},
            "p2": {**vnic(12, ip=["10.0.1.254/24"], uplink="r.p2"), "pushback_bit_per_s": None},
        },
    }
    world["links"] = {"l0": link("h1.up", "r.p1"), "l1": link("r.p2", "h2.up")}
    world["routes"] = {
        "a": [{"to": "10.0.1.0/24", "via": "10.0.0.254", "vnic": "eth0"}],
        "b": [{"to": "10.0.0.0/24", "via": "10.0.1.254", "vnic": "eth0"}],
    }
    return world


def star(guests: int = 4) -> dict[str, Any]:
    """Hosts around one physical switch, one guest each."""
    hosts = [f"h{number}" for number in range(1, guests + 1)]
    return {
        "hosts": {host: {} for host in hosts},
        "guests": {
            f"g{number}": {
                "platform": "namespace",
                "host": host,
                "vnics": {"eth0": vnic(number, vswitch=f"{host}.br")},
            }
            for number, host in enumerate(hosts, start=1)
        },
        "vswitches": {
            f"{host}.br": {"kind": "linux_bridge", "host": host, "uplinks": [f"{host}.up"]} for host in hosts
        },
        "switches": {"s": {}},
        "links": {f"l{number}": link(f"{host}.up", f"s.p{number}") for number, host in enumerate(hosts)},
    }


def one_host(guests: int = 3) -> dict[str, Any]:
    """Guests on one bridge, no link at all."""
    return {
        "hosts": {"h": {}},
        "guests": {
            f"g{number}": {
                "platform": "namespace",
                "host": "h",
                "vnics": {"eth0": {**vnic(number, vswitch="h.br"), "pushback_bit_per_s": None}},
            }
            for number in range(1, guests + 1)
        },
        "vswitches": {"h.br": {"kind": "linux_bridge", "host": "h"}},
    }


def plan(world: dict[str, Any], **more: Any) -> Plan:
    """A Plan of a world."""
    return Plan.model_validate({"world": world, **more})


def echo_plan(
    world: dict[str, Any], *, count: int = 20, source: str = "a", target: str = "b", **more: Any
) -> Plan:
    """The world with one measuring role between two guests."""
    fields: dict[str, Any] = {
        "roles": {
            "probe": {
                "workload": "rtt", "from": source, "to": target, "protocol": "icmp", "ip_packet_bytes": 1000,
                "interval_ns": INTERVAL_NS, "count": count, "timeout_ns": LATE_NS,
            }
        },
        "timeline": [{"id": "measure", "do": "run", "role": "probe"}],
        "windows": {"measured": {"from": "measure.started", "to": "measure.finished"}},
        "collect": {"packets": ["probe"], "counters": ["vnics", "links", "softnet"]},
        "limits": {"run_ns": 30_000_000_000},
    }  # fmt: skip
    return plan(world, **{**fields, **more})


def own_processes() -> set[int]:
    """Agents that are children of this process, zombies included."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.add(int(entry.name))
    return found
