"""vCenter's statistics as PowerCLI writes them: `Get-Stat ... | Export-Csv`, a row per entity, metric and instant.

Of a guest `cpu.usage.average` is the mean over its virtual processors, while `cpu` counts them everywhere else (1.5
of two): it is imported as `cpu_share`. `cpu` is of `cpu.used.summation` (ms of the interval, all together), else the
sum of its processors' own rows where the row of all confirms that they are all. Of a host it is `cpu`, as of any
host's processors. `cpu.ready.summation` is in ms of the interval, whose length is in `IntervalSecs`. Rates are in
KBps of 1024 bytes. Metrics that are not listed here are left out.

PowerShell cares for no letter's case: headings are as somebody's `Select-Object` had them (`MetricID`,
`TimeStamp`), and older versions say `virtualdisk.read.average`. `Export-Csv -Delimiter` and `-UseCulture` may
separate by `;` or a tab. Where `;` separates, a comma may begin the decimals: it does where one of the file's
numbers cannot be read otherwise.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from virtlab.imported.instants import Instants, calendar_ns, day_comes_first
from virtlab.imported.output import Point, ToolOutput, UnreadableError, number
from virtlab.units.factors import NS_PER_MS

KB = 1024.0
COLUMNS = ("MetricId", "Timestamp", "Value", "Entity")
NAMES = {name.lower(): name for name in (*COLUMNS, "EntityId", "IntervalSecs", "Instance")}
SEPARATORS = (",", ";", "\t")
USAGE, USED, READY = "cpu.usage.average", "cpu.used.summation", "cpu.ready.summation"
_METRICS: dict[str, tuple[str, float]] = {
    # by name in small letters
    USAGE: ("cpu", 0.01),
    USED: ("cpu", 1e-3),  # per second of the interval
    READY: ("run_queue_delay", NS_PER_MS),  # per second of the interval
    "mem.consumed.average": ("memory_used", KB),
    "net.received.average": ("network_received", KB * 8),
    "net.transmitted.average": ("network_sent", KB * 8),
    "disk.read.average": ("disk_read", KB),
    "disk.write.average": ("disk_written", KB),
    "virtualdisk.read.average": ("disk_read", KB),
    "virtualdisk.write.average": ("disk_written", KB),
    "virtualdisk.totalreadlatency.average": ("disk_read_time", NS_PER_MS),
    "virtualdisk.totalwritelatency.average": ("disk_write_time", NS_PER_MS),
}
_GUEST, _HOST = "VirtualMachine", "HostSystem"
_HOSTS_PORT = re.compile(r"^(?:vmnic|vmk)\d+$")
_DECIMAL_COMMA = re.compile(r"^-?\d+,\d+$")
_THOUSANDS = re.compile(r"^-?\d{1,3}(?:,\d{3})+$")
_CURE = (
    "export it again without -UseCulture, or in an English session: [cultureinfo]::CurrentCulture = 'en-US'"
)
# Two means of the same interval, each rounded: points of a percent, and of the value.
_ROUNDED, _ROUNDED_SHARE = 0.5, 0.02


@dataclass(frozen=True, slots=True)
class _Row:
    """One value of a metric that is known here; `kind` is the first word of its EntityId."""

    t_ns: int
    line: int
    metric: str
    value: float
    kind: str
    name: str
    instance: str


def mine(text: str) -> bool:
    """Whether it looks like Get-Stat's."""
    head = "\n".join(text.splitlines()[:2]).lower()
    return all(name.lower() in head for name in COLUMNS)


def read(text: str) -> ToolOutput:
    """A point per row of a metric that is known here, and per instant the sum of a guest's processors."""
    output = ToolOutput("vcenter")
    known = list(_rows(output, text))
    for row in known:
        if row.kind == _GUEST and row.metric in {USAGE, USED}:
            continue
        output.points.append(Point(row.t_ns, _entity(row), _METRICS[row.metric][0], row.value))
    _guests(output, [row for row in known if row.kind == _GUEST and row.metric in {USAGE, USED}])
    output.points.sort(key=lambda point: point.t_ns)
    output.hosts = tuple(sorted({row.name for row in known if row.kind == _HOST}))
    if not output.points:
        raise UnreadableError("has no row of a metric that is known here")
    return output


def _cells(text: str) -> tuple[str, list[tuple[int, Mapping[str, str]]]]:
    """The separator, and the rows with their lines."""
    lines = text.splitlines(keepends=True)
    skipped = 1 if lines and lines[0].startswith("#TYPE") else 0
    head = lines[skipped] if len(lines) > skipped else ""
    separator = max(SEPARATORS, key=head.count)
    rows = csv.DictReader(io.StringIO("".join(lines[skipped:])), strict=True, delimiter=separator)
    found: list[tuple[int, Mapping[str, str]]] = []
    try:
        rows.fieldnames = [NAMES.get(name.lower(), name) for name in rows.fieldnames or []]
        lacking = [name for name in COLUMNS if name not in (rows.fieldnames or [])]
        if lacking:
            raise UnreadableError(f"lacks the columns {', '.join(lacking)}", skipped + 1)
        for row in rows:
            line = rows.line_num + skipped
            if None in row or None in row.values():
                raise UnreadableError("has more or less values than headings", line)
            found.append((line, row))
    except csv.Error as error:
        raise UnreadableError(f"is not a CSV ({error})", rows.line_num + skipped) from None
    return separator, found


def _rows(output: ToolOutput, text: str) -> Iterator[_Row]:
    """Rows of metrics that are known here, the oldest first: Get-Stat writes the newest first."""
    separator, cells = _cells(text)
    comma = _comma_begins_decimals(separator, cells)
    cells = [(line, row) for line, row in cells if row["MetricId"].lower() in _METRICS]
    day_first = day_comes_first(row["Timestamp"] for _, row in cells)
    kinds = _kinds(output, cells)
    at: dict[int, int] = {}
    for line, row in cells:
        found = calendar_ns(row["Timestamp"], day_first=day_first)
        if found is None:
            raise UnreadableError(f"'{row['Timestamp'][:40]}' is not an instant with its day", line)
        at[line] = found
    instants = Instants(day_first=day_first)
    for line, row in sorted(cells, key=lambda each: at[each[0]]):
        kind = kinds[row["Entity"], row.get("EntityId")]
        t_ns = instants.of(row["Timestamp"], line)
        metric = row["MetricId"].lower()
        # A host's time used is beside its usage: the same processors in another way.
        if kind == _GUEST or (kind == _HOST and metric != USED):
            value = number(row["Value"].replace(",", ".") if comma else row["Value"], line, "Value")
            if metric in {USED, READY}:
                value /= _seconds(row, line)
            instance = (row.get("Instance") or "").strip()
            yield _Row(t_ns, line, metric, value * _METRICS[metric][1], kind, row["Entity"], instance)


def _seconds(row: Mapping[str, str], line: int) -> float:
    """How long the interval was that a sum of ms is of."""
    if not row.get("IntervalSecs"):
        raise UnreadableError(f"{row['MetricId'][:40]} has no IntervalSecs", line, "export that column too")
    seconds = number(row["IntervalSecs"], line, "IntervalSecs")
    if seconds == 0:
        raise UnreadableError("an interval of no length", line)
    return seconds


def _comma_begins_decimals(separator: str, rows: Sequence[tuple[int, Mapping[str, str]]]) -> bool:
    """Whether it does; UnreadableError where the output leaves that open. Get-Stat does not group thousands."""
    commas = [(line, row["Value"].strip()) for line, row in rows if "," in row["Value"]]
    if not commas:
        return False
    line, value = commas[0]
    if separator != ";":
        raise UnreadableError(f"Value '{value[:40]}' has a comma, where '.' begins the decimals", line, _CURE)
    if any("." in row["Value"] for _, row in rows):
        raise UnreadableError(f"Value '{value[:40]}' has a comma, and another has a point", line, _CURE)
    decimal = [one for _, one in commas if _DECIMAL_COMMA.match(one)]
    if len(decimal) < len(commas) or all(_THOUSANDS.match(one) for one in decimal):
        raise UnreadableError(f"what the comma of Value '{value[:40]}' is cannot be told", line, _CURE)
    return True


def _kinds(
    output: ToolOutput, rows: Sequence[tuple[int, Mapping[str, str]]]
) -> dict[tuple[str, str | None], str]:
    """What each entity is, by its EntityId; without one, a host where it has a host's port, else a guest."""
    kinds: dict[tuple[str, str | None], str] = {}
    for _, row in rows:
        own = row["Entity"], row.get("EntityId")
        if own[1]:
            kinds[own] = own[1].partition("-")[0]
        elif _HOSTS_PORT.match((row.get("Instance") or "").strip()):
            kinds[own] = _HOST
        else:
            kinds.setdefault(own, _GUEST)
    unsaid = sorted({name for (name, said), kind in kinds.items() if not said and kind == _GUEST})
    if unsaid:
        output.notes.append(f"there is no EntityId: {_some(unsaid)} are taken for guests")
    left = sorted({name for (name, _), kind in kinds.items() if kind not in {_GUEST, _HOST}})
    if left:
        output.notes.append(f"neither guest nor host, and left out: {_some(left)}")
    return kinds


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _entity(row: _Row) -> str:
    """`guests.NAME`, `guests.NAME.vcpu0`, `hosts.NAME.cpu`, `hosts.NAME.cpu0`, `hosts.NAME.vmnic0`, as everywhere
    here.
    """
    instance = row.instance
    if row.metric in {USAGE, USED, READY} and instance.isdecimal():
        instance = f"vcpu{instance}" if row.kind == _GUEST else f"cpu{instance}"
    elif row.kind == _HOST and row.metric == USAGE and not instance:
        instance = "cpu"
    base = f"guests.{row.name}" if row.kind == _GUEST else f"hosts.{row.name}"
    return f"{base}.{instance}" if instance else base


def _guests(output: ToolOutput, rows: Sequence[_Row]) -> None:
    """`cpu` of guests and of their processors, and `cpu_share`."""
    used = {(row.name, row.instance) for row in rows if row.metric == USED}
    shares: dict[str, dict[int, float]] = defaultdict(dict)
    parts: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row.metric == USAGE and not row.instance:
            output.points.append(Point(row.t_ns, _entity(row), "cpu_share", row.value))
            shares[row.name][row.t_ns] = row.value
            continue
        if row.metric == USAGE:
            parts[row.name][row.t_ns][row.instance] = row.value
        if row.metric == USED or (row.name, row.instance) not in used:
            output.points.append(Point(row.t_ns, _entity(row), "cpu", row.value))
    lacking = []
    for name in dict.fromkeys(row.name for row in rows):
        if (name, "") in used:
            continue
        if _whole(shares[name], parts[name]):
            output.points += [
                Point(t_ns, f"guests.{name}", "cpu", sum(found.values()))
                for t_ns, found in parts[name].items()
            ]
        else:
            lacking.append(name)
    if lacking:
        output.notes.append(
            f"no 'cpu' of {_some(lacking)} as a whole, only 'cpu_share' or single processors: "
            f"export {USED}, or {USAGE} of all instances"
        )


def _whole(shares: Mapping[int, float], parts: Mapping[int, Mapping[str, float]]) -> bool:
    """Whether at every instant there are rows of the same processors 0 to n - 1, whose mean is the row of all."""
    if not parts or set(shares) != set(parts):
        return False
    names = {str(number_) for number_ in range(len(next(iter(parts.values()))))}
    return all(
        set(found) == names
        and abs(sum(found.values()) / len(names) - shares[t_ns]) * 100
        <= _ROUNDED + _ROUNDED_SHARE * shares[t_ns] * 100
        for t_ns, found in parts.items()
    )
