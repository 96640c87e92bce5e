"""Lengths of time as people read them: to the nanosecond where they are proved, in minutes where they are awaited."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from virtlab.units.quantities import Duration


def show_time(value_ns: Fraction | int) -> str:
    """The exact decimal where it is short, else a rounded one marked '~'.

    >>> show_time(Fraction(35_000_000, 3)), show_time(10_000_000), show_time(0), show_time(-1500)
    ('~11.666667 ms', '10 ms', '0 ns', '-1.5 us')
    """
    value = Fraction(value_ns)
    units = {name: size for name, size in Duration.units.items() if name not in {"min", "h"}}
    largest = max(abs(value), Fraction(1))
    name, size = max(
        ((name, size) for name, size in units.items() if size <= largest), key=lambda pair: pair[1]
    )
    scaled = value / size
    text = f"{float(scaled):.9g}"
    if Fraction(Decimal(text)) == scaled:
        return f"{Decimal(text).normalize():f} {name}"
    return f"~{float(scaled):.8g} {name}"


def show_wait(time_ns: int) -> str:
    """About how long something takes.

    >>> show_wait(45_000_000_000), show_wait(200_000_000_000), show_wait(9_000_000_000_000)
    ('45 s', '3 min 20 s', '2 h 30 min')
    """
    seconds = round(time_ns / 1e9)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
