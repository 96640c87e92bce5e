"""vCenter's statistics as PowerCLI writes them: `Get-Stat ... | Export-Csv`, a row per entity, metric and instant.

`cpu.usage.average` is of all processors of its entity. `cpu.ready.summation` is in ms of the interval, whose length is in
`IntervalSecs`. Rates are in KBps of 1024 bytes. Metrics that are not listed here are left out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from virtlab.campaign.imported.told import Point, Told, UnreadableError, number
from virtlab.campaign.imported.tools.clockwork import Instants

KB = 1024.0
COLUMNS = ("MetricId", "Timestamp", "Value", "Entity")
_METRICS: dict[str, tuple[str, float]] = {
    "cpu.usage.average": ("cpu", 0.01),
    "cpu.ready.summation": ("run_queue_delay", 1e6),  # per second of the interval
    "mem.consumed.average": ("memory_used", KB),
    "net.received.average": ("network_received", KB * 8),
    "net.transmitted.average": ("network_sent", KB * 8),
    "disk.read.average": ("disk_read", KB),
    "disk.write.average": ("disk_written", KB),
    "virtualDisk.read.average": ("disk_read", KB),
    "virtualDisk.write.average": ("disk_written", KB),
    "virtualDisk.totalReadLatency.average": ("disk_read_time", 1e6),
    "virtualDisk.totalWriteLatency.average": ("disk_write_time", 1e6),
}


def mine(text: str) -> bool:
    """Whether it looks like Get-Stat's."""
    head = "\n".join(text.splitlines()[:2])
    return all(name in head for name in COLUMNS)


def read(text: str) -> Told:
    """A point per row of a metric that is known here."""
    told = Told("vcenter")
    lines = text.splitlines(keepends=True)
    skipped = 1 if lines and lines[0].startswith("#TYPE") else 0
    rows = csv.DictReader(io.StringIO("".join(lines[skipped:])), strict=True)
    found: list[tuple[str, int, Mapping[str, str]]] = []
    try:
        lacking = [name for name in COLUMNS if name not in (rows.fieldnames or [])]
        if lacking:
            raise UnreadableError(f"lacks the columns {', '.join(lacking)}", skipped + 1)
        for row in rows:
            line = rows.line_num + skipped
            if None in row or None in row.values():
                raise UnreadableError("has more or less values than headings", line)
            if row["MetricId"] in _METRICS:
                found.append((row["Timestamp"], line, row))
    except csv.Error as error:
        raise UnreadableError(f"is no CSV ({error})", rows.line_num + skipped) from None
    ordered = sorted(found, key=lambda one: _absolute(one[0], one[1]))
    instants = Instants()
    for stamp, line, values in ordered:
        told.points.append(_point(instants.of(stamp, line), values, line))
    if not told.points:
        raise UnreadableError("has no row of a metric that is known here")
    return told


def _absolute(stamp: str, line: int) -> int:
    """Get-Stat writes the newest first: rows are put in order."""
    from virtlab.campaign.imported.tools.clockwork import _of_calendar

    at = _of_calendar(stamp)
    if at is None:
        raise UnreadableError(f"'{stamp[:40]}' is no instant with its day", line)
    return at


def _point(t_ns: int, row: Mapping[str, str], line: int) -> Point:
    metric, factor = _METRICS[row["MetricId"]]
    value = number(row["Value"], line, "Value") * factor
    if metric == "run_queue_delay":
        seconds = number(row.get("IntervalSecs") or "", line, "IntervalSecs")
        if seconds == 0:
            raise UnreadableError("an interval of no length", line)
        value /= seconds
    instance = (row.get("Instance") or "").strip()
    entity = f"guests.{row['Entity']}"
    return Point(t_ns, f"{entity}.{instance}" if instance else entity, metric, value)
