"""What programs print and what is polled beside them, as the metrics of an experiment file read it, times too."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from tools.fuzz.damage import CHARACTERS, NUMBERS, damaged

from virtlab.errors import GuestError
from virtlab.outputs import UnreadableError, parse, read_output, read_poll
from virtlab.outputs.polled import Polls

COUNT = 10_000
KEY = "rate"
OF = {"unit": "1/s", "better": "higher"}
SOURCES = 2


def _histogram(*counts: int) -> bytes:
    """A line of an HdrHistogram log, as its library writes one."""
    payload = b"".join(struct.pack(">B", 2 * count) for count in counts)
    head = struct.pack(">iiiiqqd", 0x1C849303, len(payload), 0, 3, 1, 3_600_000_000, 1.0)
    packed = zlib.compress(head + payload)
    return base64.b64encode(struct.pack(">ii", 0x1C849304, len(packed)) + packed)


class Format(NamedTuple):
    """A metric's entry, and an output that it reads."""

    entry: dict[str, str]
    output: bytes


FORMATS = (
    Format({"json": "$.a[*].v"}, b'{"a": [{"v": 1, "t": 0.5}, {"v": 2.5, "t": 1}], "b": {"c": "3"}}'),
    Format({"json": "$.a[*].v", "time": "$.a[*].t"}, b'{"a": [{"v": 1, "t": 0.5}, {"v": 2.5, "t": "1e0"}]}'),
    Format({"json_lines": "$.v"}, b'{"v": 1}\n\n{"v": 2, "w": [null, true]}\n'),
    Format(
        {"json_lines": "$.v", "time": "$.t", "clock": "iso8601"},
        b'{"v": 1, "t": "2026-01-31T12:00:00.5Z"}\n{"v": 2, "t": "2026-01-31 13:00:01+01:00"}\n',
    ),
    Format({"regex": r"rate=(?P<rate>\S+)"}, b"noise\nrate=10.5 rate=11\nrate=1e3\n"),
    Format(
        {"regex": r"(?P<t>\S+) rate=(?P<rate>\S+)", "time": "t", "clock": "epoch", "time_unit": "ns"},
        b"1700000000000000000 rate=10.5\n1700000000500000000 rate=11\n",
    ),
    Format({"csv": "v", "delimiter": ";"}, b'"v";t\n1;0\n"2";1.5\n'),
    Format({"csv": "v", "time": "t", "time_unit": "ms"}, b"t,v\n0,1\n1500,2\n"),
    Format(
        {"prometheus": 'up_total{code="200"}'},
        b'# TYPE up_total counter\nup_total{code="200"} 7 1700000000000\nup_total{code="5\\"0"} +Inf\n',
    ),
    Format(
        {"hdr_histogram": "*"},
        b"#[Histogram log format version 1.3]\n#[StartTime: 1.0 (seconds since epoch)]\n"
        b'"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
        b"0.127,1.007,2.769," + _histogram(0, 1, 2) + b"\nTag=a,1.1,1.0,2.7," + _histogram(3) + b"\n",
    ),
)
POLLED = b"output 6\nhello\nfound 0 1000 3\n7.5found 1 2000 2\n42missed 1 3000 18\nconnection refused"
WORDS = [
    *NUMBERS, *CHARACTERS, b"{", b"}", b"[", b"]", b",", b"null", b"true", b"NaN", b"Infinity", b"\r\n", b"[" * 3000,
    b'{"a":' * 2000, b"rate=", b"rate=_", b"rate=1,5", b"2026-13-40T25:61:61Z", b"9999-12-31T23:59:59-23:59",
    b"0001-01-01T00:00:00+23:59", b"output 99999999\n", b"found 0 1 0\n", b"found 999 1 1\n", b"missed 0 " + b"9" * 19,
    b'{code="', b"# HELP", b"Tag=", b"A" * 64, b"=" * 8,
]  # fmt: skip


def cases(seed: int, count: int) -> Iterator[tuple[int, bytes]]:
    """The place of a format, that of polls last, and a damaged output of it."""
    contents = [*(each.output for each in FORMATS), POLLED]
    for position in range(count):
        source = random.Random(f"{seed} program outputs {position}")
        place = source.randrange(len(contents))
        yield place, damaged(source, [contents[place]], WORDS)


def run_case(case: tuple[int, bytes]) -> None:
    """What the output is to the metric; a refusal is what the run would say."""
    place, content = case
    try:
        if place < len(FORMATS):
            read_output({KEY: _entry(FORMATS[place])}, content)
        else:
            _poll(content)
    except UnreadableError as error:
        raise GuestError(f"program, line {error.line}", error.what, error.cure) from None


def _poll(content: bytes) -> None:
    polls = Polls(SOURCES)
    for begin in range(0, len(content), 7):
        polls.take(content[begin : begin + 7])
    if polls.torn:
        raise GuestError("program", "what was polled cannot be read", "")
    entry = _entry(Format({"json": "$"}, b""))
    for found in polls.by_source.values():
        for poll in found:
            if not poll.missed:
                read_poll(KEY, entry, poll.text)


def _entry(one: Format) -> dict[str, Any]:
    return parse(KEY, {**one.entry, **OF})
