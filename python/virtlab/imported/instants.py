"""Instants as tools write them: of a day, or of a calendar; counted in ns from the first.

`05/06/2018` is in May or in June, by the language of the system that wrote it. Samples follow each other within a
day, so an output as a whole mostly shows it; where it does not, and where it would matter, nothing is
guessed.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterable

from virtlab.imported.output import UnreadableError

DAY_NS = 86_400_000_000_000
_TIME = re.compile(r"^(\d{1,2}):(\d{2}):(\d{2})(?: ([AP]M))?$")
_SLASHED = re.compile(r"^\d{1,2}/\d{1,2}/(?:\d{4}|\d{2}) ")
_DAY_CURE = "write instants as 2018-05-31 23:59:40"
_FORMATS = (
    "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%m/%d/%Y %H:%M:%S", "%m/%d/%y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p", "%m/%d/%y %I:%M:%S %p", "%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S UTC",
)  # fmt: skip


class Instants:
    """Turns instants into ns from the first; a time of day that goes back is the next day's."""

    def __init__(self, *, day_first: bool = False) -> None:
        self._day_first = day_first
        self._first: int | None = None
        self._last = 0

    def of(self, text: str, line: int) -> int:
        """UnreadableError when the text is no instant, or one before the one before."""
        at = _of_day(text) if _TIME.match(text) else calendar_ns(text, day_first=self._day_first)
        if at is None:
            raise UnreadableError(f"'{text[:40]}' is not an instant", line)
        if self._first is None:
            self._first = self._last = at
        if at < self._last and _TIME.match(text):
            at += DAY_NS * (1 + (self._last - at) // DAY_NS)
        if at < self._last:
            raise UnreadableError(f"'{text[:40]}' is before the instant before", line)
        self._last = at
        return at - self._first


def _of_day(text: str) -> int | None:
    match = _TIME.match(text)
    assert match is not None
    hours, minutes, seconds = (int(match[group]) for group in (1, 2, 3))
    if match[4]:
        hours = hours % 12 + (12 if match[4] == "PM" else 0)
    if hours > 23 or minutes > 59 or seconds > 60:
        return None
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000_000


def calendar_ns(text: str, *, day_first: bool = False) -> int | None:
    """ns since 1970 of an instant with its day, as UTC where it has no zone; None for other text.

    >>> [calendar_ns("02/01/1970 00:00:00", day_first=first) // DAY_NS for first in (False, True)]
    [31, 1]
    """
    for form in (one.replace("%m/%d/", "%d/%m/") for one in _FORMATS) if day_first else _FORMATS:
        try:
            found = datetime.datetime.strptime(text.strip(), form)
        except ValueError:
            continue
        found = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
        return int(found.timestamp()) * 1_000_000_000
    return None


def day_comes_first(stamps: Iterable[str]) -> bool:
    """Whether `a/b/year` in all of these is a day and then a month. UnreadableError where that matters and cannot
    be told.

    The reading is taken in which every stamp is an instant; of two such, that without gaps of more than a day.

    >>> day_comes_first(["05/31/2018 23:59:40", "06/01/2018 00:00:00"])
    False
    >>> day_comes_first(["05/06/2018 23:59:40", "06/06/2018 00:00:00"])
    True
    """
    slashed = {stamp.strip() for stamp in stamps if _SLASHED.match(stamp.strip())}
    if len({stamp.partition(" ")[0] for stamp in slashed}) < 2:
        # One day: instants are the same time apart either way, if it is a day either way.
        return any(calendar_ns(stamp) is None for stamp in slashed)
    found = {
        reading: [calendar_ns(stamp, day_first=reading) for stamp in slashed] for reading in (False, True)
    }
    possible = [reading for reading, instants in found.items() if None not in instants]
    if len(possible) == 2:
        possible = [reading for reading in possible if _continuous(found[reading])]
        if len(possible) != 1:
            raise UnreadableError(
                f"whether '{min(slashed)[:20]}' begins with its day or its month cannot be told", 0, _DAY_CURE
            )
    return possible == [True]


def _continuous(instants: Iterable[int | None]) -> bool:
    known = sorted(at for at in instants if at is not None)
    return all(later - earlier <= DAY_NS for earlier, later in itertools.pairwise(known))
