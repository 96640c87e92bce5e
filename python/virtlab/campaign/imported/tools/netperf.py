"""netperf: tables of its classic tests, and `KEY=VALUE` (`-k`) or CSV (`-o`) of its omni tests.

Source: netperf's manual, "Using Netperf to Measure Bulk Data Transfer", "... Request/Response", and omni_output_list.txt.
The inverse of a transaction rate is a mean, and is not given as more.
"""

from __future__ import annotations

import re

from virtlab.campaign.imported.told import Told, UnreadableError, number, whole

_NUMBERS = re.compile(r"^\s*[\d.]+(\s+-?[\d.]+)*\s*$")
_TEST = re.compile(
    r"(?P<what>(?:TCP|UDP) (?:STREAM|MAERTS|SENDFILE|UNIDIRECTIONAL SEND|REQUEST/RESPONSE|Connect/Request/Response)) TEST",
    re.IGNORECASE,
)
_PAIR = re.compile(r"^(?P<key>[A-Z][A-Z0-9_]+)=(?P<value>.*)$")
# What the heads of an omni test's CSV are called with `-k`.
_CSV = {
    "Throughput": "THROUGHPUT", "Throughput Units": "THROUGHPUT_UNITS", "Protocol": "PROTOCOL",
    "Minimum Latency Microseconds": "MIN_LATENCY", "Mean Latency Microseconds": "MEAN_LATENCY",
    "Maximum Latency Microseconds": "MAX_LATENCY", "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY", "99th Percentile Latency Microseconds": "P99_LATENCY",
}  # fmt: skip
_UNITS = {"10^3bits/s": 10**3, "10^6bits/s": 10**6, "10^9bits/s": 10**9, "Trans/s": 1}


def mine(text: str) -> bool:
    """Whether it looks like netperf's."""
    return bool(_TEST.search(text[:4000])) or bool(re.search(r"^THROUGHPUT(_UNITS)?=", text, re.MULTILINE))


def read(text: str) -> Told:
    """A table, or pairs."""
    if re.search(r"^THROUGHPUT(_UNITS)?=", text, re.MULTILINE):
        return _pairs(text)
    if (head := _csv_head(text)) is not None:
        return _pairs(text, _csv_values(text, head))
    found = _TEST.search(text)
    if found is None:
        raise UnreadableError("does not say which test of netperf it is")
    what = found["what"].upper()
    rows = [
        (line, words.split())
        for line, words in enumerate(text.splitlines(), start=1)
        if _NUMBERS.match(words)
    ]
    if not rows:
        raise UnreadableError("ends before netperf's result")
    if "RESPONSE" in what:
        return _transactions(what, rows)
    return _datagrams(text, rows) if what.startswith("UDP") else _bulk(text, rows)


def _unit(text: str) -> int:
    """Bits of netperf's unit of throughput, from the head of its table."""
    for name, bits in (
        ("10^9bits", 10**9),
        ("10^6bits", 10**6),
        ("10^3bits", 10**3),
        ("KBytes", 8 * 2**10),
        ("MBytes", 8 * 2**20),
    ):
        if name in text:
            return bits
    raise UnreadableError("does not name the unit of its throughput")


def _bulk(text: str, rows: list[tuple[int, list[str]]]) -> Told:
    line, cells = rows[0]
    if len(cells) < 5:
        raise UnreadableError("a row of a stream has five numbers", line)
    told = Told("netperf", ("tcp_stream",))
    told.facts |= {
        "receive_buffer_bytes": whole(cells[0], line, "socket size"),
        "send_buffer_bytes": whole(cells[1], line, "socket size"),
        "message_bytes": whole(cells[2], line, "message size"), "duration_s": number(cells[3], line, "time"),
    }  # fmt: skip
    told.add("goodput", "mean", number(cells[4], line, "throughput") * _unit(text))
    return told


def _datagrams(text: str, rows: list[tuple[int, list[str]]]) -> Told:
    if len(rows) < 2 or len(rows[0][1]) < 6 or len(rows[1][1]) < 4:
        raise UnreadableError("datagrams have two rows, of six and four numbers", rows[0][0])
    (first, sent), (second, received) = rows[:2]
    bits = _unit(text)
    told = Told("netperf", ("udp_stream",))
    told.facts |= {
        "payload_bytes": whole(sent[1], first, "message size"),
        "duration_s": number(sent[2], first, "time"),
    }
    tried, came = whole(sent[3], first, "messages sent"), whole(received[2], second, "messages received")
    if came > tried:
        raise UnreadableError(f"{came} of {tried} messages came", second)
    goodput = number(received[3], second, "throughput") * bits
    told.add("goodput", "mean", goodput, came)
    told.add("achieved_load", "mean", number(sent[5], first, "throughput") * bits, tried)
    if tried:
        told.add("loss", "ratio", 1 - came / tried, tried)
        if came:
            told.add("lost_rate", "mean", goodput * (tried - came) / came, tried)
    return told


def _transactions(what: str, rows: list[tuple[int, list[str]]]) -> Told:
    line, cells = rows[0]
    if len(cells) < 6:
        raise UnreadableError("a row of request and response has six numbers", line)
    if not what.startswith("TCP REQUEST"):
        raise UnreadableError(f"no workload here is {what.lower()}", line)
    told = Told("netperf", ("tcp_rr",))
    told.facts |= {
        "request_bytes": whole(cells[2], line, "request size"), "response_bytes": whole(cells[3], line, "response size"),
        "duration_s": number(cells[4], line, "time"),
    }  # fmt: skip
    rate = number(cells[5], line, "transaction rate")
    told.add("transaction_rate", "mean", rate)
    if rate:
        told.add("transaction_time", "mean", 1e9 / rate)
    return told


def _csv_head(text: str) -> int | None:
    """The line of names of an omni test's CSV; None when there is none."""
    lines = enumerate(text.splitlines()[:200], start=1)
    return next(
        (line for line, words in lines if "Throughput" in words and "Throughput Units" in words.split(",")),
        None,
    )


def _csv_values(text: str, head: int) -> dict[str, tuple[int, str]]:
    """The values below the names, by the keys that `-k` has for them."""
    lines = text.splitlines()
    names = [name.strip() for name in lines[head - 1].split(",")]
    if len(lines) <= head or not lines[head].strip():
        raise UnreadableError("ends before netperf's result", head)
    cells = [cell.strip() for cell in lines[head].split(",")]
    if len(cells) != len(names):
        raise UnreadableError(f"has {len(cells)} values under {len(names)} names", head + 1)
    return {_CSV[name]: (head + 1, cell) for name, cell in zip(names, cells, strict=True) if name in _CSV}


def _pairs(text: str, values: dict[str, tuple[int, str]] | None = None) -> Told:
    values = dict(values or {})
    for line, words in enumerate(text.splitlines(), start=1):
        if pair := _PAIR.match(words.strip()):
            values[pair["key"]] = line, pair["value"].strip()
    if (found := _TEST.search(text)) is not None and found["what"].upper().startswith("UDP"):
        values.setdefault("PROTOCOL", (0, "UDP"))
    if "THROUGHPUT" not in values or "THROUGHPUT_UNITS" not in values:
        raise UnreadableError("lacks THROUGHPUT or THROUGHPUT_UNITS")
    line, units = values["THROUGHPUT_UNITS"]
    if units not in _UNITS:
        raise UnreadableError(f"'{units[:30]}' is no unit of netperf's throughput", line)
    protocol = values.get("PROTOCOL", (0, "TCP"))[1]
    rate = number(values["THROUGHPUT"][1], values["THROUGHPUT"][0], "throughput")
    if units == "Trans/s":
        if protocol != "TCP":
            raise UnreadableError(f"no workload here is request and response over {protocol[:20]}", line)
        told = Told("netperf", ("tcp_rr",))
        told.add("transaction_rate", "mean", rate)
        _latencies(told, values)
        return told
    told = Told("netperf", ("udp_stream",) if protocol == "UDP" else ("tcp_stream",))
    told.add("goodput", "mean", rate * _UNITS[units])
    return told


def _latencies(told: Told, values: dict[str, tuple[int, str]]) -> None:
    """netperf's own statistics of transactions, in microseconds."""
    names = {
        "MIN_LATENCY": "min", "MEAN_LATENCY": "mean", "MAX_LATENCY": "max", "P50_LATENCY": "median", "P90_LATENCY": "p90",
        "P99_LATENCY": "p99",
    }  # fmt: skip
    from virtlab.metrics import METRICS

    for key, statistic in names.items():
        if key in values and statistic in METRICS["transaction_time"].statistics:
            line, text = values[key]
            told.add("transaction_time", statistic, number(text, line, key) * 1e3)
