"""Mistakes of an experiment file: each says where (line, column, path), what is wrong, and the cure.

All mistakes of a file are collected and raised at once, so its author sees the whole list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from virtlab.errors import ExperimentError, shortened


class Mistake(NamedTuple):
    """One mistake; line and column count from 1, `path` is as `roles.probe.size`.

    >>> print(Mistake(4, 9, "link.rate", "'100' has no unit", "write e.g. '10 Mbit/s'"))
    line 4, column 9: link.rate: '100' has no unit; write e.g. '10 Mbit/s'
    """

    line: int
    column: int
    path: str
    what: str
    cure: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        tail = f"; {self.cure}" if self.cure else ""
        return f"line {self.line}, column {self.column}: {where}{self.what}{tail}"


class FileMistakesError(ExperimentError):
    """Every mistake of one experiment file, in the order of its lines."""

    def __init__(self, name: str, mistakes: Iterable[Mistake]) -> None:
        self.name = name
        self.mistakes: tuple[Mistake, ...] = tuple(sorted(set(mistakes)))
        first = self.mistakes[0]
        super().__init__(f"{name}:{first.line}:{first.column}", first.what, first.cure)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.mistakes)

    def lines(self) -> list[str]:
        """The number of mistakes, then each of them."""
        count = len(self.mistakes)
        head = f"{self.name}: {count} mistake{'s' if count > 1 else ''}"
        return [head, *(shortened(f"  {mistake}") for mistake in self.mistakes)]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_json(self) -> list[dict[str, Any]]:
        """The mistakes as plain values."""
        return [mistake._asdict() for mistake in self.mistakes]


class Mistakes:
    """A collection that grows while a file is checked; the same mistake is kept once.

    What follows from an earlier mistake is no mistake of its own: after `settle`, nothing more is added at
    the places that are already known to be wrong. `found` counts those as well: what is wrong is not used, whether
    or not it was said before.
    """

    def __init__(self) -> None:
        self._mistakes: dict[Mistake, None] = {}
        self._settled: set[tuple[int, int]] = set()
        self.count = 0

    def add(self, mistake: Mistake) -> None:
        """Keeps one mistake."""
        self.count += 1
        if (mistake.line, mistake.column) not in self._settled:
            self._mistakes[mistake] = None

    def settle(self) -> None:
        """Says of the places found so far that no more need be said about them."""
        self._settled |= {(mistake.line, mistake.column) for mistake in self._mistakes}

    def settle_at(self, line: int, column: int) -> None:
        """Says so of one place that is wrong because of another."""
        self._settled.add((line, column))

    def watch(self) -> Watch:
        """Begins to watch for what is found wrong from here on."""
        return Watch(self)

    def __iter__(self) -> Iterator[Mistake]:
        return iter(self._mistakes)

    def __len__(self) -> int:
        return len(self._mistakes)


class Watch:
    """Whether anything was found wrong since it was made, even what is not added because it was said before.

    >>> mistakes = Mistakes()
    >>> mistakes.settle_at(4, 9)
    >>> watch = mistakes.watch()
    >>> mistakes.add(Mistake(4, 9, "link.rate", "'100' has no unit"))
    >>> len(mistakes), watch.wrong
    (0, True)
    """

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes
        self._before = mistakes.count

    @property
    def wrong(self) -> bool:
        """Whether there was something."""
        return self._mistakes.count != self._before


def split_cure(text: str) -> tuple[str, str]:
    """WHAT and CURE of a message 'WHAT; CURE'."""
    what, _, cure = text.partition("; ")
    return what, cure
