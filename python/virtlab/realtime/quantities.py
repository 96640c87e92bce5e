"""Exact times and shares: text to fractions of a nanosecond, and back.

Answers of this room are fractions (35/3 ms is not a whole number of ns), so a time here is a `Fraction` of ns where
`virtlab.units.Duration` would round. A number without a unit is refused, as everywhere.
"""

from __future__ import annotations

import re
from fractions import Fraction

from virtlab.units import Duration, exact_number

_TIME = re.compile(r"\s*([+-]?[0-9._]+(?:[eE][+-]?[0-9]+)?(?:\s*/\s*[0-9]+)?)\s*([a-zµμ]*)\s*\Z")


def parse_time_ns(text: str) -> Fraction:
    """Nanoseconds of text such as '200 us', '1.5 ms' or '35/3 ms'. ValueError says what is wrong with it.

    >>> parse_time_ns("35/3 us"), parse_time_ns("0.5 ns")
    (Fraction(35000, 3), Fraction(1, 2))
    >>> parse_time_ns("10")
    Traceback (most recent call last):
    ValueError: '10' has no unit; write e.g. '10 ms'
    """
    match = _TIME.match(text)
    if not match:
        raise ValueError(f"'{text.strip()}' is not a time; write e.g. '10 ms'")
    unit = match[2].replace("µ", "u").replace("μ", "u")
    if not unit:
        raise ValueError(f"'{text.strip()}' has no unit; write e.g. '{text.strip()} ms'")
    if unit not in Duration.units:
        raise ValueError(f"'{unit}' is not a unit of time; write one of {', '.join(Duration.units)}")
    return exact_fraction(match[1], text) * Duration.units[unit]


def parse_share(text: str) -> Fraction:
    """A share of one CPU, above 0 and at most 1: '0.4', '40 %' or '2/5'. ValueError says what is wrong with it.

    >>> parse_share("40 %") == parse_share("0.4") == parse_share("2/5")
    True
    """
    bare = text.strip()
    value = exact_fraction(bare[:-1], text) / 100 if bare.endswith("%") else exact_fraction(bare, text)
    if not 0 < value <= 1:
        raise ValueError(f"'{bare}' is not a share of a CPU; write a number above 0 and at most 1, or '40 %'")
    return value


def exact_fraction(text: str, whole: str) -> Fraction:
    """The number or fraction that a text is; ValueError quotes the `whole` in which it stands."""
    try:
        top, _, bottom = text.replace("_", "").partition("/")
        value = Fraction(exact_number(top))
        return value / Fraction(exact_number(bottom)) if bottom else value
    except ZeroDivisionError:
        raise ValueError(f"'{whole.strip()}' is not a number") from None


def fraction_text(value: Fraction | int) -> str:
    """'p/q', or 'p' for a whole number: the exact form of `--json`.

    >>> fraction_text(Fraction(35, 3)), fraction_text(Fraction(10))
    ('35/3', '10')
    """
    return str(Fraction(value))
