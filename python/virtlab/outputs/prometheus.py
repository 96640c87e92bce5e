"""Prometheus text format 0.0.4: the samples of one name, with the requested labels.

`requests_total{code="200"}` selects samples of that name whose label `code` is 200, whatever others they have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from virtlab.outputs.unreadable import SHOWN, UnreadableError

_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*"'
_SAMPLE = re.compile(
    rf"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\s*\{{\s*(?P<labels>(?:{_LABEL}\s*(?:,\s*|(?=\}})))*)\}})?(?P<rest>.*)\Z"
)
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
_EXAMPLE = "write e.g. 'requests_total{code=\"200\"}'"


def parse(selector: str) -> tuple[str, Mapping[str, str]]:
    """The requested name and labels. ValueError("WHAT; CURE") when the text selects nothing.

    >>> parse('requests_total{code="200"}')
    ('requests_total', {'code': '200'})
    """
    match = _SAMPLE.match(selector.strip())
    if match is None or match["rest"].strip():
        raise ValueError(f"'{selector[:SHOWN]}' is not a name with labels; {_EXAMPLE}")
    return match["name"], _labels(match["labels"])


def _labels(text: str | None) -> dict[str, str]:
    return {
        name: re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), value)
        for name, value in _PAIR.findall(text or "")
    }


def values(text: str, selector: str) -> list[float]:
    """The numbers of the samples. UnreadableError, with the line, where one cannot be read, or none is there."""
    wanted, labels = parse(selector)
    found = []
    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        if match is None:
            raise UnreadableError(
                f"is not a valid sample of Prometheus: '{' '.join(line[:SHOWN].split())}'", number
            )
        if match["name"] != wanted:
            continue
        own = _labels(match["labels"])
        if all(own.get(name) == value for name, value in labels.items()):
            found.append(_number(match["rest"], number))
    if not found:
        raise UnreadableError(f"has no sample {selector[:80]}")
    return found


def _number(rest: str, line: int) -> float:
    words = rest.split()
    try:
        if not 1 <= len(words) <= 2 or "_" in rest:  # a stamp may follow
            raise ValueError
        number = float(words[0])
        int(words[-1]) if len(words) > 1 else None
    except ValueError:
        raise UnreadableError(
            f"has '{' '.join(rest[:SHOWN].split())}' where a number should be", line
        ) from None
    if not math.isfinite(number):
        raise UnreadableError(f"has the value {words[0][:SHOWN]}, and no finite number", line)
    return number
