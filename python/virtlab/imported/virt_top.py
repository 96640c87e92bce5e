"""virt-top with `--csv FILE`: what each domain of libvirt used between two samples, a row per sample.

Eighteen columns are of the host and of all domains together; then each domain has some of its own, in the order of the
headings, which name them once. `CPU (ns)` and the columns of disks and networks count since the sample before, so the
first sample of a domain has nothing to compare with and is left out. `%CPU` of a domain is its share of all the host's
processors: with `CPU (ns)` it tells the exact time between two samples, of which the instants are whole seconds.

Disks are counted in bytes with `--block-in-bytes`, else in requests. What the host itself uses, beside its guests, is
in no column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from virtlab.imported.instants import Instants
from virtlab.imported.output import Point, ToolOutput, UnreadableError, cell, number
from virtlab.units.factors import NS_PER_S

FIRST, OWN = ("Hostname", "Time", "Arch", "Physical CPUs"), ("Domain ID", "Domain name")
CURE_CUT = "remove that line, or record again with 'virt-top --csv FILE'"
_RATES = {
    "Block RDRQ": ("disk_reads", 1.0), "Block WRRQ": ("disk_writes", 1.0),
    "Block RDBY": ("disk_read", 1.0), "Block WRBY": ("disk_written", 1.0),
    "Net RXBY": ("network_received", 8.0), "Net TXBY": ("network_sent", 8.0),
}  # fmt: skip


def mine(text: str) -> bool:
    """Whether it looks like virt-top's."""
    return _cells(text.partition("\n")[0])[: len(FIRST)] == list(FIRST)


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r")]), [])
    except csv.Error:  # it is another tool's, or none's
        return []


def read(text: str) -> ToolOutput:
    """A point per sample, domain and column, but of a domain's first sample."""
    output = ToolOutput("virt-top")
    csv.field_size_limit(1 << 24)
    rows = csv.reader(io.StringIO(text), strict=True)
    try:
        head = next(rows, [])
        own = head.index(OWN[0]) if OWN[0] in head else 0
        if head[: len(FIRST)] != list(FIRST) or head[own : own + 2] != list(OWN):
            raise UnreadableError(
                "does not begin with the headings of virt-top", 1, "leave its first line in"
            )
        instants = Instants()
        before_ns, before = 0, frozenset[str]()
        for cells in rows:
            line = rows.line_num
            if len(cells) < own or (len(cells) - own) % (len(head) - own):
                raise UnreadableError(f"has {len(cells)} values, so a domain lacks some", line, CURE_CUT)
            at_ns = instants.of(cells[1], line)
            processors = number(cells[3], line, FIRST[3])
            domains = list(_domains(head[own:], cells[own:], line))
            passed_s = _passed_s(domains, processors, line) or (at_ns - before_ns) / NS_PER_S
            known = [domain for domain in domains if domain[OWN[0]] in before]
            output.points += _points(known, at_ns, processors, passed_s, line)
            before_ns, before = at_ns, frozenset(domain[OWN[0]] for domain in domains)
    except csv.Error as error:
        raise UnreadableError(f"is not a CSV ({error})", rows.line_num) from None
    if not output.points:
        raise UnreadableError("has no domain in two samples, of which the first has nothing to compare with")
    output.notes.append("virt-top tells what domains use and not what their host uses beside them")
    return output


def _domains(head: Sequence[str], cells: Sequence[str], line: int) -> Iterator[dict[str, str]]:
    """A row of each domain."""
    for at in range(0, len(cells), len(head)):
        domain = dict(zip(head, cells[at : at + len(head)], strict=True))
        if not domain[OWN[1]]:
            raise UnreadableError("has a domain without a name", line, CURE_CUT)
        yield domain


def _passed_s(domains: Sequence[Mapping[str, str]], processors: float, line: int) -> float:
    """Since the sample before; 0: no domain tells it."""
    for domain in domains:
        if domain.get("CPU (ns)") and domain.get("%CPU") and processors:
            used_ns, share = cell(domain, "CPU (ns)", line), cell(domain, "%CPU", line) / 100
            if used_ns and share:
                return used_ns / (share * processors) / NS_PER_S
    return 0.0


def _points(
    domains: Sequence[Mapping[str, str]], at_ns: int, processors: float, passed_s: float, line: int
) -> Iterator[Point]:
    for domain in domains:
        entity = f"guests.{domain[OWN[1]]}"
        if domain.get("%CPU"):
            yield Point(at_ns, entity, "cpu", cell(domain, "%CPU", line) / 100 * processors)
        for name, (metric, factor) in _RATES.items():
            if domain.get(name) and passed_s:
                yield Point(at_ns, entity, metric, cell(domain, name, line) * factor / passed_s)
