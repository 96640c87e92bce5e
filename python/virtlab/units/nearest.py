"""What somebody meant who wrote a name that nothing has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

SHOWN = 24  # names that an error lists; of more only those that resemble what was written
ALIKE = 3

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


def closest(word: str, names: Iterable[object], alike: float = 0.6) -> str:
    """The one of several names that a word nearly is, '' where none is; `alike`: from 0, any, to 1, the same.

    >>> closest("intervall", ["interval", "count"]), closest("pie", ["interval", "count"])
    ('interval', '')
    """
    near = get_close_matches(word.lower(), [str(name) for name in names], n=1, cutoff=alike)
    return near[0] if near else ""


def nearest(word: str, names: Iterable[object]) -> str:
    """', did you mean ...?' for a word that nearly is one of several, else ''.

    >>> nearest("intervall", ["interval", "count"])
    "did you mean 'interval'?"
    """
    near = closest(word, names)
    return f"did you mean '{near}'?" if near else ""


def did_you_mean(word: str, names: Iterable[object], listed: str = "") -> str:
    """A cure for a misspelt name: the nearest one, or all of them; of many those that resemble it, and where they are
    `listed`.

    >>> did_you_mean("medain", ["mean", "median"])
    "did you mean 'median'?"
    >>> did_you_mean("ops", [f"op_{number}" for number in range(40)], "docs/reference/metrics.md")
    'write e.g. op_9, op_8 or op_7; docs/reference/metrics.md lists all 40'
    """
    choices = [str(name) for name in names]
    if near := nearest(word, choices):
        return near
    if len(choices) <= SHOWN:
        return f"write one of {', '.join(choices)}"
    alike = get_close_matches(word.lower(), choices, n=ALIKE, cutoff=0.0)
    where = f"{listed} lists all {len(choices)}" if listed else f"there are {len(choices)}"
    return f"write e.g. {', '.join(alike[:-1])} or {alike[-1]}; {where}"
