"""What a tool's output says, in our units and by our names, and nothing that it does not say.

Single samples are columns of our block schemas; a statistic that the tool computed itself is a `Summary`; a value per
instant of a machine or guest is a `Point`. Instants count from the tool's own first one: no other clock is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from virtlab.outputs import POINT_CURE, UnreadableError, finite

__all__ = [
    "POINT_CURE", "Point", "Summary", "ToolOutput", "UnreadableError", "cell", "nanoseconds", "number", "whole",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Summary:
    """One statistic as the tool printed it, of `samples` samples (0: it does not say)."""

    metric: str
    statistic: str
    value: float
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """A value of an entity at an instant, ns from the first."""

    t_ns: int
    entity: str
    metric: str
    value: float


@dataclass(slots=True)
class ToolOutput:
    """All that one output says. `workloads` are those it can be a result of; none: a series of machines and guests.

    `notes`: what it leaves out or reports otherwise than one might expect; the command prints them.
    """

    tool: str
    workloads: tuple[str, ...] = ()
    summaries: list[Summary] = field(default_factory=list)
    blocks: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  # of the measurement, with unit suffixes
    clock: str = "instants count from the tool's own first one"
    started: str = ""  # UTC, where it says
    notes: list[str] = field(default_factory=list)
    hosts: tuple[str, ...] = ()  # that it calls by names of its own, `hosts.NAME...`

    def add(self, metric: str, statistic: str, value: float, samples: int = 0) -> None:
        """One statistic."""
        self.summaries.append(Summary(metric, statistic, value, samples))

    def rows(self, schema: str, rows: Sequence[Mapping[str, int]]) -> None:
        """Samples of a schema; nothing for no rows."""
        if rows:
            self.blocks[schema] = {name: [row[name] for row in rows] for name in rows[0]}


def number(text: str, line: int, name: str) -> float:
    """A finite number that is not below 0. UnreadableError for other text.

    >>> number("1024.5", 3, "rate")
    1024.5
    >>> number("29,5", 3, "rate")
    Traceback (most recent call last):
    virtlab.outputs.unreadable.UnreadableError: rate '29,5' has a comma, where '.' begins the decimals
    """
    value = finite(text, line, name)
    if value < 0:
        raise UnreadableError(f"{name} '{text[:40]}' is not a number of its kind", line)
    return value


def cell(row: Mapping[str, str], key: str, line: int) -> float:
    """A number of a row by its heading. UnreadableError when there is no such heading."""
    if key not in row:
        raise UnreadableError(f"there is no heading '{key}'", line)
    return number(row[key], line, key)


def whole(text: str, line: int, name: str) -> int:
    """A whole number that is not below 0 and fits 62 bits."""
    value = number(text, line, name)
    if value != int(value) or value >= 2**62:
        raise UnreadableError(f"{name} '{text[:40]}' is not a whole number", line)
    return int(value)


def nanoseconds(value: float, unit_ns: float, line: int, name: str) -> int:
    """A time in ns. UnreadableError beyond a century."""
    found = value * unit_ns
    if not 0 <= found < 3.2e18:
        raise UnreadableError(f"{name} {value} is not a time that was measured", line)
    return round(found)
