"""Levels of factors as a claim writes them: which one is meant, and how they are ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virtlab.analysis.claims.nouns import Condition, Operand
from virtlab.units import did_you_mean, level_number

Factors = Mapping[str, Sequence[str]]


def find_level(text: str, levels: Sequence[str]) -> str | None:
    """The level that the text means: the same text, or the same number (`2.0` is `2`, `30000 B` is `30 kB`).

    >>> find_level("30000 B", ["0 B", "30 kB"]), find_level("ovs", ["bridge"])
    ('30 kB', None)
    """
    names = [str(level) for level in levels]
    if text in names:
        return text
    number = level_number(text)
    if number is None:
        return None
    return next((level for level in names if level_number(level) == number), None)


def find_operand(operand: Operand, factors: Factors, hint: str | None) -> tuple[str, str]:
    """The factor and level that an operand means. `hint` is the factor of the operand before it (`switches 2
    - 1`).

    ValueError says what is wrong and the cure.
    """
    if operand.factor is not None:
        if operand.factor not in factors:
            raise ValueError(f"'{operand.factor}' is not a factor; {_near(operand.factor, factors)}")
        level = find_level(operand.level or "", factors[operand.factor])
        if level is None:
            cure = _near(operand.level or "", factors[operand.factor])
            raise ValueError(f"'{operand.level}' is not a level of {operand.factor}; {cure}")
        return operand.factor, level
    name, _, rest = operand.text.partition(" ")
    if rest and name in factors:
        level = find_level(rest, factors[name])
        if level is None:
            raise ValueError(f"'{rest}' is not a level of {name}; {_near(rest, factors[name])}")
        return name, level
    if hint is not None:
        level = find_level(operand.text, factors[hint])
        if level is None:
            raise ValueError(
                f"'{operand.text}' is not a level of {hint}; {_near(operand.text, factors[hint])}"
            )
        return hint, level
    having = [
        (factor, level)
        for factor in factors
        if (level := find_level(operand.text, factors[factor])) is not None
    ]
    if len(having) == 1:
        return having[0]
    if having:
        names = ", ".join(factor for factor, _ in having)
        raise ValueError(f"'{operand.text}' is a level of {names}; write '{having[0][0]} {operand.text}'")
    every = [str(level) for levels in factors.values() for level in levels]
    raise ValueError(f"'{operand.text}' is not a level of any factor; {_near(operand.text, every)}")


def ordered(levels: Sequence[str]) -> list[str] | None:
    """Levels from low to high when all are numbers or quantities, else None.

    >>> ordered(["30 kB", "0 B", "5 kB"]), ordered(["ovs", "bridge"])
    (['0 B', '5 kB', '30 kB'], None)
    """
    numbers = {str(level): level_number(str(level)) for level in levels}
    if any(number is None for number in numbers.values()):
        return None
    return sorted(numbers, key=lambda level: numbers[level] or 0.0)


def matches(condition: Condition, point: Mapping[str, str]) -> bool:
    """Whether a design point fulfils a condition; a point without the factor does not."""
    if condition.factor not in point:
        return False
    level = str(point[condition.factor])
    if condition.op == "=":
        return any(find_level(wanted, [level]) is not None for wanted in condition.levels)
    if condition.op == "!=":
        return all(find_level(wanted, [level]) is None for wanted in condition.levels)
    left, right = level_number(level), level_number(condition.levels[0])
    if left is None or right is None:
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[condition.op]


def _near(word: str, known: Sequence[str] | Mapping[str, object]) -> str:
    names = [str(name) for name in known]
    return did_you_mean(word, names) if names else "declare it under 'factors'"
