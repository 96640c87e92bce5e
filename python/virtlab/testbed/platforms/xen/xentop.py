"""What `xentop -b -f -n` says of domains, an iteration at a time as it comes. Pure.

Every iteration begins with a heading. The first has no time to compare with, so its CPU shares are of no time: only
what holds at an instant is taken from it. After a domain's line comes one for each of its ports, with what the
port's back end in domain 0 received from the guest (RX) and sent to it (TX) since it exists; rates are over the
time between two such lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from virtlab.units import SECTOR_BYTES
from virtlab.units.factors import NS_PER_S

KIB = 1024
DOMAIN_0 = "Domain-0"
Row = tuple[int, str, str, float]  # t_ns, entity, metric, value
_PORT = re.compile(r"Net\d+ RX:\s*(?P<sent>\d+)bytes\b.*\bTX:\s*(?P<received>\d+)bytes\b")


@dataclass(frozen=True, slots=True)
class Line:
    """One domain in one iteration."""

    name: str
    cpu_ratio: float  # of one processor
    cpu_s: int
    memory_bytes: int
    vcpus: int
    networks: int
    disks: int
    read_bytes: int
    written_bytes: int


@dataclass(slots=True)
class Traffic:
    """What all ports of a domain carried, as the domain sees it; whole once `ports` are as many as it has."""

    ports: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    t_ns: int = 0


@dataclass(slots=True)
class Reader:
    """Takes bytes as they come; `lines` are of the last iteration that is whole.

    `ports`: the domains that rows are wanted of, and how many ports each has: a rate of only some of them would be
    wrong.
    """

    ports: Mapping[str, int]
    iteration: int = -1
    lines: dict[str, Line] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    _rest: str = ""
    _head: list[str] = field(default_factory=list)
    _now: tuple[str, Traffic] | None = None  # the domain whose ports are being read
    _before: dict[str, Traffic] = field(default_factory=dict)

    def feed(self, content: bytes, t_ns: int) -> None:
        """What it wrote, which was here at `t_ns` of the run's clock; rows are of that instant."""
        *whole, self._rest = (self._rest + content.decode(errors="replace")).split("\n")
        for text in whole:
            words = text.replace("no limit", "no-limit").split()
            if words[:2] == ["NAME", "STATE"]:
                self._head, self.iteration = words, self.iteration + 1
            elif (port := _PORT.match(text)) is not None and self._now is not None:
                self._add(port, t_ns)
            elif self._head and len(words) == len(self._head):
                line = parsed(dict(zip(self._head, words, strict=True)))
                self.lines[line.name] = line
                self._now = line.name, Traffic()
                if line.name in self.ports:
                    self.rows += self._rows_of(line, t_ns)

    def forget(self, name: str) -> None:
        """A domain ended: one of its name counts from zero."""
        self._before.pop(name, None)

    def _rows_of(self, line: Line, t_ns: int) -> Iterator[Row]:
        yield t_ns, _entity(line.name), "memory_used", float(line.memory_bytes)
        if self.iteration > 0:
            yield t_ns, _entity(line.name), "cpu", line.cpu_ratio

    def _add(self, port: re.Match[str], t_ns: int) -> None:
        assert self._now is not None
        name, traffic = self._now
        traffic.ports += 1
        traffic.received_bytes += int(port["received"])
        traffic.sent_bytes += int(port["sent"])
        if not traffic.ports == self.ports.get(name) == self.lines[name].networks:
            return
        traffic.t_ns = t_ns
        before = self._before.get(name)
        self._before[name] = traffic
        if before is None or t_ns <= before.t_ns:
            return
        received, sent = (
            traffic.received_bytes - before.received_bytes,
            traffic.sent_bytes - before.sent_bytes,
        )
        if received >= 0 and sent >= 0:
            seconds = (t_ns - before.t_ns) / NS_PER_S
            self.rows.append((t_ns, _entity(name), "network_received", received * 8 / seconds))
            self.rows.append((t_ns, _entity(name), "network_sent", sent * 8 / seconds))


def _entity(name: str) -> str:
    return "domain-0" if name == DOMAIN_0 else f"guests.{name}"


def parsed(cells: dict[str, str]) -> Line:
    """A line by its headings. ValueError when a cell is no number.

    >>> cells = {"NAME": "a", "CPU(sec)": "24", "CPU(%)": "6.0", "MEM(k)": "131072", "VCPUS": "1", "NETS": "2",
    ...          "VBDS": "0", "VBD_RSECT": "0", "VBD_WSECT": "0"}
    >>> parsed(cells).cpu_ratio, parsed(cells).memory_bytes >> 20
    (0.06, 128)
    """
    return Line(
        name=cells["NAME"],
        cpu_ratio=float(cells["CPU(%)"]) / 100,
        cpu_s=int(cells["CPU(sec)"]),
        memory_bytes=int(cells["MEM(k)"]) * KIB,
        vcpus=int(cells["VCPUS"]),
        networks=int(cells["NETS"]),
        disks=int(cells["VBDS"]),
        read_bytes=int(cells["VBD_RSECT"]) * SECTOR_BYTES,
        written_bytes=int(cells["VBD_WSECT"]) * SECTOR_BYTES,
    )
