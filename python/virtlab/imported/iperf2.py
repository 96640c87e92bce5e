"""iperf 2: text and CSV (`-y C`), of its client and of its server.

The last row that begins at 0 is the whole test. Of UDP only what the receiver counted is taken: the client's own row
says what was sent. CSV of a server's UDP report that did not arrive holds -1: that is an error, not a number.

A stream back to the client (`-R`, `--full-duplex`) has a star before its number. Of traffic both ways at once the sum
is of both, and is no stream's. A result of a connection that began after another result is another test's.
"""

from __future__ import annotations

import re

from virtlab.catalogue.workloads.tcp_stream import TCP_STREAM
from virtlab.catalogue.workloads.udp_stream import UDP_STREAM
from virtlab.imported.iperf_rates import RATES
from virtlab.imported.output import ToolOutput, UnreadableError, number, whole

_ROW = re.compile(
    r"^\[\s*(?:\*?(?P<id>\d+)|(?P<sum>SUM)(?:-\d+)?)\]\s+(?P<begin>[\d.]+)\s*-\s*(?P<end>[\d.]+) sec"
    r"\s+(?P<moved>[\d.]+) (?P<of>[KMGT]?Bytes)\s+(?P<rate>[\d.]+) (?P<per>[KMGT]?(?:bits|Bytes)/sec)(?P<rest>.*)$"
)
_CONNECTED = re.compile(r"^\[\s*\*?\d+\] local .* connected with ")
_LOST = re.compile(r"(?P<jitter>[\d.]+) ms\s+(?P<lost>\d+)/\s*(?P<all>\d+)")
_CSV = re.compile(r"^\d{14}(?:\.\d+)?,[^,]*,\d+,[^,]*,\d+,-?\d+,[\d.]+-[\d.]+,-?\d+,-?\d+")
_BOTH_WAYS = "was run both ways at once or in turn (--full-duplex, -d, -r): two tests, whose sum is of both"
_BOTH_WAYS_CURE = "run each direction by itself, the other way with -R"


def mine(text: str) -> bool:
    """Whether it looks like iperf 2's."""
    return bool(
        re.search(r"^(Client connecting to|Server listening on (TCP|UDP) port)", text, re.MULTILINE)
    ) or bool(_CSV.match(text.lstrip()))


def read(text: str) -> ToolOutput:
    """Text or CSV."""
    return _csv(text) if _CSV.match(text.lstrip()) else _text(text)


def _text(text: str) -> ToolOutput:
    udp = bool(
        re.search(r"^(Client connecting to .*, UDP port|Server listening on UDP port)", text, re.MULTILINE)
    )
    client = bool(re.search(r"^Client connecting to", text, re.MULTILINE))
    if client and re.search(r"^Server listening on", text, re.MULTILINE):
        raise UnreadableError(_BOTH_WAYS, 0, _BOTH_WAYS_CURE)
    output = ToolOutput("iperf2", (UDP_STREAM.name,) if udp else (TCP_STREAM.name,))
    output.clock = "intervals are not kept: their bytes are rounded"
    best: tuple[int, re.Match[str]] | None = None
    tests: set[str] = set()
    sent: float | None = None
    reverse = over = again = False
    for line, words in enumerate(text.splitlines(), start=1):
        if _CONNECTED.match(words):
            if "(full-duplex)" in words:
                raise UnreadableError(_BOTH_WAYS, line, _BOTH_WAYS_CURE)
            again = over
            reverse = reverse or "(reverse)" in words
        row = _ROW.match(words)
        if row is None or number(row["begin"], line, "time") != 0:
            continue
        if again:
            raise UnreadableError("holds several tests; keep one of them", line)
        over = True
        if udp and not _LOST.search(row["rest"]):
            sent = number(row["rate"], line, "rate") * RATES[row["per"]]
            continue
        tests.add(row["sum"] or row["id"])
        end_s = number(row["end"], line, "time")
        later = best is None or row["sum"] or end_s >= float(best[1]["end"])
        if later and not (best is not None and best[1]["sum"] and not row["sum"]):
            best = line, row
    if best is None:
        what = "the server's report of UDP is missing" if udp else "has no row of the whole test"
        raise UnreadableError(what)
    if len(tests) > 1 and "SUM" not in tests:
        raise UnreadableError(f"holds {len(tests)} tests; keep one of them")
    line, row = best
    output.facts["duration_s"] = number(row["end"], line, "time")
    if not output.facts["duration_s"]:
        raise UnreadableError("its whole test took no time", line)
    rate = number(row["rate"], line, "rate") * RATES[row["per"]]
    if not udp:
        output.add("goodput", "mean", rate)
        if client != reverse:
            who = "client" if client else "server"
            output.facts["of"] = f"what the {who} wrote: its last bytes may not have arrived"
        return output
    lost = _LOST.search(row["rest"])
    assert lost is not None
    _of_udp(output, rate, lost["jitter"], lost["lost"], lost["all"], line)
    if client and sent is not None:
        output.add("achieved_load", "mean", sent)
    return output


def _of_udp(output: ToolOutput, rate: float, jitter: str, lost: str, total: str, line: int) -> None:
    packets, missing = whole(total, line, "datagrams"), whole(lost, line, "lost datagrams")
    if missing > packets:
        raise UnreadableError(f"{missing} of {packets} datagrams were lost", line)
    output.add("goodput", "mean", rate, packets)
    output.add("jitter_rfc3550", "final", number(jitter, line, "jitter") * 1e6, packets)
    if packets:
        output.add("loss", "ratio", missing / packets, packets)
        if missing < packets:
            output.add("lost_rate", "mean", rate * missing / (packets - missing), packets)


def _csv(text: str) -> ToolOutput:
    """Rows of 14 cells are what a receiver of UDP counted; of 9 what TCP moved, or beside the former what was sent."""
    found: list[tuple[int, list[str]]] = []
    for line, words in enumerate(text.splitlines(), start=1):
        if not words.strip():
            continue
        cells = words.strip().split(",")
        if len(cells) < 9 or not _CSV.match(words.strip()):
            raise UnreadableError("is not a row of iperf's CSV", line)
        if number(cells[6].partition("-")[0], line, "time") == 0:
            found.append((line, cells))
    received = [row for row in found if len(row[1]) >= 14]
    line, cells = whole_test = _whole(received or found)
    output = ToolOutput("iperf2", (UDP_STREAM.name,) if received else (TCP_STREAM.name,))
    output.clock = "intervals are not kept"
    output.facts["duration_s"] = _end(whole_test)
    rate = number(cells[8], line, "rate")
    if not received:
        output.add("goodput", "mean", rate)
        return output
    if cells[11].startswith("-"):
        raise UnreadableError("the server's report of UDP did not arrive: lost datagrams are -1", line)
    _of_udp(output, rate, cells[9], cells[10], cells[11], line)
    if sent := [row for row in found if len(row[1]) < 14]:
        line, cells = _whole(sent)
        output.add("achieved_load", "mean", number(cells[8], line, "rate"))
    return output


def _whole(rows: list[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """The row of the whole test: the last to end, of all streams together (-1) where there are several."""
    if not rows:
        raise UnreadableError("has no row of the whole test")
    together = [row for row in rows if row[1][5] == "-1"]
    tests = {tuple(row[1][1:6]) for row in rows if row[1][5] != "-1"}  # both ways at once have one number
    if len(tests) > 1 and not together:
        raise UnreadableError(f"holds {len(tests)} tests; keep one of them", rows[-1][0])
    return max(together or rows, key=_end)


def _end(numbered: tuple[int, list[str]]) -> float:
    return number(numbered[1][6].partition("-")[2], numbered[0], "time")
