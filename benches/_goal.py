"""Whether a figure meets its goal.

A goal is about the figure's value, in its unit, or (`ratio ...`) about its ratio to the peer: `<= 0.3`, `98 .. 100.2`
(both ends belong to it), `ratio >= 3`; ` or ` stands between two of which one is enough. `ratio_high ...` is about the
upper end of that ratio's interval: where two do the same, a goal for the ratio itself would be met by chance.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_OF = r"(?:(?P<of>ratio|ratio_high) )?"
_PART = re.compile(
    rf"{_OF}(?:(?P<sign><=|>=|<|>) (?P<bound>{_NUMBER})|(?P<low>{_NUMBER}) \.\. (?P<high>{_NUMBER}))"
)
_SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


def met(figure: Mapping[str, Any]) -> dict[str, bool | None]:
    """`{"met": ...}` of a figure that states a goal: None where what the goal is about was not measured.

    ValueError where the goal cannot be read.

    >>> met({"value": 0.2, "goal": "<= 0.3"}), met({"value": 9, "ratio": 2.0, "goal": "ratio >= 3"})
    ({'met': True}, {'met': False})
    >>> met({"value": 7, "ratio": 0.98, "ratio_high": 1.02, "goal": "ratio_high >= 1"})
    {'met': True}
    >>> met({"value": 120, "ratio": 1.2, "goal": "<= 100 or ratio <= 1.5"}), met({"value": 7})
    ({'met': True}, {})
    """
    goal = figure.get("goal")
    if goal is None:
        return {}
    judged = [_judge(part, figure, str(goal)) for part in str(goal).split(" or ")]
    if any(judged):
        return {"met": True}
    return {"met": None if None in judged else False}


def _judge(part: str, figure: Mapping[str, Any], goal: str) -> bool | None:
    said = _PART.fullmatch(part)
    if said is None:
        raise ValueError(f"{figure.get('name')}: no goal can be read in '{goal}'; write e.g. '<= 0.3'")
    value = figure.get(said["of"] or "value")
    if value is None:
        return None
    if said["sign"]:
        return bool(_SIGNS[said["sign"]](float(value), float(said["bound"])))
    return float(said["low"]) <= float(value) <= float(said["high"])
