"""A line of HdrHistogram's log of intervals, of counts by bucket: what its own tools read and draw.

A bucket is known by its place. With three digits the first 2048 buckets have the width 1, and each further 1024 twice
the width of those before, so a value's bucket is at most a thousandth of it wide. Source: HdrHistogram 2.1 (Java),
AbstractHistogram and HistogramLogWriter. `histogram_log` reads such lines.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from typing import TextIO

from virtlab.outputs.histogram_log import COMPRESSED, HEAD, MOST_HEAD, PLAIN

HALF_BITS = 10  # of the 2048 buckets that three digits need, half are met again at each doubling
DIGITS = 3
WORDS = 0x10  # counts are numbers of as many octets as they need
HEADER = (
    "#[Histogram log format version 1.3]\n"
    '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
)
MS = 1_000_000  # ns; the largest value of a line is told in ms


def place_of(value: int) -> int:
    """The place of a value's bucket.

    >>> place_of(0), place_of(2047), place_of(2048), place_of(2049), place_of(4096)
    (0, 2047, 2048, 2048, 3072)
    """
    shift = max(value.bit_length() - HALF_BITS - 1, 0)
    return (shift << HALF_BITS) + (value >> shift)


def write_line(
    out: TextIO, tag: str, begin_s: float, length_s: float, largest_ns: int, counts: Iterable[tuple[int, int]]
) -> None:
    """Writes an interval: its tag, which has neither commas nor blanks, and (place, count) in rising order."""
    payload, next_place = bytearray(), 0
    for place, count in counts:
        if place > next_place:
            _append(payload, next_place - place)
        _append(payload, count)
        next_place = place + 1
    head = HEAD.pack(PLAIN | WORDS, len(payload), 0, DIGITS, 1, max(largest_ns, 2), 1.0)
    packed = zlib.compress(head + payload)
    encoded = base64.b64encode(MOST_HEAD.pack(COMPRESSED | WORDS, len(packed)) + packed).decode("ascii")
    out.write(f"Tag={tag},{begin_s:.6f},{length_s:.6f},{largest_ns / MS:.6f},{encoded}\n")


def _append(payload: bytearray, number: int) -> None:
    """A number as zig-zag LEB128 of at most nine octets, whose ninth has eight bits."""
    rest = (number << 1) ^ (number >> 63)
    for _ in range(8):
        if rest < 0x80:
            payload.append(rest)
            return
        payload.append((rest & 0x7F) | 0x80)
        rest >>= 7
    payload.append(rest & 0xFF)
