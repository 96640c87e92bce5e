"""netperf: tables of its classic tests, and `KEY=VALUE` (`-k`) or CSV (`-o`) of its omni tests.

Source: netperf's manual, "Using Netperf to Measure Bulk Data Transfer", "... Request/Response", and
omni_output_list.txt. The inverse of a transaction rate is a mean, and is not given as more; with a burst, that many
more are on their way at once.

`THROUGHPUT` of a stream is what its receiver counted, over UDP too (netperf's nettest_omni.c, where it sums up):
goodput. What was sent, and so loss, is in other keys, which an omni test prints on request. Without a control
connection (`-N`) the receiver reports nothing, and netperf takes all that was sent for received: refused where it
can be seen.
"""

from __future__ import annotations

import re

from virtlab.catalogue.workloads.tcp_rr import TCP_RR
from virtlab.catalogue.workloads.tcp_stream import TCP_STREAM
from virtlab.catalogue.workloads.udp_stream import UDP_STREAM
from virtlab.imported.output import ToolOutput, UnreadableError, number, whole
from virtlab.metrics import METRICS

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
    "Direction": "DIRECTION", "Local Send Throughput": "LOCAL_SEND_THROUGHPUT", "Local Send Calls": "LOCAL_SEND_CALLS",
    "Remote Recv Calls": "REMOTE_RECV_CALLS", "Remote Send Throughput": "REMOTE_SEND_THROUGHPUT",
    "Remote Send Calls": "REMOTE_SEND_CALLS", "Local Recv Calls": "LOCAL_RECV_CALLS",
    "90th Percentile Latency Microseconds": "P90_LATENCY", "99th Percentile Latency Microseconds": "P99_LATENCY",
}  # fmt: skip
_UNITS = {
    "10^0bits/s": 1, "10^3bits/s": 10**3, "10^6bits/s": 10**6, "10^9bits/s": 10**9, "Bytes/s": 8,
    "KBytes/s": 8 * 2**10, "MBytes/s": 8 * 2**20, "GBytes/s": 8 * 2**30,
}  # fmt: skip
_UNIT = re.compile(r"(?:10\^[0369]bits|\b[KMG]?Bytes)/s")
_OMNI = re.compile(r"^OMNI (?P<direction>\S+) TEST", re.MULTILINE)
_BURST = re.compile(r" : first burst (?P<more>\d+)")
_SENDER_KEYS = ("LOCAL_SEND_THROUGHPUT", "LOCAL_SEND_CALLS", "REMOTE_RECV_CALLS")
_RECEIVER_KEYS = ("REMOTE_SEND_THROUGHPUT", "REMOTE_SEND_CALLS", "LOCAL_RECV_CALLS")
_NO_CONTROL = "was run without a control connection (-N): it lacks what was received"
_PROTOCOL_CURE = "add PROTOCOL to -k or -o"


def mine(text: str) -> bool:
    """Whether it looks like netperf's."""
    head = text[:4000]
    return bool(_TEST.search(head) or _OMNI.search(head)) or bool(
        re.search(r"^THROUGHPUT(_UNITS)?=", text, re.MULTILINE)
    )


def read(text: str) -> ToolOutput:
    """A table, or pairs."""
    _one_test(text)
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
        return _transactions(text, what, rows)
    if _alone(text) and "MAERTS" not in what:
        raise UnreadableError(_NO_CONTROL)
    return _datagrams(text, rows) if what.startswith("UDP") else _bulk(text, rows)


def _one_test(text: str) -> None:
    """UnreadableError where several tests were written into one file: none of them is the result."""
    lines = list(enumerate(text.splitlines(), start=1))
    for begins in (_is_test, _is_throughput, _is_csv_head):
        found = [line for line, words in lines if begins(words)]
        if len(found) > 1:
            raise UnreadableError("holds several tests; keep one of them", found[1])


def _is_test(words: str) -> bool:
    return " TEST from " in words or " TEST to " in words


def _is_throughput(words: str) -> bool:
    return words.strip().startswith("THROUGHPUT=")


def _is_csv_head(words: str) -> bool:
    return "Throughput" in words and "Throughput Units" in words.split(",")


def _alone(text: str) -> bool:
    """Whether the head of the test says that there was no control connection."""
    return any(" TEST " in words and " : no control" in words for words in text.splitlines())


def _unit(text: str) -> int:
    """Bits of netperf's unit of throughput, from the head of its table."""
    found = _UNIT.search(text)
    if found is None:
        raise UnreadableError("does not name the unit of its throughput")
    return _UNITS[found[0]]


def _bulk(text: str, rows: list[tuple[int, list[str]]]) -> ToolOutput:
    line, cells = rows[0]
    if len(cells) < 5:
        raise UnreadableError("a row of a stream has five numbers", line)
    output = ToolOutput("netperf", (TCP_STREAM.name,))
    output.facts |= {
        "receive_buffer_bytes": whole(cells[0], line, "socket size"),
        "send_buffer_bytes": whole(cells[1], line, "socket size"),
        "message_bytes": whole(cells[2], line, "message size"), "duration_s": number(cells[3], line, "time"),
    }  # fmt: skip
    output.add("goodput", "mean", number(cells[4], line, "throughput") * _unit(text))
    return output


def _datagrams(text: str, rows: list[tuple[int, list[str]]]) -> ToolOutput:
    if len(rows) < 2 or len(rows[0][1]) < 6 or len(rows[1][1]) < 4:
        raise UnreadableError("datagrams have two rows, of six and four numbers", rows[0][0])
    (first, sent), (second, received) = rows[:2]
    bits = _unit(text)
    output = ToolOutput("netperf", (UDP_STREAM.name,))
    output.facts |= {
        "payload_bytes": whole(sent[1], first, "message size"),
        "duration_s": number(sent[2], first, "time"),
    }
    tried, came = whole(sent[3], first, "messages sent"), whole(received[2], second, "messages received")
    goodput = number(received[3], second, "throughput") * bits
    output.add("goodput", "mean", goodput, came)
    output.add("achieved_load", "mean", number(sent[5], first, "throughput") * bits, tried)
    _loss(output, goodput, tried, came, second)
    return output


def _transactions(text: str, test: str, rows: list[tuple[int, list[str]]]) -> ToolOutput:
    line, cells = rows[0]
    if len(cells) < 6:
        raise UnreadableError("a row of request and response has six numbers", line)
    if not test.startswith("TCP REQUEST"):
        raise UnreadableError(f"no workload here is {test.lower()}", line)
    if _UNIT.search(text):
        raise UnreadableError("has bits of both ways together, not transactions", line, "run it without -f")
    burst = _BURST.search(text)
    at_once = 1 + (whole(burst["more"], 0, "first burst") if burst is not None else 0)
    output = ToolOutput("netperf", (TCP_RR.name,))
    output.facts |= {
        "request_bytes": whole(cells[2], line, "request size"), "response_bytes": whole(cells[3], line, "response size"),
        "duration_s": number(cells[4], line, "time"),
    }  # fmt: skip
    rate = number(cells[5], line, "transaction rate")
    output.add("transaction_rate", "mean", rate)
    if rate:
        output.add("transaction_time", "mean", 1e9 / rate * at_once)
    return output


def _csv_head(text: str) -> int | None:
    """The line of names of an omni test's CSV; None without one."""
    lines = enumerate(text.splitlines()[:200], start=1)
    return next((line for line, words in lines if _is_csv_head(words)), None)


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


def _pairs(text: str, values: dict[str, tuple[int, str]] | None = None) -> ToolOutput:
    values = dict(values or {})
    for line, words in enumerate(text.splitlines(), start=1):
        if pair := _PAIR.match(words.strip()):
            values[pair["key"]] = line, pair["value"].strip()
    if "THROUGHPUT" not in values or "THROUGHPUT_UNITS" not in values:
        raise UnreadableError("lacks THROUGHPUT or THROUGHPUT_UNITS")
    line, units = values["THROUGHPUT_UNITS"]
    protocol, direction = _protocol_and_direction(text, values)
    rate = number(values["THROUGHPUT"][1], values["THROUGHPUT"][0], "throughput")
    if units == "Trans/s":
        if "CONNECT" in direction.upper() or protocol not in {"TCP", ""}:
            what = f"no workload here is {direction[:40] or 'request and response'} over {protocol[:20] or 'TCP'}"
            raise UnreadableError(what, line)
        output = ToolOutput("netperf", (TCP_RR.name,))
        output.add("transaction_rate", "mean", rate)
        _latencies(output, values)
        return output
    if units not in _UNITS:
        raise UnreadableError(f"'{units[:30]}' is not a unit of netperf's throughput", line)
    if "RESPONSE" in direction.upper() or "|" in direction:
        raise UnreadableError("has bits of both ways together, not transactions", line, "run it without -f")
    if protocol not in {"TCP", "UDP"}:
        said = f"is a stream over {protocol[:20]}" if protocol else "does not say whether it was TCP or UDP"
        raise UnreadableError(said, 0, "" if protocol else _PROTOCOL_CURE)
    receives = direction.upper() in {"RECEIVE", "MAERTS"}
    if _alone(text) and not receives:
        raise UnreadableError(_NO_CONTROL)
    output = ToolOutput("netperf", (UDP_STREAM.name,) if protocol == "UDP" else (TCP_STREAM.name,))
    if protocol == "UDP":
        _with_sender(
            output, values, rate * _UNITS[units], _UNITS[units], _RECEIVER_KEYS if receives else _SENDER_KEYS
        )
    else:
        output.add("goodput", "mean", rate * _UNITS[units])
    return output


def _protocol_and_direction(text: str, values: dict[str, tuple[int, str]]) -> tuple[str, str]:
    """Protocol and direction, by their keys or by the head of the test; "" where neither says."""
    protocol, direction = (values.get(key, (0, ""))[1] for key in ("PROTOCOL", "DIRECTION"))
    if (named := _TEST.search(text)) is not None:
        first, _, rest = named["what"].partition(" ")
        return protocol or first.upper(), direction or rest
    omni = _OMNI.search(text)
    return protocol, direction or (omni["direction"] if omni is not None else "")


def _with_sender(
    output: ToolOutput,
    values: dict[str, tuple[int, str]],
    goodput: float,
    bits: int,
    keys: tuple[str, str, str],
) -> None:
    """What came over UDP; what was sent, and loss, where `keys` of rate sent, calls to send and to receive are
    there.
    """
    rate_key, sent_key, came_key = keys
    tried, came = (
        whole(values[key][1], values[key][0], key) if key in values else None for key in (sent_key, came_key)
    )
    if came == 0 and goodput:
        raise UnreadableError(_NO_CONTROL, values[came_key][0])
    output.add("goodput", "mean", goodput, came or 0)
    if rate_key in values:
        line, text = values[rate_key]
        output.add("achieved_load", "mean", number(text, line, rate_key) * bits, tried or 0)
    if tried is None or came is None:
        output.notes.append(f"no loss: add {sent_key} and {came_key} to -k or -o")
    else:
        _loss(output, goodput, tried, came, values[came_key][0])


def _loss(output: ToolOutput, goodput: float, tried: int, came: int, line: int) -> None:
    if came > tried:
        raise UnreadableError(f"{came} of {tried} messages came", line)
    if tried:
        output.add("loss", "ratio", 1 - came / tried, tried)
        if came:
            output.add("lost_rate", "mean", goodput * (tried - came) / came, tried)


def _latencies(output: ToolOutput, values: dict[str, tuple[int, str]]) -> None:
    """netperf's own statistics of transactions, in microseconds."""
    names = {
        "MIN_LATENCY": "min", "MEAN_LATENCY": "mean", "MAX_LATENCY": "max", "P50_LATENCY": "median", "P90_LATENCY": "p90",
        "P99_LATENCY": "p99",
    }  # fmt: skip
    for key, statistic in names.items():
        if key in values and statistic in METRICS["transaction_time"].statistics:
            line, text = values[key]
            output.add("transaction_time", statistic, number(text, line, key) * 1e3)
