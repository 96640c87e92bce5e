"""JSON: the values at a path. The path is the part of RFC 9535 that names places; it has no filters.

`$.summary.p99`, `$.requests[*].ms`, `$['requests per second']`, `$.runs[-1].rate`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from virtlab.outputs.unreadable import SHOWN, UnreadableError

STEPS_MAX = 32
WHERE_MAX = 80  # characters of a place: an output may have millions of them
_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z_][\w-]*)|(?P<all>\.\*|\[\*\])|\[(?P<at>-?\d{1,9})\]|\['(?P<key>[^']+)'\]"""
)
_EXAMPLE = "write e.g. '$.requests[*].ms', or \"$['requests per second']\""

Step = str | int | None  # of a mapping, of a list, or all of either
Place = tuple[str, Any]  # where, and what is there


def parse(path: str) -> list[Step]:
    """The steps of a path. ValueError("WHAT; CURE") when the text is no path.

    >>> parse("$.requests[*].ms"), parse("$['per second'][-1]")
    (['requests', None, 'ms'], ['per second', -1])
    >>> parse("$.a[?@.b]")
    Traceback (most recent call last):
    ValueError: '$.a[?@.b]' is not a path from '[?@.b]' on; write e.g. '$.requests[*].ms', or "$['requests per second']"
    """
    if not path.startswith("$"):
        raise ValueError(f"'{path[:SHOWN]}' does not begin with '$', the whole output; {_EXAMPLE}")
    steps: list[Step] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or len(steps) == STEPS_MAX:
            raise ValueError(f"'{path[:SHOWN]}' is not a path from '{path[at : at + SHOWN]}' on; {_EXAMPLE}")
        named = match["name"] or match["key"]
        steps.append(named if named is not None else int(match["at"]) if match["at"] is not None else None)
        at = match.end()
    return steps


def load(text: str) -> Any:
    """The value of a JSON text. UnreadableError, with the line, when it is no JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not JSON ({error.msg}, column {error.colno})", error.lineno) from None
    except RecursionError:
        raise UnreadableError("is JSON that is nested too deeply") from None
    except ValueError as error:
        raise UnreadableError(f"is not JSON ({str(error)[:80]})") from None


def values_of_lines(text: str, steps: list[Step]) -> list[float]:
    """The numbers at a path in every line that is not empty, each a JSON text. UnreadableError with the line."""
    found: list[float] = []
    for number, document in lines(text):
        try:
            found += values(document, steps)
        except UnreadableError as error:
            raise UnreadableError(error.what, number, error.cure) from None
    return found


def lines(text: str) -> Iterator[tuple[int, Any]]:
    """Number and value of every line that is not empty, each a JSON text. UnreadableError with the line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, load(line)
            except UnreadableError as error:
                raise UnreadableError(error.what, number, error.cure) from None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a valid number in JSON")


def values(document: Any, steps: list[Step]) -> Iterator[float]:
    """The numbers at a path. UnreadableError where nothing is found, or no number."""
    for where, value in places(document, steps):
        yield _number(where, value)


def places(document: Any, steps: list[Step]) -> list[Place]:
    """What is at a path, whatever it is. UnreadableError where nothing is found."""
    found: list[Place] = [("$", document)]
    for step in steps:
        found = [child for place in found for child in _children(place, step)]
    if not found:
        raise UnreadableError("holds nothing at this path: the list or mapping there is empty")
    return found


def _children(place: Place, step: Step) -> Iterator[Place]:
    where, value = place
    match step, value:
        case None, dict():
            yield from ((_below(where, f".{_shown(key)}"), child) for key, child in value.items())
        case None, list():
            yield from ((_below(where, f"[{at}]"), child) for at, child in enumerate(value))
        case str(), dict() if step in value:
            yield _below(where, f".{step}"), value[step]
        case str(), dict():
            names = ", ".join(_shown(key) for key in list(value)[:8])
            raise UnreadableError(f"has no '{step}' at {where}; there are {names or 'no names'}")
        case int(), list() if -len(value) <= step < len(value):
            yield _below(where, f"[{step}]"), value[step]
        case int(), list():
            raise UnreadableError(f"has no element {step} at {where}, which has {len(value)}")
        case _:
            wanted = (
                "a list" if isinstance(step, int) else "a mapping" if isinstance(step, str) else "neither"
            )
            raise UnreadableError(f"holds {_kind(value)} at {where}, where the path continues" + (
                f" and wants {wanted}" if wanted != "neither" else ""
            ))  # fmt: skip


def _below(where: str, step: str) -> str:
    """The place one step further in; of a long one its end.

    >>> _below("$.a", "[0]"), len(_below("$", "." + "a" * 4000))
    ('$.a[0]', 80)
    """
    place = where + step
    return place if len(place) <= WHERE_MAX else f"...{place[3 - WHERE_MAX :]}"


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableError(f"holds {_kind(value)} at {where}, and no number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UnreadableError(f"holds a number beyond all measure at {where}")
    return number


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return f"the text '{_shown(value)}'"
    return {dict: "a mapping", list: "a list", bool: "a truth value", type(None): "null"}.get(
        type(value), "a number"
    )


def _shown(text: str) -> str:
    return " ".join(text[:SHOWN].split())
