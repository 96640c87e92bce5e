"""InfluxDB's line protocol: a line per number, its name the measurement, its labels the tags, one field `value`.

Source: 'Line protocol', InfluxData. Commas, spaces and equals signs in tags have a backslash before them. A backslash
at the end of a tag cannot be written at all, so each is sent as the set minus that looks like it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from virtlab.report.exchange.push.numbers import Number
from virtlab.report.exchange.push.receiver import Receiver

SPECIAL = re.compile(r"([,= ])")
LIKE_A_BACKSLASH = "\u2216"


def encoded(numbers: Sequence[Number]) -> bytes:
    """The body of one request."""
    return "".join(f"{_line(number)}\n" for number in numbers).encode()


def _line(number: Number) -> str:
    tags = "".join(f",{name}={_escaped(text)}" for name, text in sorted(number.labels.items()))
    return f"{number.name}{tags} value={number.value!r} {number.time_ns}"


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text.replace("\\", LIKE_A_BACKSLASH))


RECEIVER = Receiver("influx", "URL", encoded, {"Content-Type": "text/plain; charset=utf-8"})
