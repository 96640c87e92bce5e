"""Numbers as people read them: a display unit that fits the range, and no more digits than the interval
supports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from virtlab.units.numbers import show_number
from virtlab.units.quantities import Bitrate, Duration, PacketSize, Ratio, Size

_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")),
    "bit/s": ((1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")),
    "byte/s": ((1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")),
    "B": ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")),
    "1/s": ((1.0, "1/s"), (1e3, "thousand/s"), (1e6, "million/s")),
    "count": ((1.0, ""),),
    "ratio": ((0.01, "%"),),
}
_ALIASES = {"bytes": "B"}


@dataclass(frozen=True, slots=True)
class Display:
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
    >>> display("ratio", [0.02])
    Display(size=0.01, unit='%')
    """
    base = _ALIASES.get(unit, unit)
    scales = _SCALES.get(base)
    if scales is None:
        return Display(1.0, base)
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return next(
        (Display(size, name) for size, name in reversed(scales) if largest >= size), Display(*scales[0])
    )


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
    >>> interval(None, 244_300.0, None, Display(1e3, "µs"))
    '244.3 µs'
    """
    if low is None and high is None:
        return shown.text(point)
    low_end, high_end = -math.inf if low is None else low, math.inf if high is None else high
    digits = interval_digits(low_end, high_end)
    return f"{shown.text(point, digits)} [{shown.number(low_end, digits)}, {shown.number(high_end, digits)}]"


def numeric_levels(levels: Iterable[str]) -> tuple[list[float], str] | None:
    """The levels as numbers of one unit ('0 B', '30 kB' -> bytes), with that unit; None when they are names.

    >>> numeric_levels(["0 B", "30 kB"])
    ([0.0, 30000.0], 'B')
    >>> numeric_levels(["1", "2"]), numeric_levels(["fifo", "sfq"])
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
    )
    for parse, unit in parsers:
        try:
            numbers = [float(parse(text)) for text in texts]
        except ValueError:
            continue
        if len(set(numbers)) == len(numbers):
            return numbers, unit
    return None
