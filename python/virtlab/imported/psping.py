"""PsPing: of Sysinternals; its ping (ICMP and TCP), latency and bandwidth tests.

Pings are printed one by one; of a latency or bandwidth test only a summary is. The warm-up's replies are not counted,
as in PsPing's own statistics. Rates are in bytes: what it writes `MB/s` and `KB/s` are 2**20 and 2**10 bytes a second
(its `Kb/s` too, which is no kilobit).
"""

from __future__ import annotations

import re
import statistics

from virtlab.imported.output import ToolOutput, UnreadableError, nanoseconds, number, whole
from virtlab.units.factors import NS_PER_MS

_ONE = re.compile(
    r"^(?P<kind>Reply from|Connecting to) \S+?(?P<warm> \(warmup\))?:?(?: from \S+)?: (?P<ms>[\d.]+) ?ms"
)
_COUNTS = re.compile(r"Sent = (?P<sent>\d+), Received = (?P<received>\d+), Lost = (?P<lost>\d+)")
_TIMES = re.compile(r"Minimum = (?P<min>[\d.]+)ms, Maximum = (?P<max>[\d.]+)ms, Average = (?P<mean>[\d.]+)ms")
_RATES = re.compile(
    r"Minimum = (?P<min>[\d.]+) (?P<u1>\S+), Maximum = (?P<max>[\d.]+) (?P<u2>\S+), Average = (?P<mean>[\d.]+) (?P<u3>\S+)"
)
_PROTOCOL = re.compile(r"\b(TCP|UDP)\b")  # of ICMP it says nothing
_UNITS = {"B/s": 1, "KB/s": 2**10, "MB/s": 2**20, "GB/s": 2**30, "Kb/s": 2**10, "Mb/s": 2**20, "Gb/s": 2**30}


def mine(text: str) -> bool:
    """Whether it looks like PsPing's."""
    return "PsPing" in text[:2000]


def read(text: str) -> ToolOutput:
    """Requests one by one where they are printed, else the summary."""
    output = ToolOutput("psping", ("psping",), facts={"protocol": "icmp"})
    rows: list[dict[str, int]] = []
    times: tuple[float, float, float] | None = None
    rates: tuple[float, float, float] | None = None
    counts: tuple[int, int] | None = None
    for line, raw in enumerate(text.splitlines(), start=1):
        words = raw.strip()
        if words.startswith("PsPing v") and (times or rates):
            raise UnreadableError("holds several tests; keep one of them", line)
        if named := _PROTOCOL.search(words):
            output.facts["protocol"] = named[1].lower()
        if one := _ONE.match(words):
            output.facts.setdefault("single", one["kind"])
            if "warmup" in words:
                continue
            spent_ns = nanoseconds(number(one["ms"], line, "time"), NS_PER_MS, line, "time")
            at = len(rows) * 1_000_000_000
            rows.append({"seq": len(rows), "sent_ns": at, "finished_ns": at + spent_ns, "payload_bytes": 0})
        elif found := _COUNTS.search(words):
            counts = (
                whole(found["sent"], line, "number sent"),
                whole(found["received"], line, "number received"),
            )
            if counts[1] > counts[0]:
                raise UnreadableError(f"{counts[1]} answers to {counts[0]} requests", line)
        elif found := _TIMES.search(words):
            times = _three(found, line, 1.0, NS_PER_MS)
        elif found := _RATES.search(words):
            if unknown := {found["u1"], found["u2"], found["u3"]} - set(_UNITS):
                raise UnreadableError(f"'{min(unknown)[:20]}' is not a unit of PsPing's rates", line)
            rates = tuple(
                number(found[key], line, "rate") * _UNITS[found[unit]]
                for key, unit in (("min", "u1"), ("max", "u2"), ("mean", "u3"))
            )  # type: ignore[assignment]
    if rates is None and times is None:
        raise UnreadableError("ends before PsPing's statistics")
    output.clock = "the output has no instants: requests are in their order, a second apart"
    _summed_up(output, rows, times, rates, counts)
    return output


def _three(match: re.Match[str], line: int, factor: float, unit: float) -> tuple[float, float, float]:
    low, high, mean = (number(match[key], line, "time") * factor * unit for key in ("min", "max", "mean"))
    if not low <= mean * 1.01 + unit / 100 or not mean <= high * 1.01 + unit / 100:
        raise UnreadableError("its average lies outside its minimum and maximum", line)
    return low, high, mean


def _summed_up(
    output: ToolOutput,
    rows: list[dict[str, int]],
    times: tuple[float, float, float] | None,
    rates: tuple[float, float, float] | None,
    counts: tuple[int, int] | None,
) -> None:
    protocol = output.facts["protocol"]
    single = output.facts.pop("single", "")
    if counts is not None and counts[0]:
        output.add("loss", "ratio", 1 - counts[1] / counts[0], counts[0])
    samples = counts[1] if counts is not None else 0
    if rates is not None:
        for statistic, value in zip(("min", "max", "mean"), rates, strict=True):
            output.add("bandwidth", statistic, value, samples)
        return
    assert times is not None
    if counts is not None and not counts[1]:
        return  # it prints 0.00ms for the times of no answer
    # A TCP ping is the time of connect(2); an ICMP ping and a latency test are round trips.
    metric = "connect_time" if single.startswith("Connecting") or (single and protocol == "tcp") else "rtt"
    spent = [row["finished_ns"] - row["sent_ns"] for row in rows]
    if spent and samples and len(spent) == samples:
        output.add(metric, "min", min(spent), samples)
        output.add(metric, "max", max(spent), samples)
        output.add(metric, "mean", statistics.fmean(spent), samples)
        output.add(metric, "median", statistics.median(spent), samples)
        output.add(metric, "mdev", statistics.pstdev(spent), samples)
        return
    for statistic, value in zip(("min", "max", "mean"), times, strict=True):
        output.add(metric, statistic, value, samples)
