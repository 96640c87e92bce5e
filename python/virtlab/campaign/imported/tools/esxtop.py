"""esxtop and resxtop in batch mode (`esxtop -b`): a CSV of Windows' performance monitor, a column per counter.

A counter is called `\\\\HOST\\GROUP(INSTANCE)\\COUNTER`. Of a guest's CPU, `% Used` and `% Ready` are of one processor each
(200 for two full ones). Counters that are not listed here are left out; there are thousands.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from virtlab.campaign.imported.told import Point, Told, UnreadableError, number
from virtlab.campaign.imported.tools.clockwork import Instants

_COLUMN = re.compile(r"^\\\\[^\\]*\\(?P<group>[^\\(]+)(?:\((?P<instance>.*)\))?\\(?P<counter>[^\\]+)$")
_FORMAT = "(PDH-CSV 4.0)"
MBIT, MBYTE = 1e6, 2.0**20
_COUNTERS: dict[tuple[str, str], tuple[str, float]] = {
    ("Physical Cpu", "% Util Time"): ("cpu", 0.01),
    ("Group Cpu", "% Used"): ("cpu", 0.01),
    ("Group Cpu", "% Ready"): ("run_queue_delay", 1e7),
    ("Network Port", "MBits Received/sec"): ("network_received", MBIT),
    ("Network Port", "MBits Transmitted/sec"): ("network_sent", MBIT),
    ("Group Memory", "Memory Consumed Size MBytes"): ("memory_used", MBYTE),
    ("Physical Disk Adapter", "MBytes Read/sec"): ("disk_read", MBYTE),
    ("Physical Disk Adapter", "MBytes Written/sec"): ("disk_written", MBYTE),
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


def mine(text: str) -> bool:
    """Whether it looks like esxtop's."""
    return _FORMAT in text[:60]


def read(text: str) -> Told:
    """A point per sample and counter that is known here."""
    told = Told("esxtop")
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
            for one in wanted:
                if cells[one.at].strip():
                    value = number(cells[one.at], rows.line_num, head[one.at][-40:]) * one.factor
                    told.points.append(Point(t_ns, one.entity, one.metric, value))
    except csv.Error as error:
        raise UnreadableError(f"is no CSV ({error})", rows.line_num) from None
    if not told.points:
        raise UnreadableError("has no sample of a counter that is known here")
    return told


def _wanted(head: list[str]) -> list[_Wanted]:
    found = []
    for at, name in enumerate(head):
        column = _COLUMN.match(name)
        if column is None:
            continue
        known = _COUNTERS.get((column["group"], column["counter"]))
        if known is not None:
            found.append(_Wanted(at, _entity(column["group"], column["instance"] or ""), *known))
    return found


def _entity(group: str, instance: str) -> str:
    """`host.cpu`, `host.cpu3`, `guests.NAME`, `guests.NAME.ADAPTER`; instances carry numbers before names."""
    if group == "Physical Cpu":
        return "host.cpu" if instance == "_Total" else f"host.cpu{instance}"
    parts = instance.split(":")
    name = parts[-1] if len(parts) > 1 else instance
    if group == "Physical Disk Adapter":
        return f"host.{instance}"
    if group == "Virtual Disk":
        return f"guests.{'.'.join(parts)}"
    return f"guests.{name.removesuffix('.eth0')}" if group != "Network Port" else f"guests.{name}"
