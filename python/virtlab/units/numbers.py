"""Numbers as people read them, by one rule wherever they stand: in tables, pages, terminals and sentences.

So many significant digits and no trailing zeros; the minus of a keyboard, so that a printed number can be pasted into a
file; an exponent only where digits would no longer be counted at a glance.
"""

from __future__ import annotations

import math

LONGEST_WHOLE, LONGEST_FRACTION = 9, 6  # digits before the point, zeros behind it
MINUS, THOUSANDS = "-", ","  # what stands before a negative number, and between the thousands of a count


def show_number(value: float, digits: int = 4) -> str:
    """The number with so many significant digits.

    >>> show_number(244.1604), show_number(0.0), show_number(1234567.0), show_number(-0.0001234, 3)
    ('244.2', '0', '1234567', '-0.000123')
    >>> show_number(2.5e12), show_number(-math.inf), show_number(math.nan)
    ('2.5e+12', '-∞', 'not a number')
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else f"{MINUS if value < 0 else ''}∞"
    if value == 0:
        return "0"
    whole = math.floor(math.log10(abs(value))) + 1
    if whole > LONGEST_WHOLE or whole < -LONGEST_FRACTION:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(digits - whole, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def show_count(count: int) -> str:
    """A count with all its digits.

    >>> show_count(1234567), show_count(-1000)
    ('1,234,567', '-1,000')
    """
    return f"{count:{THOUSANDS}}"
