"""What somebody meant who wrote a name that nothing has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_USUAL = {  # spellings that tools print, and people write
    "bps": "bit/s", "kbps": "kbit/s", "mbps": "Mbit/s", "gbps": "Gbit/s", "mb/s": "Mbit/s", "gb/s": "Gbit/s",
    "mbit": "Mbit/s", "gbit": "Gbit/s", "bytes": "B", "sec": "s", "msec": "ms", "usec": "us", "nsec": "ns",
    "pps": "packet/s", "kpps": "kpacket/s", "mpps": "Mpacket/s", "percent": "%",
}  # fmt: skip


def meant_unit(word: str, units: Iterable[str]) -> str:
    """The unit that a spelling of it means, '' where none of these does.

    >>> meant_unit("Mbps", ["bit/s", "Mbit/s"]), meant_unit("MS", ["us", "ms"]), meant_unit("Mbps", ["us"])
    ('Mbit/s', 'ms', '')
    """
    known = list(units)
    wanted = _USUAL.get(word.lower(), word).lower()
    return next((unit for unit in known if unit.lower() == wanted), "")


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
