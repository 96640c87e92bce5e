"""A regular expression with named groups: the group that bears the metric's name is the value, at every match.

The expressions are RE2's, in the syntax that Python has, too: no look-around and no back reference, so matching takes
time in proportion to the text, whatever both hold. DuckDB brings RE2 along, in a database that is opened once: polls
are read by the thousand.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING

from virtlab.databases import OwnDatabase
from virtlab.lazy import duckdb
from virtlab.outputs.unreadable import UnreadableError, finite

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PATTERN_MAX = 1000  # characters
_EXAMPLE = r"write e.g. 'rate=(?P<rate>[0-9.]+)'"
_own = OwnDatabase()


@lru_cache(maxsize=64)
def group_of(pattern: str, name: str) -> int:
    """The number of the group that bears a name. ValueError("WHAT; CURE") when the expression cannot be used."""
    if len(pattern) > PATTERN_MAX:
        raise ValueError(f"the expression has {len(pattern)} characters; write at most {PATTERN_MAX}")
    try:
        with warnings.catch_warnings():  # RE2 matches, so how a later Python reads it is no concern
            warnings.simplefilter("ignore")
            groups = re.compile(pattern).groupindex
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a valid regular expression: {error}; {_EXAMPLE}") from None
    if name not in groups:
        raise ValueError(f"no group is called '{name}'; write '(?P<{name}>...)' around the number")
    try:
        _matches("", pattern, groups[name])
    except UnreadableError as error:
        what = f"RE2, which takes no look-around and no back reference, refuses it: {error.what}"
        raise ValueError(f"{what}; {_EXAMPLE}") from None
    return groups[name]


def values(text: str, pattern: str, name: str) -> list[float]:
    """The numbers that a group matched. UnreadableError when nothing does, or something else."""
    found = matched(text, pattern, name)
    return [finite(one, 0, f"match {number} of {name},") for number, one in enumerate(found, start=1)]


def matched(text: str, pattern: str, name: str) -> list[str]:
    """What a group held at every match. UnreadableError when nothing matches."""
    found = _matches(text, pattern, group_of(pattern, name))
    if not found:
        raise UnreadableError(f"holds nothing that matches '{pattern[:80]}'")
    return found


def _matches(text: str, pattern: str, group: int) -> list[str]:
    try:
        row = (
            _own.get(_connect)
            .execute("SELECT regexp_extract_all(?, ?, ?)", [text, pattern, group])
            .fetchone()
        )
    except duckdb.Error as error:
        raise UnreadableError(" ".join(str(error).partition(": ")[2].split())[:120]) from None
    return list(row[0]) if row is not None else []


def _connect() -> DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})
