"""What `xentop -b -f` says of domains, an iteration at a time as it comes. Pure.

Every iteration begins with a heading. The first has no time to compare with, so its CPU shares are of no time: only what
holds at an instant is taken from it. Columns of networks stay at zero here: xentop looks for a guest's ports by their first
names in domain 0's own network, and they are in their host's. The kernel's counters of them are exact to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

KIB = 1024
SECTOR_BYTES = 512
DOMAIN_0 = "Domain-0"
Row = tuple[int, str, str, float]  # t_ns, entity, metric, value


@dataclass(frozen=True, slots=True)
class Line:
    """One domain in one iteration."""

    name: str
    cpu_ratio: float  # of one processor
    cpu_s: int
    memory_bytes: int
    vcpus: int
    disks: int
    read_bytes: int
    written_bytes: int


@dataclass(slots=True)
class Reader:
    """Takes bytes as they come; `lines` are of the last iteration that is whole."""

    iteration: int = -1
    lines: dict[str, Line] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    _rest: str = ""
    _head: list[str] = field(default_factory=list)

    def feed(self, content: bytes, t_ns: int) -> None:
        """What it wrote, which was here at `t_ns` of the run's clock; rows are of that instant."""
        *whole, self._rest = (self._rest + content.decode(errors="replace")).split("\n")
        for text in whole:
            words = text.replace("no limit", "no-limit").split()
            if words[:2] == ["NAME", "STATE"]:
                self._head, self.iteration = words, self.iteration + 1
            elif self._head and len(words) == len(self._head):
                line = parsed(dict(zip(self._head, words, strict=True)))
                self.lines[line.name] = line
                self.rows += self._rows_of(line, t_ns)

    def _rows_of(self, line: Line, t_ns: int) -> Iterator[Row]:
        entity = "domain-0" if line.name == DOMAIN_0 else f"guests.{line.name}"
        yield t_ns, entity, "memory_used", float(line.memory_bytes)
        if self.iteration > 0:
            yield t_ns, entity, "cpu", line.cpu_ratio


def parsed(cells: dict[str, str]) -> Line:
    """A line by its headings. ValueError when a cell is no number.

    >>> cells = {"NAME": "a", "CPU(sec)": "24", "CPU(%)": "6.0", "MEM(k)": "131072", "VCPUS": "1", "VBDS": "0",
    ...          "VBD_RSECT": "0", "VBD_WSECT": "0"}
    >>> parsed(cells).cpu_ratio, parsed(cells).memory_bytes >> 20
    (0.06, 128)
    """
    return Line(
        name=cells["NAME"],
        cpu_ratio=float(cells["CPU(%)"]) / 100,
        cpu_s=int(cells["CPU(sec)"]),
        memory_bytes=int(cells["MEM(k)"]) * KIB,
        vcpus=int(cells["VCPUS"]),
        disks=int(cells["VBDS"]),
        read_bytes=int(cells["VBD_RSECT"]) * SECTOR_BYTES,
        written_bytes=int(cells["VBD_WSECT"]) * SECTOR_BYTES,
    )
