"""The few words that every medium shares: the colour of a verdict, plurals, points in words."""

from __future__ import annotations

from collections.abc import Mapping

_KINDS = {"holds": "good", "refuted": "bad"}


def verdict_kind(verdict: str) -> str:
    """'good', 'bad' or 'open': never by colour alone, always with the word.

    >>> verdict_kind("holds"), verdict_kind("undecided")
    ('good', 'open')
    """
    return _KINDS.get(verdict, "open")


def plural(number: int, word: str) -> str:
    """A number with its noun.

    >>> plural(1, "run"), plural(2, "run")
    ('1 run', '2 runs')
    """
    return f"{number} {word}{'' if number == 1 else 's'}"


def point_words(point: Mapping[str, str], otherwise: str = "") -> str:
    """A design point in words; `otherwise` where there is only one.

    >>> point_words({"load": "30 kB", "switches": "2"}), point_words({}, "always")
    ('load 30 kB, switches 2', 'always')
    """
    return ", ".join(f"{name} {level}" for name, level in point.items()) or otherwise
