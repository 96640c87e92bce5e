"""Quantities at the edge: every one carries its unit, a bare number is refused.

Inside virtlab a quantity is an SI integer whose name ends in its unit (`rate_bit_per_s`, `interval_ns`, `burst_bytes`).
This file is where text becomes such an integer and back; it is exact (decimal arithmetic) and knows nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Self

from virtlab.units.nearest import meant_unit

NUMBER = re.compile(r"\s*([+-]?(?:[0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(\S.*?)?\s*\Z")

_LONGEST = 60  # characters of a number; no quantity needs as many
_LARGEST = (
    99  # of an exponent of ten; arithmetic with an exponent of many digits takes memory and time without end
)


def exact_number(text: str) -> Decimal:
    """The number that a text writes in decimal digits. ValueError if it is not a number, or beyond every quantity.

    >>> exact_number("1e99999999")
    Traceback (most recent call last):
    ValueError: '1e99999999' is beyond every quantity; write fewer digits
    """
    bare = text.strip().replace("_", "")
    exponent = bare.lower().partition("e")[2].lstrip("+-")
    if len(bare) > _LONGEST or (exponent.isdecimal() and int(exponent) > _LARGEST):
        raise ValueError(f"'{bare[:40]}' is beyond every quantity; write fewer digits")
    try:
        number = Decimal(bare)
    except ArithmeticError:
        number = Decimal("nan")
    if not (bare.isascii() and number.is_finite()):
        raise ValueError(f"'{bare}' is not a number; write decimal digits, 0 to 9")
    return number


def _split(text: str, example: str) -> tuple[Decimal, str]:
    match = NUMBER.match(text)
    if not match:
        raise ValueError(f"'{text}' is not a number with a unit; write e.g. '{example}'")
    if not match[2]:
        raise ValueError(f"'{text.strip()}' has no unit; write e.g. '{example}'")
    return exact_number(match[1]), match[2]


def _whole(value: Decimal, text: str, unit: str) -> int:
    if value != value.to_integral_value():
        raise ValueError(f"'{text}' is not a whole number of {unit}")
    return int(value)


@dataclass(frozen=True, slots=True, order=True)
class Bitrate:
    """A rate in bit/s; SI prefixes only (1 Mbit/s = 10**6 bit/s).

    >>> Bitrate.parse("10 Mbit/s")
    Bitrate(bit_per_s=10000000)
    >>> Bitrate.parse("10")
    Traceback (most recent call last):
    ValueError: '10' has no unit; write e.g. '10 Mbit/s'
    >>> str(Bitrate(2_500_000))
    '2.5 Mbit/s'
    """

    bit_per_s: int
    units: ClassVar[dict[str, int]] = {
        "bit/s": 1,
        "kbit/s": 10**3,
        "Mbit/s": 10**6,
        "Gbit/s": 10**9,
        "Tbit/s": 10**12,
    }
    example: ClassVar[str] = "10 Mbit/s"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From text such as '100 Mbit/s'. ValueError when the unit is missing or unknown, or the rate is not
        positive.
        """
        return cls(_parse(text, cls.units, cls.example, "bit/s", positive=True))

    def __str__(self) -> str:
        return _show(self.bit_per_s, self.units)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in whole nanoseconds.

    >>> Duration.parse("0.1 s"), str(Duration(1_500_000))
    (Duration(ns=100000000), '1.5 ms')
    """

    ns: int
    units: ClassVar[dict[str, int]] = {
        "ns": 1,
        "us": 10**3,
        "ms": 10**6,
        "s": 10**9,
        "min": 60 * 10**9,
        "h": 3600 * 10**9,
    }
    example: ClassVar[str] = "200 us"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From text such as '200 us'. ValueError when the unit is missing or unknown, or the time negative."""
        return cls(
            _parse(text.replace("µs", "us").replace("μs", "us"), cls.units, cls.example, "ns", positive=False)
        )

    def __str__(self) -> str:
        return _show(self.ns, {name: size for name, size in self.units.items() if name not in {"min", "h"}})


SECTOR_BYTES = 512  # of which a disk holds whole ones
PAGE_BYTES = 4096  # of every processor that virtlab measures on


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """A number of bytes; kB = 10**3, KiB = 2**10.

    >>> Size.parse("30 kB"), Size.parse("64 KiB"), str(Size(1500))
    (Size(size_bytes=30000), Size(size_bytes=65536), '1500 B')
    """

    size_bytes: int
    units: ClassVar[dict[str, int]] = {
        "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
        "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    }  # fmt: skip
    example: ClassVar[str] = "1500 B"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From text such as '30 kB'. ValueError when the unit is missing or unknown, or the size negative."""
        return cls(_parse(text, cls.units, cls.example, "bytes", positive=False))

    def __str__(self) -> str:
        if self.size_bytes < 10_000 or self.size_bytes % 100:
            return f"{self.size_bytes} B"
        return _show(self.size_bytes, {name: size for name, size in self.units.items() if "i" not in name})


@dataclass(frozen=True, slots=True, order=True)
class PacketSize:
    """A size in bytes that says what it is the size of.

    `layer` is 'frame' (header to FCS), 'ip_packet' (IP header and what follows) or 'payload' (behind UDP, TCP or ICMP).

    >>> PacketSize.parse("1500 B ip_packet")
    PacketSize(size_bytes=1500, layer='ip_packet')
    >>> PacketSize.parse("1500 B")
    Traceback (most recent call last):
    ValueError: '1500 B' does not say what it is the size of; write '1500 B frame', '1500 B ip_packet' or '1500 B payload'
    """

    size_bytes: int
    layer: str
    layers: ClassVar[tuple[str, ...]] = ("frame", "ip_packet", "payload")
    example: ClassVar[str] = "1500 B ip_packet"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From text such as '64 B frame'. ValueError when the layer or the unit is missing or unknown."""
        size, _, layer = text.strip().rpartition(" ")
        if layer not in cls.layers:
            choices = [f"'{text.strip()} {name}'" for name in cls.layers]
            if layer in Size.units or not size:
                Size.parse(text)
                raise ValueError(
                    f"'{text.strip()}' does not say what it is the size of; write {', '.join(choices[:-1])} or {choices[-1]}"
                )
            raise ValueError(
                f"'{layer}' is not a layer; write one of {', '.join(cls.layers)}, e.g. '{cls.example}'"
            )
        return cls(Size.parse(size).size_bytes, layer)

    def __str__(self) -> str:
        return f"{Size(self.size_bytes)} {self.layer}"


@dataclass(frozen=True, slots=True, order=True)
class Ratio:
    """A share between 0 and 1, written as a number with '%' or as 'ratio'.

    >>> Ratio.parse("0.1 %"), Ratio.parse("0.25 ratio")
    (Ratio(ratio=0.001), Ratio(ratio=0.25))
    """

    ratio: float
    example: ClassVar[str] = "5 %"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From text such as '5 %'. ValueError when the unit is missing or unknown, or the share negative."""
        value, unit = _split(text, cls.example)
        if unit not in {"%", "ratio"}:
            raise ValueError(f"'{unit}' is not a unit of a ratio; write '%' or 'ratio', e.g. '{cls.example}'")
        if value < 0:
            raise ValueError(f"'{text.strip()}' is negative")
        return cls(float(value / 100 if unit == "%" else value))

    def __str__(self) -> str:
        return f"{self.ratio * 100:g} %"


def _parse(text: str, units: dict[str, int], example: str, base: str, *, positive: bool) -> int:
    value, unit = _split(text, example)
    if unit not in units:
        near = meant_unit(unit, units)
        usual = f"write one of {', '.join(units)}, e.g. '{example}'"
        hint = f"did you mean '{text.strip().removesuffix(unit).strip()} {near}'?" if near else usual
        raise ValueError(f"'{unit}' is not a unit of this quantity; {hint}")
    number = _whole(value * units[unit], text.strip(), base)
    if number < 0 or (positive and number == 0):
        raise ValueError(f"'{text.strip()}' must be {'more than zero' if positive else 'zero or more'}")
    return number


def _show(number: int, units: dict[str, int]) -> str:
    """The number in its largest unit that leaves at least one whole."""
    name, size = max(((n, s) for n, s in units.items() if s <= max(abs(number), 1)), key=lambda pair: pair[1])
    return f"{(Decimal(number) / size).normalize():f} {name}"
