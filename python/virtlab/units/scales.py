"""Numbers of metrics as people write them: `244.16 us`, `0.1 %`, `95.2 Mbit/s`; and the one table of their units.

Values are kept as floats in a metric's own unit (ns, ratio, bit/s, byte/s, 1/s, bytes, count); this file is the way
in, `displays` the way out. Unlike `quantities` it takes fractions of a nanosecond and signs, since a mean or a
difference has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from virtlab.units.nearest import meant_unit
from virtlab.units.quantities import NUMBER, exact_number

SCALES: dict[str, dict[str, float]] = {
    "ns": {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9},
    "ratio": {"%": 0.01, "pp": 0.01, "ratio": 1.0},  # pp: percentage points
    "bit/s": {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12},
    "byte/s": {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "KiB/s": 2.0**10, "MiB/s": 2.0**20},
    "1/s": {
        "1/s": 1.0, "/s": 1.0, "k/s": 1e3, "M/s": 1e6, "request/s": 1.0, "krequest/s": 1e3, "operation/s": 1.0,
        "koperation/s": 1e3,
    },
    "bytes": {
        "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
        "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    },
    "count": {"": 1.0, "packets": 1.0, "count": 1.0},
}  # fmt: skip

SHOWN = {
    "ns": ("ns", "µs", "ms", "s"),
    "ratio": ("%",),
    "bit/s": ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"),
    "byte/s": ("B/s", "kB/s", "MB/s", "GB/s"),
    "1/s": ("1/s", "k/s", "M/s"),
    "bytes": ("B", "kB", "MB", "GB", "TB"),
    "count": ("",),
}  # of SCALES, in which values are shown; each larger than the one before

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
    near = meant_unit(name, scales)
    usual = f"write one of {', '.join(known for known in scales if known)}, e.g. '{example}'"
    hint = f"did you mean '{text.strip().removesuffix(name).strip()} {near}'?" if near else usual
    raise ValueError(f"'{name}' is not a unit of this quantity; {hint}")


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


def same_level(level: str, other: str) -> bool:
    """Whether two spellings are one factor level.

    >>> same_level("30 kB", "30000 B"), same_level("sfq", "codel")
    (True, False)
    """
    number = level_number(level)
    return level == other or (number is not None and number == level_number(other))


def same_levels(here: Mapping[str, str], there: Mapping[str, str]) -> bool:
    """Whether two settings agree in every factor that both have.

    >>> same_levels({"load": "30 kB", "guests": "2"}, {"load": "30000 B"})
    True
    """
    return all(same_level(here[name], there[name]) for name in here.keys() & there.keys())
