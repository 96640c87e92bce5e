"""What somebody meant who wrote a name that nothing has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, names: Iterable[object]) -> str:
    """', did you mean ...?' for a word that nearly is one of several, else ''.

    >>> nearest("intervall", ["interval", "count"])
    "did you mean 'interval'?"
    """
    near = get_close_matches(word.lower(), [str(name) for name in names], n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else ""


def did_you_mean(word: str, names: Iterable[object]) -> str:
    """A cure for a misspelt name: the nearest one, or all of them.

    >>> did_you_mean("medain", ["mean", "median"])
    "did you mean 'median'?"
    """
    choices = [str(name) for name in names]
    return nearest(word, choices) or f"write one of {', '.join(choices)}"
