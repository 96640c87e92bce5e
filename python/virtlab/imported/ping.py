"""ping: of iputils, busybox, the BSDs, and Windows (in English).

A reply's time is the application's round trip, in ms as printed. How many requests had no reply follows from the
statistics; how late they left is not known. `time<1ms` is no number: a run with such a reply has its loss alone. What
Windows counts as received has in it what routers wrote (`Destination host unreachable`): that is no reply. Sequence
numbers have 16 bits and begin again.
"""

from __future__ import annotations

import re

from virtlab.catalogue.workloads.rtt import RTT
from virtlab.imported.output import ToolOutput, UnreadableError, nanoseconds, number, whole
from virtlab.units.factors import NS_PER_MS

_REPLY = re.compile(
    r"^(?:\[(?P<at>\d+\.\d+)\] )?(?P<size>\d+) bytes from .*?(?:icmp_)?seq[=:](?P<seq>\d+)(?P<rest>.*)$"
)
# Over IPv6 it does not say the size.
_WINDOWS = re.compile(r"^Reply from \S+ (?:bytes=\d+ )?time(?P<how>[=<])(?P<ms>[\d.]+) ?ms\b")
_REFUSED_WINDOWS = re.compile(r"^Reply from \S+: [A-Z]")
_TIME = re.compile(r"time(?P<how>[=<])(?P<ms>[\d.]+) ?ms")
_SENT = re.compile(r"(?P<sent>\d+) packets transmitted, (?P<received>\d+)(?: packets)? received")
_SENT_WINDOWS = re.compile(r"Packets: Sent = (?P<sent>\d+), Received = (?P<received>\d+)")
_HEAD = re.compile(r"^PING .*?(?P<payload>\d+)(?:\((?P<packet>\d+)\))?(?: data)? bytes")
_HEAD_PING6 = re.compile(r"^PING6\((?P<packet>\d+)=40\+8\+(?P<payload>\d+) bytes\)")  # of the BSDs
_HEAD_WINDOWS = re.compile(r"^Pinging .* with (?P<payload>\d+) bytes of data")
SEQUENCE = 1 << 16
ROWS_MAX = 10_000_000


def mine(text: str) -> bool:
    """Whether it looks like ping's."""
    return bool(re.search(r"^(PING |PING6\(|Pinging )", text, re.MULTILINE)) and "PsPing" not in text


def read(text: str) -> ToolOutput:
    """Round trips, and how many requests were sent."""
    output = ToolOutput("ping", (RTT.name,))
    replies: list[tuple[int, int, float | None]] = []  # sequence number, ns, instant in s
    coarse = duplicates = refused = begun_again = 0
    sent = received = None
    for line, words in enumerate(text.splitlines(), start=1):
        if head := _HEAD_PING6.match(words) or _HEAD.match(words) or _HEAD_WINDOWS.match(words):
            output.facts["payload_bytes"] = whole(head["payload"], line, "size")
            if "packet" in head.groupdict() and head["packet"]:
                output.facts["ip_packet_bytes"] = whole(head["packet"], line, "size")
        elif reply := _REPLY.match(words):
            time = _TIME.search(reply["rest"])
            if time is None:
                raise UnreadableError("a reply without its time", line)
            if "DUP!" in reply["rest"]:
                duplicates += 1
                continue
            rtt_ns = nanoseconds(number(time["ms"], line, "time"), NS_PER_MS, line, "time")
            at = number(reply["at"], line, "instant") if reply["at"] else None
            seq = begun_again + whole(reply["seq"], line, "sequence number")
            if replies and seq + SEQUENCE // 2 < replies[-1][0]:
                begun_again, seq = begun_again + SEQUENCE, seq + SEQUENCE
            elif replies and seq > replies[-1][0] + SEQUENCE // 2 and seq >= SEQUENCE:
                seq -= SEQUENCE  # a late one of those before
            replies.append((seq, rtt_ns, at))
            coarse += time["how"] == "<"
        elif _REFUSED_WINDOWS.match(words):
            refused += 1
        elif reply := _WINDOWS.match(words):
            rtt_ns = nanoseconds(number(reply["ms"], line, "time"), NS_PER_MS, line, "time")
            replies.append((len(replies), rtt_ns, None))
            coarse += reply["how"] == "<"
        elif counts := _SENT.search(words) or _SENT_WINDOWS.search(words):
            if sent is not None:
                raise UnreadableError("holds several runs of ping; keep one of them", line)
            sent = whole(counts["sent"], line, "number of requests")
            received = whole(counts["received"], line, "number of replies")
            if received > sent:
                raise UnreadableError(f"{received} replies to {sent} requests", line)
    if sent is None or received is None:
        raise UnreadableError("ends before ping's statistics: it lacks how many requests were sent")
    received -= refused
    if len(replies) != received:
        raise UnreadableError(f"has {len(replies)} replies, and its statistics {received}: a part is missing")
    if sent > ROWS_MAX:
        raise UnreadableError(f"{sent} requests are more than one run of ping has")
    _keep(output, replies, sent, coarse)
    output.counters |= {"sent_packets": sent, "duplicate_packets": duplicates}
    return output


def _keep(output: ToolOutput, replies: list[tuple[int, int, float | None]], sent: int, coarse: int) -> None:
    if coarse:
        output.facts["coarse_replies"] = coarse
        output.add("loss", "ratio", 1 - len(replies) / sent if sent else 0.0, sent)
        return
    stamps = [at for _, _, at in replies if at is not None]
    stamped = len(stamps) == len(replies) and bool(replies)
    first = min(stamps, default=0.0)
    if not stamped:
        output.clock = "the output has no instants: replies are in their order, a second apart"
    rows = []
    for number_, rtt_ns, at in replies:
        received_ns = round((at - first) * 1e9) if stamped and at is not None else number_ * 1_000_000_000
        sent_ns = received_ns - rtt_ns if stamped else received_ns
        rows.append(
            {
                "seq": number_, "flow": 0, "intended_ns": sent_ns, "sent_ns": sent_ns,
                "received_ns": sent_ns + rtt_ns, "rtt_ns": rtt_ns, "path_rtt_ns": -1,
            }
        )  # fmt: skip
    output.rows("rtt/1", rows)
