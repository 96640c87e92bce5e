"""Times in a program's output: when each number of a series was measured, as the program itself says it.

A time counts from the program's start, from 1970 (`epoch`), or is a text of ISO 8601 with its zone. Numbers are read as
decimals, so that a nanosecond since 1970 is not lost in a float. Which instant of the run one is, is not known here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation, Overflow
from typing import Any, NamedTuple

from virtlab.outputs.unreadable import POINT_CURE, SHOWN, UnreadableError
from virtlab.units.scales import SCALES

START, EPOCH, ISO = "start", "epoch", "iso8601"
CLOCKS = (START, EPOCH, ISO)
UNITS = ("s", "ms", "us", "ns")
KEYS: Mapping[str, str] = {
    "time": "where the time of each number is, named as the number is: a path, a group or a column",
    "clock": "what times count from: 'start' of the program (if absent), 'epoch' (1970, UTC), or 'iso8601' as texts",
    "time_unit": "of times that are numbers: s (if absent), ms, us, ns",
}
_FAR_NS = 1 << 62
_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ZONED = "print times with their zone, e.g. 2026-01-31T12:00:00.5Z"


class Written(NamedTuple):
    """A time as the output has it: its line, 0 where it has none, and its place in words."""

    value: Any
    line: int
    where: str


class Stamp(NamedTuple):
    """Nanoseconds since what its clock counts from."""

    ns: int
    line: int
    where: str


def mistakes(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with the keys that say when: at which of them, and "WHAT; CURE"."""
    if "time" not in entry:
        for name in ("clock", "time_unit"):
            if name in entry:
                yield (
                    name,
                    f"'{name}' speaks of times, and no 'time' says where they are; write 'time', or remove it",
                )
        return
    if (clock := entry.get("clock", START)) not in CLOCKS:
        yield "clock", f"'{str(clock)[:SHOWN]}' is not a known clock; write one of {', '.join(CLOCKS)}"
    if (unit := entry.get("time_unit", "s")) not in UNITS:
        yield "time_unit", f"'{str(unit)[:SHOWN]}' is not a unit of time; write one of {', '.join(UNITS)}"
    elif clock == ISO and "time_unit" in entry:
        yield "time_unit", f"texts of {ISO} have no unit; remove it"


def stamps(written: list[Written], entry: Mapping[str, Any]) -> list[Stamp]:
    """Each time as nanoseconds. UnreadableError where one is no time of the entry's clock.

    >>> stamps([Written("1.5", 2, "at")], {"time": "at"}), stamps([Written(250, 0, "at")], {"time_unit": "ms"})
    ([Stamp(ns=1500000000, line=2, where='at')], [Stamp(ns=250000000, line=0, where='at')])
    >>> stamps([Written("1970-01-01T01:00:00+01:00", 1, "at")], {"clock": "iso8601"})
    [Stamp(ns=0, line=1, where='at')]
    """
    iso = entry.get("clock", START) == ISO
    size = Decimal(round(SCALES["ns"][str(entry.get("time_unit", "s"))]))
    return [Stamp(_of_text(one) if iso else _of_number(one, size), one.line, one.where) for one in written]


def _of_number(written: Written, size: Decimal) -> int:
    text = _shown(written)
    if isinstance(written.value, str) and "," in written.value:
        raise UnreadableError(
            f"{written.where} '{text}' has a comma, where '.' begins the decimals", written.line, POINT_CURE
        )
    try:
        if isinstance(written.value, bool) or not isinstance(written.value, str | int | float) or "_" in text:
            raise InvalidOperation
        ns = Decimal(str(written.value).strip()) * size
    except Overflow:  # above 10**999999, where decimals end
        ns = Decimal("Infinity")
    except (InvalidOperation, ValueError):  # ValueError: an integer of more digits than Python writes
        raise UnreadableError(
            f"{written.where} '{text}' is not a number, and no time", written.line
        ) from None
    if not ns.is_finite() or abs(ns) >= _FAR_NS:
        raise UnreadableError(f"{written.where} '{text}' is beyond all times", written.line)
    return int(ns)


def _of_text(written: Written) -> int:
    try:
        if not isinstance(written.value, str):
            raise ValueError
        found = dt.datetime.fromisoformat(written.value.strip())
    except ValueError:
        raise UnreadableError(
            f"{written.where} '{_shown(written)}' is not a time in ISO 8601 form", written.line
        ) from None
    if found.tzinfo is None:
        raise UnreadableError(f"{written.where} '{_shown(written)}' has no zone", written.line, _ZONED)
    since = found - _1970
    return ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000


def _shown(written: Written) -> str:
    text = written.value if isinstance(written.value, str) else type(written.value).__name__
    if isinstance(written.value, int | float) and not isinstance(written.value, bool):
        text = f"{written.value:.6g}"
    return " ".join(text[:SHOWN].split())
