"""Instants as tools write them: of a day, or of a calendar; counted in ns from the first."""

from __future__ import annotations

import datetime
import re

from virtlab.campaign.imported.told import UnreadableError

DAY_NS = 86_400_000_000_000
_TIME = re.compile(r"^(\d{1,2}):(\d{2}):(\d{2})(?: ([AP]M))?$")
_FORMATS = (
    "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%m/%d/%Y %H:%M:%S", "%m/%d/%y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p", "%m/%d/%y %I:%M:%S %p", "%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S UTC",
)  # fmt: skip


class Instants:
    """Turns instants into ns from the first; a time of day that goes back is the next day's."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._last = 0

    def of(self, text: str, line: int) -> int:
        """UnreadableError when the text is no instant, or one before the one before."""
        at = _of_day(text) if _TIME.match(text) else _of_calendar(text)
        if at is None:
            raise UnreadableError(f"'{text[:40]}' is no instant", line)
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


def _of_calendar(text: str) -> int | None:
    for form in _FORMATS:
        try:
            found = datetime.datetime.strptime(text.strip(), form)
        except ValueError:
            continue
        found = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
        return int(found.timestamp()) * 1_000_000_000
    return None
