"""iperf3: JSON (`-J`) and text, TCP and UDP, of its client, or of a server that received.

Goodput is what the receiver got, as the client learns at the end; a server does not learn what the other side
counted, and writes 0 for it. Intervals are those of the side that wrote the output; the congestion window is told
in bytes, ours counts packets, so it is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from virtlab.catalogue.workloads.tcp_stream import TCP_STREAM
from virtlab.catalogue.workloads.udp_stream import UDP_STREAM
from virtlab.imported.iperf_rates import RATES
from virtlab.imported.output import ToolOutput, UnreadableError, nanoseconds, number, whole
from virtlab.units.factors import NS_PER_S

_BOTH_WAYS = "was run with --bidir: two tests at once, whose streams are no one stream's"
_BOTH_WAYS_CURE = "run each direction by itself, the other way with -R"
_ROW = re.compile(
    r"^\[\s*(?P<id>\d+|SUM)\](?:\[(?P<way>[TR]X)-[CS]\])?\s+(?P<begin>[\d.]+)-(?P<end>[\d.]+)\s+sec\s+"
    r"(?P<moved>[\d.]+) (?P<of>[KMGT]?Bytes)\s+(?P<rate>[\d.]+) (?P<per>[KMGT]?(?:bits|Bytes)/sec)(?P<rest>.*)$"
)
_LOST = re.compile(r"(?P<jitter>[\d.]+) ms\s+(?P<lost>\d+)/\s*(?P<all>\d+)")
_SERVERS_OUTPUT = "Server output:"  # with --get-server-output: the same test again


def mine(text: str) -> bool:
    """Whether it looks like iperf3's."""
    head = text.lstrip()[:4000]
    return (head.startswith("{") and '"test_start"' in text) or bool(
        re.search(r"^(Connecting to host|iperf Done\.|Server listening on \d+)", text, re.MULTILINE)
    )


def read(text: str) -> ToolOutput:
    """JSON or text."""
    return _json(text) if text.lstrip().startswith("{") else _text(text)


def _json(text: str) -> ToolOutput:
    try:
        whole_ = json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not a JSON ({error.msg})", error.lineno) from None
    except ValueError as error:
        raise UnreadableError(f"is not a JSON ({error})") from None
    try:
        if "error" in whole_:
            raise UnreadableError(f"iperf3 failed: {str(whole_['error'])[:200]}")
        start, end = whole_["start"]["test_start"], whole_["end"]
        if start.get("bidir"):
            raise UnreadableError(_BOTH_WAYS, 0, _BOTH_WAYS_CURE)
        protocol = str(start["protocol"]).upper()
        if protocol not in {"TCP", "UDP"}:
            raise UnreadableError(f"was run over {protocol[:20]}, which no workload here is")
        udp, server = protocol == "UDP", "accepted_connection" in whole_["start"]
        if server and start.get("reverse"):
            raise UnreadableError(
                "is of a server that sent: it lacks what was received", 0, "import the client's output"
            )
        output = ToolOutput("iperf3", (UDP_STREAM.name,) if udp else (TCP_STREAM.name,))
        output.facts |= {"duration_s": _real(start["duration"]), "streams": int(_real(start["num_streams"]))}
        if started := whole_["start"].get("timestamp", {}).get("time"):
            output.started = str(started)
        _intervals(output, whole_["intervals"], udp=udp)
        _udp(output, end, server=server) if udp else _tcp(output, end)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise UnreadableError(f"lacks {error} of iperf3's report") from None
    return output


def _intervals(output: ToolOutput, intervals: list[Mapping[str, Any]], *, udp: bool) -> None:
    rows = []
    for one in intervals:
        for stream in one["streams"]:
            if stream.get("omitted"):
                continue
            sending = bool(stream.get("sender", True))
            moved = int(_real(stream["bytes"]))
            rows.append(
                {
                    "flow": int(_real(stream["socket"])) % 2**31,
                    "begin_ns": nanoseconds(_real(stream["start"]), NS_PER_S, 0, "interval"),
                    "end_ns": nanoseconds(_real(stream["end"]), NS_PER_S, 0, "interval"),
                    "received_bytes": 0 if sending else moved, "sent_bytes": moved if sending else 0,
                    "retransmits": int(_real(stream.get("retransmits", 0))),
                    "srtt_ns": nanoseconds(_real(stream.get("rtt", 0)), 1e3, 0, "rtt"), "cwnd_packets": 0,
                }
            )  # fmt: skip
    if not udp:
        output.rows("interval/1", rows)


def _tcp(output: ToolOutput, end: Mapping[str, Any]) -> None:
    output.add("goodput", "mean", _real(end["sum_received"]["bits_per_second"]))
    if "retransmits" in end["sum_sent"]:
        output.add("retransmits", "total", _real(end["sum_sent"]["retransmits"]))
    shares = [_real(stream["receiver"]["bytes"]) for stream in end["streams"]]
    if len(shares) > 1 and any(shares):
        output.add(
            "fairness",
            "jain",
            sum(shares) ** 2 / (len(shares) * sum(one * one for one in shares)),
            len(shares),
        )


def _udp(output: ToolOutput, end: Mapping[str, Any], *, server: bool) -> None:
    total = end.get("sum_received") or end["sum"]
    packets, lost = _real(end["sum"]["packets"]), _real(end["sum"]["lost_packets"])
    if lost > packets:
        raise UnreadableError(f"{lost:.0f} of {packets:.0f} datagrams were lost")
    output.add("jitter_rfc3550", "final", _real(end["sum"]["jitter_ms"]) * 1e6, int(packets))
    _lossy(output, _received(total, packets, lost), packets, lost)
    if not server:
        output.add("achieved_load", "mean", _real((end.get("sum_sent") or end["sum"])["bits_per_second"]))


def _received(total: Mapping[str, Any], packets: float, lost: float) -> float:
    """The receiver's rate. The sum of older versions has only what was sent: less what was lost."""
    rate = _real(total["bits_per_second"])
    told_apart = total.get("sender") is False
    return rate if told_apart or not packets else rate * (1 - lost / packets)


def _lossy(output: ToolOutput, goodput: float, packets: float, lost: float) -> None:
    output.add("goodput", "mean", goodput, int(packets))
    if packets:
        loss = lost / packets
        output.add("loss", "ratio", loss, int(packets))
        if loss < 1:
            output.add("lost_rate", "mean", goodput * loss / (1 - loss), int(packets))


def _text(text: str) -> ToolOutput:
    finals: dict[tuple[str, str], re.Match[str]] = {}
    lines: dict[tuple[str, str], int] = {}
    for line, words in enumerate(text.splitlines(), start=1):
        if words.startswith("iperf3: error"):
            raise UnreadableError(words[8:200], line)
        if words.startswith(_SERVERS_OUTPUT):
            break
        row = _ROW.match(words)
        side = row["rest"].split()[-1] if row and row["rest"].split() else ""
        if row and row["way"]:
            raise UnreadableError(_BOTH_WAYS, line, _BOTH_WAYS_CURE)
        if row and side in {"sender", "receiver"}:
            if (row["id"], side) in finals:
                raise UnreadableError("holds several tests; keep one of them", line)
            finals[row["id"], side] = row
            lines[row["id"], side] = line
    if not any(side == "receiver" for _, side in finals):
        raise UnreadableError("ends before iperf3's summary: it lacks what the receiver got")
    ids = [name for name, side in finals if side == "receiver"]
    which = "SUM" if "SUM" in ids else ids[0]
    row, line = finals[which, "receiver"], lines[which, "receiver"]
    lost = _LOST.search(row["rest"])
    output = ToolOutput("iperf3", (UDP_STREAM.name,) if lost else (TCP_STREAM.name,))
    output.clock = "intervals are not kept: their bytes are rounded"
    output.facts["duration_s"] = number(row["end"], line, "time")
    goodput = _rate(row, line)
    if lost is not None:
        packets = whole(lost["all"], line, "datagrams")
        missing = whole(lost["lost"], line, "lost datagrams")
        if missing > packets:
            raise UnreadableError(f"{missing} of {packets} datagrams were lost", line)
        output.add("jitter_rfc3550", "final", number(lost["jitter"], line, "jitter") * 1e6, packets)
        _lossy(output, goodput, packets, missing)
        if (which, "sender") in finals:
            output.add("achieved_load", "mean", _rate(finals[which, "sender"], line))
        return output
    output.add("goodput", "mean", goodput)
    sender = finals.get((which, "sender"))
    words_ = sender["rest"].split() if sender else []
    if len(words_) == 2 and words_[0].isdigit():
        output.add("retransmits", "total", whole(words_[0], line, "retransmits"))
    return output


def _rate(row: re.Match[str], line: int) -> float:
    return number(row["rate"], line, "rate") * RATES[row["per"]]


def _real(value: Any) -> float:
    """A number of the report. UnreadableError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableError(f"'{str(value)[:40]}' is not a number of iperf3's report")
    return number(repr(value) if abs(value) < 1e300 else "inf", 0, "a value")
