"""Protocol Buffers, as far as messages are written here: strings, nested messages, doubles, integers.

Source: 'Encoding', protobuf.dev. A field is a number and a wire type, then its value; a message is its fields one after
the other. Nothing is read but the few fields of an answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types


def varint(number: int) -> bytes:
    """Seven bits per byte, the lowest first; negative numbers as 64 bits.

    >>> varint(300).hex(), varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    rest, found = number & 0xFFFF_FFFF_FFFF_FFFF, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def message(field: int, *parts: bytes) -> bytes:
    """A field that holds a message of these parts, or bytes."""
    content = b"".join(parts)
    return varint(field << 3 | BYTES) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A field that holds a string.

    >>> text(2, "testing").hex()
    '120774657374696e67'
    """
    return message(field, value.encode())


def double(field: int, value: float) -> bytes:
    """A field that holds a double."""
    return varint(field << 3 | FIXED64) + struct.pack("<d", value)


def integer(field: int, value: int) -> bytes:
    """A field that holds an int64."""
    return varint(field << 3 | VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """A field that holds a fixed64."""
    return varint(field << 3 | FIXED64) + struct.pack("<Q", value)


def fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, number and value. ValueError when it is no message.

    >>> list(fields(integer(1, 7) + text(2, "no")))
    [(1, 7), (2, b'no')]
    """
    at = 0
    while at < len(content):
        key, at = _number(content, at)
        if key & 7 == VARINT:
            value, at = _number(content, at)
            yield key >> 3, value
            continue
        if key & 7 == BYTES:
            size, at = _number(content, at)
        elif key & 7 in {FIXED64, FIXED32}:
            size = 8 if key & 7 == FIXED64 else 4
        else:
            raise ValueError(f"wire type {key & 7}")
        if at + size > len(content):
            raise ValueError("the message ends within a field")
        yield key >> 3, content[at : at + size]
        at += size


def _number(content: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends."""
    value = shift = 0
    while at < len(content) and shift < 70:
        value |= (content[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if content[at - 1] < 0x80:
            return value, at
    raise ValueError("a number does not end")
