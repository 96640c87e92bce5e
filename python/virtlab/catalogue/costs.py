"""What a program costs where it does not run: a mapping of parameters of virtlab's own client and server.

Levels of a factor that is a word of the program's `argv`, too, are texts, so a count may be its digits in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import COUNT, Kind, PlacedError, SeveralError, placed, shown
from virtlab.units import nearest

SIMULATED_AS = "simulated_as"


_DIGITS = "[1-9][0-9]{0,9}"


def _number(written: Any) -> Any:
    """The whole number that digits are; anything else as it is.

    >>> _number("50"), _number("5 0"), _number(50)
    (50, '5 0', 50)
    """
    return int(written) if isinstance(written, str) and re.fullmatch(_DIGITS, written) else written


def _schema(kind: Kind) -> dict[str, Any]:
    return (
        {"anyOf": [kind.schema, {"type": "string", "pattern": f"^{_DIGITS}$"}]}
        if kind is COUNT
        else kind.schema
    )


def cost_kind(
    name: str,
    entries: Sequence[Parameter],
    example: str,
    across: Callable[[Mapping[str, Any]], list[tuple[str, str]]],
) -> Kind:
    """The kind of a mapping of those parameters, which becomes their Plan values. `across`: (parameter, "WHAT; CURE")
    of values that do not fit together; an empty parameter refers to the whole mapping.
    """
    known = {entry.name: entry for entry in entries}

    def parse(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not value:
            raise ValueError(f"'{shown(value)}' says no cost; write e.g. '{example}'")
        wrong: list[PlacedError] = []
        found: dict[str, Any] = {}
        for key, written in value.items():
            if key not in known:
                cure = nearest(str(key), known) or f"it has {', '.join(known)}"
                wrong.append(PlacedError((key,), f"'{shown(key)}' is not a {name}; {cure}"))
                continue
            try:
                found |= known[key].plan_values(_number(written) if known[key].kind is COUNT else written)
            except ValueError as error:
                wrong += [PlacedError((key, *steps), text) for steps, text in placed(error)]
        if not wrong:
            wrong = [PlacedError((key,) if key else (), text) for key, text in across(found)]
        if wrong:
            raise SeveralError(wrong)
        return found

    schema = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {
            key: {**_schema(entry.kind), "description": entry.meaning} for key, entry in known.items()
        },
    }
    return Kind(name, parse, schema, example)
