"""sar and iostat of sysstat: text, and the JSON of `sadf -j` and `iostat -o JSON`.

Busy is what is neither idle nor waiting for disks nor stolen, as our own `cpu`. iostat's first report is of the
time since the machine booted, and is left out. Sizes are in kB of 1024 bytes. Numbers are as with LC_ALL=C: a
decimal comma is refused.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from virtlab.imported.instants import Instants, day_comes_first
from virtlab.imported.output import POINT_CURE, Point, ToolOutput, UnreadableError, cell, number
from virtlab.units.factors import NS_PER_MS

_HEAD = re.compile(r"^Linux \S+ \(.*\)\s+\S+\s+\S+\s+\(\d+ CPU\)", re.MULTILINE)
_AT = re.compile(r"^(\d{2}:\d{2}:\d{2}(?: [AP]M)?)\s+(.*)$")
_OF_SADF = ("cpu-load", "net-dev", "memory")
_WHOLE_DISK = re.compile(
    r"^host\.(?:(?:sd|hd|vd|xvd|dasd)[a-z]+|nvme\d+n\d+|mmcblk\d+|(?:cciss[!/])?c\d+d\d+)$"
)
KB = 1024.0


def mine_sar(text: str) -> bool:
    """Whether it looks like sar's text, or `sadf -j`."""
    if text.lstrip().startswith("{"):
        return '"sysstat"' in text[:200] and any(f'"{key}"' in text for key in _OF_SADF)
    return (
        bool(_HEAD.search(text[:500]))
        and bool(re.search(r"^\d{2}:\d{2}:\d{2}", text, re.MULTILINE))
        and not mine_iostat(text)
    )


def mine_iostat(text: str) -> bool:
    """Whether it looks like iostat's."""
    if text.lstrip().startswith("{"):
        return '"sysstat"' in text[:200] and ('"avg-cpu"' in text or '"disk"' in text)
    return bool(_HEAD.search(text[:500])) and bool(re.search(r"^(avg-cpu:|Device)", text, re.MULTILINE))


def read_sar(text: str) -> ToolOutput:
    """CPU, memory and network interfaces over time."""
    output = ToolOutput("sar")
    if text.lstrip().startswith("{"):
        _json(output, text, lambda report: _sadf(output, report), skip_first=False)
    else:
        _sar_text(output, text)
    return _some(output)


def read_iostat(text: str) -> ToolOutput:
    """CPU, disks, and whole disks together over time."""
    output = ToolOutput("iostat")
    if text.lstrip().startswith("{"):
        _json(output, text, lambda report: _iostat_report(output, report), skip_first=True)
    else:
        _iostat_text(output, text)
    _sum_disks(output)
    return _some(output)


def _sum_disks(output: ToolOutput) -> None:
    """All disks together, as `host.disks`: what a volume or a partition wrote, its disk wrote, too."""
    sums: dict[tuple[int, str], float] = defaultdict(float)
    left = set()
    for point in output.points:
        if point.metric in {"disk_read", "disk_written"}:
            if _WHOLE_DISK.match(point.entity):
                sums[point.t_ns, point.metric] += point.value
            else:
                left.add(point.entity.removeprefix("host."))
    output.points += [Point(t_ns, "host.disks", metric, value) for (t_ns, metric), value in sums.items()]
    if sums and left:
        output.notes.append(f"not part of all disks together (host.disks): {', '.join(sorted(left)[:5])}")


def _some(output: ToolOutput) -> ToolOutput:
    for own in ("_instants", "_order"):
        output.facts.pop(own, None)
    if not output.points:
        raise UnreadableError(f"holds no report of {output.tool} that a value could be taken of")
    return output


def _sar_text(output: ToolOutput, text: str) -> None:
    instants = Instants()
    head: list[str] = []
    for line, words in enumerate(text.splitlines(), start=1):
        found = _AT.match(words)
        if found is None:
            if (
                words.strip()
                and not words.startswith(("Linux", "Average:", "Summary:"))
                and "LINUX RESTART" not in words
            ):
                raise UnreadableError("is not a row of sar", line, POINT_CURE)
            continue
        cells = found[2].split()
        if not cells:
            raise UnreadableError("is not a row of sar", line)
        if not re.match(r"^-?[\d.,]+$", cells[-1]):
            head = cells
            continue
        if len(cells) != len(head):
            raise UnreadableError(f"has {len(cells)} values under {len(head)} headings", line)
        _sar_row(output, instants.of(found[1], line), dict(zip(head, cells, strict=True)), line)


def _sar_row(output: ToolOutput, t_ns: int, row: Mapping[str, str], line: int) -> None:
    if "CPU" in row and "%idle" in row:
        _cpu(
            output,
            t_ns,
            _processor(row["CPU"]),
            {key.lstrip("%"): number(row[key], line, key) for key in row if key.startswith("%")},
        )
    elif "IFACE" in row and "rxkB/s" in row:
        for key, metric in (("rxkB/s", "network_received"), ("txkB/s", "network_sent")):
            output.points.append(Point(t_ns, f"host.{row['IFACE']}", metric, cell(row, key, line) * KB * 8))
    elif "kbmemused" in row:
        used = cell(row, "kbmemused", line) * KB
        output.points.append(Point(t_ns, "host", "memory_used", used))


def _processor(name: str) -> str:
    return "host.cpu" if name in {"all", "-1"} else f"host.cpu{name}"


def _cpu(output: ToolOutput, t_ns: int, entity: str, shares: Mapping[str, float]) -> None:
    idle = shares.get("idle", 0.0) + shares.get("iowait", 0.0) + shares.get("steal", 0.0)
    if not -1 <= 100 - idle <= 101:
        raise UnreadableError(f"a processor was idle for {idle:g} % of the time")
    output.points.append(Point(t_ns, entity, "cpu", min(max(100 - idle, 0.0), 100.0) / 100))
    if "steal" in shares:
        output.points.append(Point(t_ns, entity, "steal", shares["steal"] / 100))


def _iostat_text(output: ToolOutput, text: str) -> None:
    instants, reports = Instants(day_first=day_comes_first(text.splitlines())), 0
    head: list[str] = []
    stamp: str | None = None
    t_ns = 0
    devices_opened = cpu_opened = False
    output.clock = "the output has no instants: reports are in their order, a second apart"
    for line, words in enumerate(text.splitlines(), start=1):
        cells = words.split()
        if not cells or words.startswith("Linux"):
            continue
        begins = cells[0] == "avg-cpu:" or (
            cells[0].rstrip(":") == "Device" and (devices_opened or not cpu_opened)
        )
        if begins:
            reports += 1
            cpu_opened, devices_opened = cells[0] == "avg-cpu:", False
            t_ns = instants.of(stamp, line) if stamp else max(reports - 2, 0) * 1_000_000_000
            if stamp and reports <= 2:
                output.clock = "instants count from the second report"
        if cells[0] == "avg-cpu:":
            head = cells[1:]
        elif cells[0].rstrip(":") == "Device":
            head, devices_opened = cells, True
        elif head and head[0].startswith("%"):
            if len(cells) != len(head):
                raise UnreadableError(f"has {len(cells)} values under {len(head)} headings", line)
            if reports > 1:
                shares = {
                    key.lstrip("%"): number(cell, line, key) for key, cell in zip(head, cells, strict=True)
                }
                _cpu(output, t_ns, "host.cpu", shares)
            head = []
        elif devices_opened and len(cells) == len(head):
            if reports > 1:
                row = dict(
                    zip(
                        head[1:],
                        (number(cell, line, key) for key, cell in zip(head[1:], cells[1:], strict=True)),
                        strict=True,
                    )
                )
                _disk(output, t_ns, cells[0], row)
        elif reports and devices_opened and re.match(r"^[A-Za-z]", words) and len(cells) > 2:
            raise UnreadableError(f"has {len(cells)} values under {len(head)} headings", line)
        else:
            stamp = words.strip()
            devices_opened = False


MB, SECTOR = KB * KB, 512.0  # with -m; of old kernels and with POSIXLY_CORRECT
_DISK: dict[str, tuple[str, float]] = {
    "rkB/s": ("disk_read", KB), "wkB/s": ("disk_written", KB), "kB_read/s": ("disk_read", KB),
    "kB_wrtn/s": ("disk_written", KB), "rMB/s": ("disk_read", MB), "wMB/s": ("disk_written", MB),
    "MB_read/s": ("disk_read", MB), "MB_wrtn/s": ("disk_written", MB), "rsec/s": ("disk_read", SECTOR),
    "wsec/s": ("disk_written", SECTOR), "Blk_read/s": ("disk_read", SECTOR), "Blk_wrtn/s": ("disk_written", SECTOR),
    "r_await": ("disk_read_time", NS_PER_MS), "w_await": ("disk_write_time", NS_PER_MS),
    "%util": ("disk_busy", 0.01), "util": ("disk_busy", 0.01),
}  # fmt: skip


def _disk(output: ToolOutput, t_ns: int, device: str, row: Mapping[str, float]) -> None:
    requests = {"disk_read_time": row.get("r/s", 1.0), "disk_write_time": row.get("w/s", 1.0)}
    for key, (metric, factor) in _DISK.items():
        # A time over no requests is printed as 0, and is no value.
        if key in row and requests.get(metric, 1.0) > 0:
            output.points.append(Point(t_ns, f"host.{device}", metric, row[key] * factor))


def _json(
    output: ToolOutput, text: str, keep: Callable[[Mapping[str, Any]], None], *, skip_first: bool
) -> None:
    try:
        reports = json.loads(text)["sysstat"]["hosts"][0]["statistics"]
        stamps = [one["timestamp"] for one in reports if isinstance(one.get("timestamp"), str)]
        output.facts["_instants"] = Instants(day_first=day_comes_first(stamps))
        for report in reports[1:] if skip_first else reports:
            keep(report)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not a JSON ({error.msg})", error.lineno, POINT_CURE) from None
    except UnreadableError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise UnreadableError(f"lacks {error} of {output.tool}'s report") from None


def _instant(output: ToolOutput, text: str) -> int:
    instants: Instants = output.facts["_instants"]
    return instants.of(text, 0)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableError(f"{name} '{str(value)[:40]}' is not a number")
    return number(repr(value), 0, name)


def _sadf(output: ToolOutput, report: Mapping[str, Any]) -> None:
    stamp = report["timestamp"]
    t_ns = _instant(output, f"{stamp['date']} {stamp['time']}")
    for row in report.get("cpu-load", []):
        shares = {key: _number(value, key) for key, value in row.items() if key != "cpu"}
        _cpu(output, t_ns, _processor(str(row["cpu"])), shares)
    for row in report.get("network", {}).get("net-dev", []):
        for key, metric in (("rxkB", "network_received"), ("txkB", "network_sent")):
            output.points.append(Point(t_ns, f"host.{row['iface']}", metric, _number(row[key], key) * KB * 8))
    if "memory" in report and "memused" in report["memory"]:
        used = _number(report["memory"]["memused"], "memused") * KB
        output.points.append(Point(t_ns, "host", "memory_used", used))


def _iostat_report(output: ToolOutput, report: Mapping[str, Any]) -> None:
    order = output.facts.setdefault("_order", [])
    order.append(None)
    t_ns = (
        _instant(output, report["timestamp"]) if "timestamp" in report else (len(order) - 1) * 1_000_000_000
    )
    if "avg-cpu" in report:
        _cpu(output, t_ns, "host.cpu", {key: _number(value, key) for key, value in report["avg-cpu"].items()})
    for row in report.get("disk", []):
        values = {key: _number(value, key) for key, value in row.items() if key != "disk_device"}
        _disk(output, t_ns, str(row["disk_device"]), values)
