"""Quantities as people read them: a unit that fits the range, and no more digits than the interval supports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from virtlab.units.numbers import show_number
from virtlab.units.quantities import Bitrate, Duration, PacketSize, Ratio, Size
from virtlab.units.scales import SCALES, SHOWN, parse_quantity

_ALIASES = {"B": "bytes"}
WANTED_DIGITS = 6  # of an interval that somebody wrote down, and that no sample limits


class Display(NamedTuple):
    """How values of one unit are written: divide by `size`, append `unit`."""

    size: float
    unit: str

    def number(self, value: float, digits: int = 4) -> str:
        """The number alone.

        >>> Display(1e6, "ms").number(1234567.0)
        '1.235'
        """
        return show_number(value / self.size, digits)

    def text(self, value: float, digits: int = 4) -> str:
        """Number and unit.

        >>> Display(1e3, "µs").text(244_160.0)
        '244.2 µs'
        """
        return f"{self.number(value, digits)} {self.unit}".strip()


def display(unit: str, values: Iterable[float]) -> Display:
    """The display unit in which the largest of the values has one to three digits before the point.

    >>> display("ns", [488_320.0, 732_480.0])
    Display(size=1000.0, unit='µs')
    >>> display("ratio", [0.02]), display("furlong", [5e9])
    (Display(size=0.01, unit='%'), Display(size=1.0, unit='furlong'))
    """
    base = _ALIASES.get(unit, unit)
    if base not in SHOWN:
        return Display(1.0, base)
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    rising = [Display(SCALES[base][name], name) for name in SHOWN[base]]
    return next((one for one in reversed(rising) if largest >= one.size), rising[0])


def interval_digits(low: float, high: float, digits: int = 2) -> int:
    """Significant digits of the larger end so that the interval's width shows `digits` of its own.

    >>> interval_digits(244.16, 244.52)
    5
    """
    width, size = abs(high - low), max(abs(high), abs(low))
    if width == 0 or size == 0 or not (math.isfinite(width) and math.isfinite(size)):
        return 4
    return max(2, min(9, math.floor(math.log10(size)) - math.floor(math.log10(width)) + digits))


def interval(low: float | None, point: float, high: float | None, shown: Display) -> str:
    """Point and interval with the digits that the interval supports.

    >>> interval(244_160.0, 244_300.0, 244_520.0, Display(1e3, "µs"))
    '244.3 µs [244.16, 244.52]'
    >>> interval(None, 244_300.0, None, Display(1e3, "µs")), interval(None, 2.0, 3.0, Display(1.0, ""))
    ('244.3 µs', '2 [not estimable, 3]')
    """
    if low is None and high is None:
        return shown.text(point)
    digits = _digits(low, high)
    return f"{shown.text(point, digits)} [{_end(low, shown, digits)}, {_end(high, shown, digits)}]"


def show_quantity(value: float, unit: str, digits: int = 4) -> str:
    """The value in the unit that reads best.

    >>> show_quantity(244_160, "ns"), show_quantity(0.00123, "ratio"), show_quantity(95.2e6, "bit/s")
    ('244.2 µs', '0.123 %', '95.2 Mbit/s')
    """
    return display(unit, [value]).text(value, digits)


def show_interval(low: float | None, high: float | None, unit: str, digits: int | None = None) -> str:
    """An interval in a sentence, in one unit for both ends, with the digits that it supports unless they are given.

    >>> show_interval(239_100, 251_500, "ns"), show_interval(239_100, 251_500, "ns", WANTED_DIGITS)
    ('239 to 252 µs', '239.1 to 251.5 µs')
    >>> show_interval(None, 2.0, "count")
    'not estimable to 2'
    """
    shown = display(unit, [end for end in (low, high) if end is not None])
    digits = _digits(low, high) if digits is None else digits
    return f"{_end(low, shown, digits)} to {_end(high, shown, digits)} {shown.unit}".rstrip()


def _digits(low: float | None, high: float | None) -> int:
    return interval_digits(-math.inf if low is None else low, math.inf if high is None else high)


def _end(end: float | None, shown: Display, digits: int) -> str:
    return "not estimable" if end is None else shown.number(end, digits)


def numeric_levels(levels: Iterable[str]) -> tuple[list[float], str] | None:
    """The levels as numbers of one unit ('0 B', '30 kB' -> bytes), with that unit; None when they are names.

    >>> numeric_levels(["0 B", "30 kB"])
    ([0.0, 30000.0], 'B')
    >>> numeric_levels(["500 request/s", "2 krequest/s"])
    ([500.0, 2000.0], '1/s')
    >>> numeric_levels(["1", "2"]), numeric_levels(["short", "long"])
    (([1.0, 2.0], ''), None)
    """
    texts = list(levels)
    try:
        return [float(text) for text in texts], ""
    except ValueError:
        pass
    parsers: tuple[tuple[Callable[[str], float], str], ...] = (
        (lambda text: Size.parse(text).size_bytes, "B"),
        (lambda text: Duration.parse(text).ns, "ns"),
        (lambda text: Bitrate.parse(text).bit_per_s, "bit/s"),
        (lambda text: Ratio.parse(text).ratio, "ratio"),
        (lambda text: PacketSize.parse(text).size_bytes, "B"),
        (lambda text: parse_quantity(text, "1/s"), "1/s"),
    )
    for parse, unit in parsers:
        try:
            numbers = [float(parse(text)) for text in texts]
        except ValueError:
            continue
        if len(set(numbers)) == len(numbers):
            return numbers, unit
    return None
