"""HdrHistogram's log of intervals: what all its histograms, or those of a tag, counted together.

A line is `[Tag=NAME,]start,length,max,HISTOGRAM`, where HISTOGRAM is base64 of the encoding V2, compressed: a head,
then zlib of a head and of counts as zig-zag LEB128, in which a negative number stands for so many empty buckets. A
bucket's value is its middle, as HdrHistogram has it for means; with the usual three digits it is at most 0.05 % beside
a sample. Source: HdrHistogram 2.1 (Java), AbstractHistogram and HistogramLogWriter.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterator

from virtlab.outputs.unreadable import UnreadableError

ALL = "*"
COMPRESSED, PLAIN, WORD = 0x1C849304, 0x1C849303, 0xF0  # cookies; their second-last digit is a size of words
MOST_HEAD = struct.Struct(">ii")
HEAD = struct.Struct(">iiiiqqd")
PAYLOAD_MAX = 4 << 20  # bytes of counts: of five digits over the whole range there are less
PAYLOADS_MAX = (
    8 << 20
)  # of all histograms that are read together: a thousandth of that may be in the output, compressed
_ZEROS = re.compile(rb"\0+")
COUNTS_MAX = 10_000_000  # samples of all histograms together


def values(text: str, tag: str) -> dict[float, int]:
    """Value -> how often it was met. UnreadableError, with the line, where a histogram cannot be read."""
    found: dict[float, int] = {}
    met, total, unpacked = False, 0, 0
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.strip().split(",")
        if fields[0][:1] in {"", "#", '"'}:
            continue
        own = fields.pop(0).removeprefix("Tag=") if fields[0].startswith("Tag=") else ""
        if len(fields) != 4:
            raise UnreadableError("is not an interval of a histogram log", number)
        if tag not in {ALL, own}:
            continue
        met = True
        payload, half, unit = _unpacked(fields[3], number)
        unpacked += len(payload)
        if unpacked > PAYLOADS_MAX:
            what = f"holds histograms of more than {PAYLOADS_MAX >> 20} MiB when they are unpacked"
            raise UnreadableError(what, number, "log less often in a run")
        for value, count in _buckets(payload, half, unit, number):
            found[value] = found.get(value, 0) + count
            total += count
            if total > COUNTS_MAX:
                raise UnreadableError(f"counts more than {COUNTS_MAX} samples", number, "log less in a run")
    if not found:
        which = "" if tag == ALL else f" of the tag '{tag}'"
        raise UnreadableError(f"has only empty histograms{which}" if met else f"has no histogram{which}")
    return found


def _unpacked(encoded: str, line: int) -> tuple[bytes, int, int]:
    """The counts of a histogram, and bits: of half the buckets of a power of two, and of its unit."""
    try:
        packed = base64.b64decode(encoded, validate=True)
        cookie, length = MOST_HEAD.unpack_from(packed)
        if cookie & ~WORD != COMPRESSED or length != len(packed) - MOST_HEAD.size:
            raise UnreadableError("is not a histogram in the encoding V2, compressed", line)
        stream = zlib.decompressobj()
        plain = stream.decompress(packed[MOST_HEAD.size :], HEAD.size + PAYLOAD_MAX)
        if not stream.eof:
            raise UnreadableError("holds a histogram that is cut off, or larger than any", line)
        cookie, payload, offset, digits, lowest, _, _ = HEAD.unpack_from(plain)
    except (binascii.Error, struct.error, zlib.error, ValueError) as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"holds a histogram that cannot be decoded ({error})", line) from None
    if (
        cookie & ~WORD != PLAIN
        or payload != len(plain) - HEAD.size
        or offset
        or not 0 <= digits <= 5
        or lowest < 1
    ):
        raise UnreadableError("holds a histogram whose head contradicts itself", line)
    half = max((2 * 10**digits - 1).bit_length(), 1) - 1  # bits of half the buckets of a power of two
    return plain[HEAD.size :], half, lowest.bit_length() - 1


def _buckets(payload: bytes, half: int, unit: int, line: int) -> Iterator[tuple[float, int]]:
    """Value and count of each bucket that is not empty."""
    at, place = 0, 0
    while at < len(payload):
        if payload[at] == 0:  # empty buckets, each written by itself
            end = _ZEROS.match(payload, at).end()  # type: ignore[union-attr]
            at, place = end, place + end - at
            continue
        number, at = _number(payload, at, line)
        if number < 0:
            place -= number
            continue
        shift = max((place >> half) - 1, 0)
        within = (place & ((1 << half) - 1)) + (1 << half if place >> half else 0)
        if shift + unit + half > 63:
            raise UnreadableError("holds a histogram with a value of more than 64 bits", line)
        if number:
            width = 1 << (shift + unit)
            yield float(within * width + width // 2), number
        place += 1


def _number(payload: bytes, at: int, line: int) -> tuple[int, int]:
    """A zig-zag LEB128 number of at most nine bytes, whose ninth has eight bits, and the place after it."""
    value = 0
    for step in range(9):
        if at >= len(payload):
            raise UnreadableError("holds a histogram that ends within a number", line)
        byte = payload[at]
        at += 1
        value |= (byte if step == 8 else byte & 0x7F) << (7 * step)
        if byte < 0x80:
            break
    return (value >> 1) ^ -(value & 1), at
