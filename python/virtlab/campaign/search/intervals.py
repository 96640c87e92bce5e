"""Where to try next inside an interval, and how close to its ends: whole numbers of grid steps.

Source: draft-ietf-bmwg-mlrsearch; uneven halving keeps one part at a power of two times the width, so the last
halvings come out even.
"""

from __future__ import annotations


def middle(low: int, high: int, width: int) -> int:
    """A place inside low..high, which is wider than `width`; where halves differ, the lower one is the smaller.

    >>> middle(0, 8, 2), middle(0, 7, 2), middle(0, 3, 2)
    (4, 3, 1)
    """
    whole = high - low
    assert whole > width, "an interval that is narrow enough has no middle to try"
    if whole == 2 * width:
        return low + width
    if whole < 2 * width:
        return middle(low, high, width // 2) if width % 2 == 0 else low + whole // 2
    part = width
    while whole - 2 * part > 2 * part:
        part *= 2
    double = 2 * part
    smaller = part if part * (whole - part) > double * (whole - double) else whole - double
    return low + smaller


def kept_apart(place: int, width: int, low: int, high: int, *, low_open: bool, high_open: bool) -> int | None:
    """The place, moved so that it is at least a width from both ends; None when the interval has no room.

    An end that is open (a limit, not a bound measured already) may itself be tried, and what comes too close to
    it is tried there.
    """
    assert low <= place <= high, "a place outside the interval it is tried in"
    if width >= high - low:
        return low if low_open else high if high_open else None
    soft_low, soft_high = low + width, high - width
    if soft_low > soft_high:
        soft_low = soft_high = middle(low, high, width)
    if place < soft_low:
        return low if low_open else soft_low
    if place > soft_high:
        return high if high_open else soft_high
    return place


def within(place: int, width: int, low: int | None, high: int | None, steps: int) -> int | None:
    """The place kept apart from bounds (where there are some) and from the grid's ends; None: nothing to try."""
    place = max(0, min(place, steps))
    if low is not None and high is not None:
        if not low < place < high:
            return None
        return kept_apart(place, width, low, high, low_open=False, high_open=False)
    if high is not None:
        if high <= 0 or place >= high:
            return None
        return kept_apart(place, width, 0, high, low_open=True, high_open=False)
    if low is not None:
        assert low < place, "a search upwards asks for more than it has"
        return kept_apart(place, width, low, steps, low_open=False, high_open=True)
    return kept_apart(place, width, 0, steps, low_open=True, high_open=True)
