"""esxtop and resxtop in batch mode (`esxtop -b`): a CSV of Windows' performance monitor, a column per counter.

A counter is called `\\\\HOST\\GROUP(INSTANCE)\\COUNTER`. Of a guest's CPU, `% Used` and `% Ready` are of one processor
each (200 for two full ones). Counters that are not listed here are left out; there are thousands.

A port's instance is `SWITCH:PORT:WORLD:NAME` where a guest uses it, and `SWITCH:PORT:NAME` where the host does
(`vmnic0`, `vmk0`, `Management`). Several ports of one name are summed up, and so are the host's disk adapters
(`host.disks`). Groups are guests and the host's own processes alike: a group that is called as ESXi calls its own
(`1:system`, `3867:hostd.3867`) is left out, unless it has what only guests have in the same output: a virtual
processor, disk or port. What the host's own use is in `host.cpu`.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from virtlab.imported.instants import Instants
from virtlab.imported.output import Point, ToolOutput, UnreadableError, number

_COLUMN = re.compile(r"^\\\\[^\\]*\\(?P<group>[^\\(]+)(?:\((?P<instance>.*)\))?\\(?P<counter>[^\\]+)$")
_FORMAT = "(PDH-CSV 4.0)"
_PORT = re.compile(r"^(?P<switch>.*?):(?P<port>\d+):(?:(?P<world>\d+):)?(?P<name>.+)$")
_ADAPTER = re.compile(r"\.eth\d+$")
_VCPU = re.compile(r"^\d+:(?P<name>.+):\d+:(?:vmx-vcpu|vmm)-?\d+.*$")
_ESXI_OWN = re.compile(
    r"^(?:host|idle|system|helper|drivers|ft|vmotion|svmotion|vmkapimod|console|minfree|user|vim|iofilters|.*\.\d{3,})$"
)
MBIT, MBYTE = 1e6, 2.0**20
SUMMED = frozenset({"network_received", "network_sent"})
ADAPTERS, DISKS = "Physical Disk Adapter", "host.disks"
_COUNTERS: dict[tuple[str, str], tuple[str, float]] = {
    ("Physical Cpu", "% Util Time"): ("cpu", 0.01),
    ("Group Cpu", "% Used"): ("cpu", 0.01),
    ("Group Cpu", "% Ready"): ("run_queue_delay", 1e7),
    ("Network Port", "MBits Received/sec"): ("network_received", MBIT),
    ("Network Port", "MBits Transmitted/sec"): ("network_sent", MBIT),
    ("Group Memory", "Memory Consumed Size MBytes"): ("memory_used", MBYTE),
    (ADAPTERS, "MBytes Read/sec"): ("disk_read", MBYTE),
    (ADAPTERS, "MBytes Written/sec"): ("disk_written", MBYTE),
    ("Virtual Disk", "MBytes Read/sec"): ("disk_read", MBYTE),
    ("Virtual Disk", "MBytes Written/sec"): ("disk_written", MBYTE),
    ("Virtual Disk", "Average MilliSec/Read"): ("disk_read_time", 1e6),
    ("Virtual Disk", "Average MilliSec/Write"): ("disk_write_time", 1e6),
}


@dataclass(frozen=True, slots=True)
class _Wanted:
    at: int
    entity: str
    metric: str
    factor: float
    together: str = ""  # an entity of which it is a part, and whose parts are summed up


def mine(text: str) -> bool:
    """Whether it looks like esxtop's."""
    return _FORMAT in text[:60]


def read(text: str) -> ToolOutput:
    """A point per sample and counter that is known here."""
    output = ToolOutput("esxtop")
    csv.field_size_limit(1 << 24)
    rows = csv.reader(io.StringIO(text))
    try:
        head = next(rows, [])
        if not head or _FORMAT not in head[0]:
            raise UnreadableError(f"does not begin with {_FORMAT}", 1)
        wanted = list(_wanted(head))
        instants = Instants()
        for cells in rows:
            if not cells:
                continue
            if len(cells) != len(head):
                raise UnreadableError(f"has {len(cells)} values under {len(head)} headings", rows.line_num)
            t_ns = instants.of(cells[0], rows.line_num)
            sums: dict[tuple[str, str], float] = defaultdict(float)
            for one in wanted:
                if not cells[one.at].strip():
                    continue
                value = number(cells[one.at], rows.line_num, head[one.at][-40:]) * one.factor
                if one.together:
                    sums[one.together, one.metric] += value
                if one.metric in SUMMED:
                    sums[one.entity, one.metric] += value
                else:
                    output.points.append(Point(t_ns, one.entity, one.metric, value))
            output.points += [Point(t_ns, *which, value) for which, value in sums.items()]
    except csv.Error as error:
        raise UnreadableError(f"is not a CSV ({error})", rows.line_num) from None
    if not output.points:
        raise UnreadableError("has no sample of a counter that is known here")
    return output


def _wanted(head: list[str]) -> list[_Wanted]:
    columns = [(at, match) for at, name in enumerate(head) if (match := _COLUMN.match(name)) is not None]
    guests = _guests((column["group"], column["instance"] or "") for _, column in columns)
    found: list[_Wanted] = []
    seen: set[tuple[str, str]] = set()
    for at, column in columns:
        known = _COUNTERS.get((column["group"], column["counter"]))
        entity = _entity(column["group"], column["instance"] or "", guests) if known is not None else None
        if known is None or entity is None:
            continue
        if (entity, known[0]) in seen and known[0] not in SUMMED:
            entity += f".{(column['instance'] or '').partition(':')[0]}"  # another group of the same name
        seen.add((entity, known[0]))
        found.append(_Wanted(at, entity, *known, DISKS if column["group"] == ADAPTERS else ""))
    return found


def _guests(columns: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Entities with a counter that only guests have."""
    found = set()
    for group, instance in columns:
        if group == "Vcpu" and (world := _VCPU.match(instance)) is not None:
            found.add(world["name"])
        elif group == "Network Port" and (port := _PORT.match(instance)) is not None and port["world"]:
            found.add(_ADAPTER.sub("", port["name"]))
        elif group == "Virtual Disk":
            found.add(instance.partition(":")[0])
    return frozenset(found)


def _entity(group: str, instance: str, guests: frozenset[str]) -> str | None:
    """`host.cpu`, `host.cpu3`, `host.vmnic0`, `guests.NAME`, `guests.NAME.ADAPTER`; None: left out."""
    if group == "Physical Cpu":
        return "host.cpu" if instance == "_Total" else f"host.cpu{instance}"
    if group == ADAPTERS:
        return f"host.{instance}"
    if group == "Virtual Disk":
        return f"guests.{instance.replace(':', '.')}"
    if group == "Network Port":
        port = _PORT.match(instance)
        if port is None:
            return f"host.{instance}"
        return f"guests.{port['name']}" if port["world"] else f"host.{port['name']}"
    name = instance.partition(":")[2] or instance
    return f"guests.{name}" if name in guests or not _ESXI_OWN.match(name) else None
