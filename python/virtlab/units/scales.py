"""Numbers of metrics as people write and read them: `244.16 us`, `0.1 %`, `95.2 Mbit/s`.

Values are kept as floats in a metric's own unit (ns, ratio, bit/s, byte/s, 1/s, bytes, count); this file is the way
in and out. Unlike `virtlab.units` it takes fractions of a nanosecond and signs, since a mean or a difference
has them.
"""

from __future__ import annotations

from decimal import Decimal

from virtlab.units.numbers import show_number
from virtlab.units.quantities import NUMBER, exact_number

SCALES: dict[str, dict[str, float]] = {
    "ns": {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9},
    "ratio": {"%": 0.01, "pp": 0.01, "ratio": 1.0},  # pp: percentage points
    "bit/s": {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12},
    "byte/s": {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "KiB/s": 2.0**10, "MiB/s": 2.0**20},
    "1/s": {"1/s": 1.0, "/s": 1.0, "k/s": 1e3, "M/s": 1e6},
    "bytes": {
        "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
        "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    },
    "count": {"": 1.0, "packets": 1.0, "count": 1.0},
}  # fmt: skip

_EXAMPLES = {
    "ns": "200 us",
    "ratio": "0.1 %",
    "bit/s": "95 Mbit/s",
    "byte/s": "300 kB/s",
    "1/s": "1000 1/s",
    "bytes": "30 kB",
    "count": "3",
}


def split_quantity(text: str) -> tuple[Decimal, str] | None:
    """The number and its unit ('' when bare); None when the text does not begin with a number.

    ValueError where the number is beyond every quantity.

    >>> split_quantity("30 kB"), split_quantity("ovs")
    ((Decimal('30'), 'kB'), None)
    """
    match = NUMBER.match(text)
    return (exact_number(match[1]), match[2] or "") if match else None


def parse_quantity(text: str, unit: str) -> float:
    """The value in `unit` (a key of SCALES). ValueError says what is wrong and what to write.

    >>> parse_quantity("244.16 us", "ns"), parse_quantity("0.1 %", "ratio")
    (244160.0, 0.001)
    >>> parse_quantity("5", "ns")
    Traceback (most recent call last):
    ValueError: '5' has no unit; write e.g. '5 us'
    """
    parts = split_quantity(text)
    example = _EXAMPLES[unit]
    if parts is None:
        raise ValueError(f"'{text}' is not a number with a unit; write e.g. '{example}'")
    number, name = parts
    scales = SCALES[unit]
    if name in scales:
        return float(number * Decimal(str(scales[name])))
    if not name:
        raise ValueError(
            f"'{text.strip()}' has no unit; write e.g. '{text.strip()} {example.split(' ')[-1]}'"
        )
    near = next((known for known in scales if known.lower() == name.lower()), None)
    hint = (
        f"did you mean '{near}'?" if near else f"write one of {', '.join(known for known in scales if known)}"
    )
    raise ValueError(f"'{name}' is not a unit of this quantity; {hint}, e.g. '{example}'")


def level_number(text: str) -> float | None:
    """A factor level as a number when it is one ('30 kB' -> 30000.0, '2' -> 2.0), else None ('ovs').

    >>> level_number("30 kB"), level_number("2"), level_number("1500 B ip_packet"), level_number("ovs")
    (30000.0, 2.0, 1500.0, None)
    """
    try:
        parts = split_quantity(text)
    except ValueError:
        return None
    if parts is None:
        return None
    number, name = parts
    if not name:
        return float(number)
    for candidate in (name, name.rsplit(" ", 1)[0]):
        for scales in SCALES.values():
            if candidate in scales:
                return float(number * Decimal(str(scales[candidate])))
    return None


def scale_of(magnitude: float, unit: str) -> tuple[str, float]:
    """The name and size of the unit in which a number of this magnitude reads best.

    >>> scale_of(244_160, "ns"), scale_of(0.001, "ratio")
    (('µs', 1000.0), ('%', 0.01))
    """
    if unit == "ratio":
        return "%", 0.01
    if unit not in SCALES:
        return unit, 1.0
    plain = {
        name: size
        for name, size in SCALES[unit].items()
        if name not in {"min", "h", "us", "μs", "", "packets", "/s"} and "i" not in name.removesuffix("bit/s")
    }
    if unit == "count":
        return "", 1.0
    fitting = [(name, size) for name, size in plain.items() if size <= abs(magnitude)]
    return max(fitting, key=lambda pair: pair[1]) if fitting else min(plain.items(), key=lambda pair: pair[1])


def show_quantity(value: float, unit: str, digits: int = 4) -> str:
    """The value in the scale that reads best, with its unit.

    >>> show_quantity(244_160, "ns"), show_quantity(0.00123, "ratio"), show_quantity(95.2e6, "bit/s")
    ('244.2 µs', '0.123 %', '95.2 Mbit/s')
    """
    name, size = scale_of(value, unit)
    return f"{show_number(value / size, digits)} {name}".rstrip()


def show_interval(low: float | None, high: float | None, unit: str, digits: int = 4) -> str:
    """An interval in one scale for both ends; an end that is not estimable is shown as such.

    >>> show_interval(239_000, 251_500, "ns"), show_interval(None, 2.0, "count")
    ('239 to 251.5 µs', 'not estimable to 2')
    """
    name, size = scale_of(max((abs(end) for end in (low, high) if end is not None), default=0.0), unit)
    ends = ["not estimable" if end is None else show_number(end / size, digits) for end in (low, high)]
    return f"{ends[0]} to {ends[1]} {name}".rstrip()
