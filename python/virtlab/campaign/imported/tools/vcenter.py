"""vCenter's statistics as PowerCLI writes them: `Get-Stat ... | Export-Csv`, a row per entity, metric and instant.

`cpu.usage.average` is of all processors of its entity. `cpu.ready.summation` is in ms of the interval, whose length is in
`IntervalSecs`. Rates are in KBps of 1024 bytes. Metrics that are not listed here are left out.

PowerShell cares for no letter's case: headings are as somebody's `Select-Object` had them (`MetricID`, `TimeStamp`), and
older versions say `virtualdisk.read.average`. `Export-Csv -Delimiter` and `-UseCulture` may separate by `;` or a tab.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from virtlab.campaign.imported.told import Point, Told, UnreadableError, number
from virtlab.campaign.imported.tools.clockwork import Instants

KB = 1024.0
COLUMNS = ("MetricId", "Timestamp", "Value", "Entity")
NAMES = {name.lower(): name for name in (*COLUMNS, "IntervalSecs", "Instance")}
SEPARATORS = (",", ";", "\t")
_METRICS: dict[str, tuple[str, float]] = {
    # by name in small letters
    "cpu.usage.average": ("cpu", 0.01),
    "cpu.ready.summation": ("run_queue_delay", 1e6),  # per second of the interval
    "mem.consumed.average": ("memory_used", KB),
    "net.received.average": ("network_received", KB * 8),
    "net.transmitted.average": ("network_sent", KB * 8),
    "disk.read.average": ("disk_read", KB),
    "disk.write.average": ("disk_written", KB),
    "virtualdisk.read.average": ("disk_read", KB),
    "virtualdisk.write.average": ("disk_written", KB),
    "virtualdisk.totalreadlatency.average": ("disk_read_time", 1e6),
    "virtualdisk.totalwritelatency.average": ("disk_write_time", 1e6),
}


def mine(text: str) -> bool:
    """Whether it looks like Get-Stat's."""
    head = "\n".join(text.splitlines()[:2]).lower()
    return all(name.lower() in head for name in COLUMNS)


def read(text: str) -> Told:
    """A point per row of a metric that is known here."""
    told = Told("vcenter")
    lines = text.splitlines(keepends=True)
    skipped = 1 if lines and lines[0].startswith("#TYPE") else 0
    head = lines[skipped] if len(lines) > skipped else ""
    separator = max(SEPARATORS, key=head.count)
    rows = csv.DictReader(io.StringIO("".join(lines[skipped:])), strict=True, delimiter=separator)
    found: list[tuple[str, int, Mapping[str, str]]] = []
    try:
        rows.fieldnames = [NAMES.get(name.lower(), name) for name in rows.fieldnames or []]
        lacking = [name for name in COLUMNS if name not in (rows.fieldnames or [])]
        if lacking:
            raise UnreadableError(f"lacks the columns {', '.join(lacking)}", skipped + 1)
        for row in rows:
            line = rows.line_num + skipped
            if None in row or None in row.values():
                raise UnreadableError("has more or less values than headings", line)
            if row["MetricId"].lower() in _METRICS:
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
    metric, factor = _METRICS[row["MetricId"].lower()]
    value = number(row["Value"], line, "Value") * factor
    if metric == "run_queue_delay":
        seconds = number(row.get("IntervalSecs") or "", line, "IntervalSecs")
        if seconds == 0:
            raise UnreadableError("an interval of no length", line)
        value /= seconds
    instance = (row.get("Instance") or "").strip()
    entity = f"guests.{row['Entity']}"
    return Point(t_ns, f"{entity}.{instance}" if instance else entity, metric, value)
