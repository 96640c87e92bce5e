"""Prometheus remote write 1.0: a protobuf message of time series, in a snappy block.

Source: 'Prometheus Remote-Write 1.0 specification' (WriteRequest: 1 timeseries; TimeSeries: 1 labels, 2 samples; Label:
1 name, 2 value; Sample: 1 value, 2 timestamp in ms). Labels are sorted by name, that of the metric is `__name__`.

The block is snappy's, uncompressed: 'Snappy compressed format description' lets a block be literals alone, and a few
thousand numbers are some hundred kB.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.report.exchange.push.numbers import Number
from virtlab.report.exchange.push.protobuf import double, integer, message, text, varint
from virtlab.report.exchange.push.receiver import Receiver

LITERAL = 1 << 16  # bytes that one literal with a length of two bytes holds
TWO_BYTES = 61 << 2  # its tag


def encoded(numbers: Sequence[Number]) -> bytes:
    """The body of one request."""
    return literal_block(b"".join(map(_series, numbers)))


def _series(number: Number) -> bytes:
    labels = sorted({"__name__": number.name, **number.labels}.items())
    sample = message(2, double(1, number.value), integer(2, number.time_ns // 1_000_000))
    return message(1, *(message(1, text(1, name), text(2, value)) for name, value in labels), sample)


def literal_block(content: bytes) -> bytes:
    """A snappy block that holds the bytes as they are.

    >>> literal_block(b"snappy").hex()
    '06f40500736e61707079'
    """
    parts = [varint(len(content))]
    for at in range(0, len(content), LITERAL):
        piece = content[at : at + LITERAL]
        parts += [bytes([TWO_BYTES]), (len(piece) - 1).to_bytes(2, "little"), piece]
    return b"".join(parts)


RECEIVER = Receiver(
    "remote-write",
    "URL",
    encoded,
    {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "snappy",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    },
)
