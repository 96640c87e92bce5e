"""Factors: what varies, its levels, the design points they span, and references to them.

A factor's levels are a list of scalars, a range `{from, to, step}`, or a mapping of names to values (each
value of any shape, for levels that change several things at once). `${name}` anywhere below stands for the
level's value, `${name.key}` for a key of it, and `${name.key[other]}` for that key of it which the level of
another factor names; as a whole value it keeps its type, inside text it is inserted. `$${` is a plain `${`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from virtlab.catalogue.kinds import shown
from virtlab.experiment.read.mistakes import Mistake, Mistakes
from virtlab.experiment.read.tree import Node
from virtlab.lazy import pattern
from virtlab.units import Bitrate, Duration, Size, nearest

LEVELS_MAX = 10_000
NAME = pattern(r"[A-Za-z][A-Za-z0-9_-]{0,40}\Z")
REFERENCE = pattern(r"\$\$\{|\$\{([^{}$]*)\}")
_INDEX = pattern(r"\s*\[([^\[\]]*)\]\s*")
_NUMBER_UNIT = pattern(r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))\s*(.*?)\s*\Z")

Levels = Mapping[str, str]  # factor -> level as the file writes it


class Factor(NamedTuple):
    """A factor with its levels: text as the file writes it -> the value it stands for."""

    name: str
    levels: Mapping[str, Node]
    line: int
    column: int


class Exclusion(NamedTuple):
    """Combinations that are left out: every named factor at one of its named levels."""

    levels: Mapping[str, frozenset[str]]

    def covers(self, point: Levels) -> bool:
        """Whether a combination is left out."""
        return all(point[factor] in levels for factor, levels in self.levels.items())


class Design:
    """The factors of a file and the combinations that remain after the exclusions, first factor slowest."""

    def __init__(self, factors: Mapping[str, Factor], exclusions: tuple[Exclusion, ...]) -> None:
        self.factors = factors
        self.exclusions = exclusions

    def combinations(self) -> Iterator[dict[str, str]]:
        """Every design point, in order."""
        names = list(self.factors)
        for chosen in itertools.product(*(self.factors[name].levels for name in names)):
            point = dict(zip(names, chosen, strict=True))
            if not any(exclusion.covers(point) for exclusion in self.exclusions):
                yield point

    def size_before_exclusions(self) -> int:
        """The product of the numbers of levels."""
        size = 1
        for factor in self.factors.values():
            size *= len(factor.levels)
        return size


def read_factors(node: Node | None, mistakes: Mistakes) -> dict[str, Factor]:
    """The section `factors`."""
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        mistakes.add(
            Mistake(
                node.line,
                node.column,
                "factors",
                "must map names to levels",
                "write e.g. 'load: [0 B, 30 kB]'",
            )
        )
        return {}
    factors: dict[str, Factor] = {}
    columns: dict[str, str] = {}
    for name, child in node.value.items():
        line, column = node.keys[name]
        path = f"factors.{name}"
        if not NAME.match(name):
            cure = "begin with a letter; use letters, digits, _ and -"
            mistakes.add(
                Mistake(line, column, path, f"'{shown(name)}' is not a valid name of a factor", cure)
            )
            continue
        own = {name.lower(), f"factor_{name}".lower()}
        alike = next((columns[column] for column in own if column in columns), None)
        if alike is not None:
            what = f"'{name}' and '{alike}' would be one column of the results"
            mistakes.add(Mistake(line, column, path, what, "give one of them another name"))
            continue
        columns |= dict.fromkeys(own, name)
        levels = _levels(child, path, mistakes)
        if levels is not None:
            factors[name] = Factor(name, levels, line, column)
    return factors


def _levels(node: Node, path: str, mistakes: Mistakes) -> dict[str, Node] | None:
    if isinstance(node.value, list):
        return _listed(node, path, mistakes)
    if isinstance(node.value, dict):
        if {"from", "to", "step"} & set(node.value):
            return _range(node, path, mistakes)
        levels: dict[str, Node] = {}
        for name, child in node.value.items():
            text = " ".join(name.split())
            alike = _alike(text, levels)
            if alike:
                mistakes.add(Mistake(*node.keys[name], f"{path}.{name}", *alike))
                continue
            levels[text] = child
            _no_references(child, path, mistakes)
        if levels:
            return levels
    cure = "write a list, a range '{from: 0 kB, to: 85 kB, step: 5 kB}', or names with values"
    what = (
        "has no levels"
        if isinstance(node.value, dict) or node.value is None
        else f"'{shown(node.plain())}' is not a list of levels"
    )
    mistakes.add(Mistake(node.line, node.column, path, what, cure))
    return None


def _no_references(node: Node, path: str, mistakes: Mistakes) -> None:
    for _, leaf in node.walk():
        if isinstance(leaf.value, str) and REFERENCE.search(leaf.value):
            what, cure = (
                "a level cannot refer to a factor",
                "write the value, or use several keys in named levels",
            )
            mistakes.add(Mistake(leaf.line, leaf.column, path, what, cure))


def _listed(node: Node, path: str, mistakes: Mistakes) -> dict[str, Node] | None:
    levels: dict[str, Node] = {}
    assert isinstance(node.value, list)
    if not node.value:
        mistakes.add(Mistake(node.line, node.column, path, "has no levels", "write at least one"))
        return None
    for position, child in enumerate(node.value):
        where = f"{path}[{position}]"
        if isinstance(child.value, (dict, list)):
            cure = "write the factor as a mapping: 'factor: {name: {...}, other: {...}}'"
            mistakes.add(
                Mistake(child.line, child.column, where, "a level of several values needs a name", cure)
            )
            continue
        text = " ".join(child.text.split())
        if child.value is None or not text:
            mistakes.add(
                Mistake(child.line, child.column, where, "is an empty level", "write a value or remove it")
            )
        elif alike := _alike(text, levels):
            mistakes.add(Mistake(child.line, child.column, where, *alike))
        else:
            _no_references(child, where, mistakes)
            levels[text] = child
    return levels or None


def _alike(text: str, levels: Mapping[str, Node]) -> tuple[str, str] | None:
    """What is wrong with a level beside those before it: names of plots and columns do not tell case apart."""
    if text in levels:
        return f"'{shown(text)}' was already given", "remove it"
    other = next((level for level in levels if level.lower() == text.lower()), None)
    if other is None:
        return None
    return f"'{shown(text)}' and '{shown(other)}' differ in case only", "give one of them another name"


def _range(node: Node, path: str, mistakes: Mistakes) -> dict[str, Node] | None:
    assert isinstance(node.value, dict)
    example = "write '{from: 0 kB, to: 85 kB, step: 5 kB}'"
    for key in node.value:
        if key not in {"from", "to", "step"}:
            line, column = node.keys[key]
            mistakes.add(
                Mistake(line, column, f"{path}.{key}", f"unknown key '{shown(key)}' of a range", example)
            )
            return None
    missing = [key for key in ("from", "to", "step") if key not in node.value]
    if missing:
        mistakes.add(
            Mistake(node.line, node.column, path, f"a range without {' and '.join(missing)}", example)
        )
        return None
    try:
        texts = range_texts(*(node.value[key] for key in ("from", "to", "step")))
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        mistakes.add(Mistake(node.line, node.column, path, what, cure or example))
        return None
    bare = all(re.fullmatch(r"-?[0-9]+", text) for text in texts)
    return {text: Node(int(text) if bare else text, node.line, node.column, text) for text in texts}


def range_texts(first: Node, last: Node, step: Node) -> list[str]:
    """The levels of a range as text, in the step's unit.

    >>> [node(t) for t in ()] or range_texts(*(Node(t, 1, 1, t) for t in ("0 B", "1 kB", "500 B")))
    ['0 B', '500 B', '1000 B']
    """
    numbers = []
    unit = _split(step)[1]
    for part in (first, last, step):
        number, own = _split(part)
        numbers.append(number if own == unit else number * _scale(own, unit))
    begin, end, width = numbers
    if width <= 0:
        raise ValueError("the step of a range must be more than zero")
    if end < begin:
        raise ValueError("a range that ends before it begins; exchange 'from' and 'to'")
    count = int((end - begin) / width) + 1
    if count > LEVELS_MAX:
        raise ValueError(f"a range of {count} levels; take a wider step, at most {LEVELS_MAX} levels")
    return [f"{_digits(begin + position * width)} {unit}".strip() for position in range(count)]


def _digits(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _split(node: Node) -> tuple[Decimal, str]:
    if isinstance(node.value, (dict, list, bool)) or node.value is None:
        raise ValueError("a range is made of three numbers with their units")
    match = _NUMBER_UNIT.match(node.text)
    try:
        if match is None or len(match[1]) > 30:
            raise InvalidOperation
        return Decimal(match[1]), match[2]
    except InvalidOperation:
        raise ValueError(f"'{shown(node.text)}' is not a number with a unit") from None


def _scale(unit: str, target: str) -> Decimal:
    """How many of `target` one `unit` is; both may be followed by the same layer of a packet size."""
    own, _, own_tail = unit.partition(" ")
    aim, _, aim_tail = target.partition(" ")
    for table in (Size.units, Bitrate.units, Duration.units):
        if own in table and aim in table and own_tail == aim_tail:
            return Decimal(table[own]) / Decimal(table[aim])
    raise ValueError(
        f"'{shown(unit) or 'no unit'}' and '{shown(target) or 'no unit'}' do not go together in a range"
    )


def read_exclusions(
    node: Node | None, factors: Mapping[str, Factor], mistakes: Mistakes
) -> tuple[Exclusion, ...]:
    """The section `exclude`: a list of mappings factor -> level or list of levels."""
    if node is None:
        return ()
    if not isinstance(node.value, list):
        cure = "write e.g. 'exclude: [{streams: 1, load: 85 kB}]'"
        mistakes.add(Mistake(node.line, node.column, "exclude", "must be a list of combinations", cure))
        return ()
    exclusions = []
    for position, entry in enumerate(node.value):
        path = f"exclude[{position}]"
        if not isinstance(entry.value, dict) or not entry.value:
            mistakes.add(
                Mistake(
                    entry.line,
                    entry.column,
                    path,
                    "is not a combination",
                    "write e.g. '{streams: 1, load: 85 kB}'",
                )
            )
            continue
        chosen: dict[str, frozenset[str]] = {}
        for name, child in entry.value.items():
            line, column = entry.keys[name]
            factor = factors.get(name)
            if factor is None:
                cure = nearest(name, factors) or f"factors are: {', '.join(factors) or 'none'}"
                mistakes.add(
                    Mistake(line, column, f"{path}.{name}", f"there is no factor '{shown(name)}'", cure)
                )
                continue
            chosen[name] = frozenset(_excluded_levels(factor, child, f"{path}.{name}", mistakes))
        if len(chosen) == len(entry.value):
            exclusions.append(Exclusion(chosen))
    return tuple(exclusions)


def _excluded_levels(factor: Factor, node: Node, path: str, mistakes: Mistakes) -> Iterator[str]:
    for child in node.value if isinstance(node.value, list) else [node]:
        text = " ".join(child.text.split())
        if text in factor.levels:
            yield text
        else:
            levels = list(factor.levels)
            cure = f"levels are: {', '.join(levels[:12])}{', ...' if len(levels) > 12 else ''}"
            mistakes.add(
                Mistake(
                    child.line, child.column, path, f"'{shown(text)}' is not a level of '{factor.name}'", cure
                )
            )


def references(node: Node) -> set[str]:
    """Names of the factors that a node refers to."""
    found = set()
    for _, leaf in node.walk():
        if isinstance(leaf.value, str) and "${" in leaf.value:
            for match in REFERENCE.finditer(leaf.value):
                if match[1] is not None:
                    name, key = _parted(match[1])
                    found |= {name, *(step.factor for step in key if isinstance(step, _Named))}
    return found


class _Named(NamedTuple):
    """A step of a reference that the level of another factor names."""

    factor: str


_Key = tuple[str | _Named, ...]


def _parted(reference: str) -> tuple[str, _Key]:
    """The factor that a reference names, and the steps from its level to the value.

    >>> _parted("cores.vcpus[platform]")
    ('cores', ('vcpus', _Named(factor='platform')))
    """
    name, *steps = (part.strip() for part in _INDEX.sub(r".[\1]", reference).split("."))
    if steps == [""]:
        return name, ()
    return name, tuple(_Named(step[1:-1].strip()) if _INDEX.fullmatch(step) else step for step in steps)


def factor_of(reference: str) -> str:
    """The factor that what stands inside `${ }` names first."""
    return _parted(reference)[0]


def check_references(node: Node, path: str, factors: Mapping[str, Factor], mistakes: Mistakes) -> None:
    """Every reference below names a factor, and a key that all its levels have."""
    known: dict[
        tuple[str, _Key, bool], tuple[tuple[str, str], ...]
    ] = {}  # a file may repeat a reference at will
    for where, leaf in node.walk(path):
        if not isinstance(leaf.value, str) or "${" not in leaf.value:
            continue
        for match in REFERENCE.finditer(leaf.value):
            if match[1] is None:
                continue
            name, key = _parted(match[1])
            asked = (name, key, match[0] == leaf.value.strip())
            if asked not in known:
                known[asked] = tuple(_faults(name, key, factors, whole=asked[2]))
            for what, cure in known[asked]:
                mistakes.add(Mistake(leaf.line, leaf.column, where, what, cure))


def _faults(name: str, key: _Key, factors: Mapping[str, Factor], *, whole: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with a reference, each with its cure; `whole` where it is all that its value says."""
    named = [name, *(step.factor for step in key if isinstance(step, _Named))]
    unknown = [each for each in named if each not in factors]
    for each in unknown:
        cure = (
            nearest(each, factors)
            or f"write it under 'factors:' ({', '.join(factors) or 'it has no factors'})"
        )
        yield f"there is no factor '{shown(each)}'", cure
    if unknown or (whole and not key):  # every level can stand alone
        return
    for text, level in factors[name].levels.items():
        for steps, value in _values(level, key, factors, {name: text}):
            if value is None:
                holder = _value_of(level, steps[:-1])
                has = holder.value if holder is not None else None
                known = ", ".join(has) if isinstance(has, dict) else "it has none"
                what = f"level '{shown(text)}' of '{name}' has no key '{shown('.'.join(steps))}'"
                yield what, f"give it that key; its keys: {known}"
                break  # the first of them: levels of several factors have as many combinations as they have
            if not whole and value.value is None:
                what = f"level '{shown(text)}' of '{name}' is nothing, which cannot stand inside text"
                yield what, "let the reference be the whole value, which is left out then"
            elif not whole and isinstance(value.value, (dict, list)):
                what = f"level '{shown(text)}' of '{name}' has several values and cannot stand inside text"
                yield what, f"refer to one of them: '${{{name}.KEY}}'"


def _values(
    level: Node, key: _Key, factors: Mapping[str, Factor], chosen: Levels
) -> Iterator[tuple[tuple[str, ...], Node | None]]:
    """What a key leads to in a level, for all levels of the factors that name its steps; None where a step is missing.

    A factor has one level in a design point, so one that `chosen` has, or that names two steps, has the same in both.
    """
    if not key:
        yield (), level
        return
    step, *rest = key
    for name in _names(step, factors, chosen):
        child = level.get(name)
        if child is None:
            yield (name,), None
            continue
        bound = {**chosen, step.factor: name} if isinstance(step, _Named) else chosen
        for steps, value in _values(child, tuple(rest), factors, bound):
            yield (name, *steps), value


def _names(step: str | _Named, factors: Mapping[str, Factor], chosen: Levels) -> Iterable[str]:
    if isinstance(step, str):
        return (step,)
    return (chosen[step.factor],) if step.factor in chosen else factors[step.factor].levels


def _value_of(level: Node, key: tuple[str, ...]) -> Node | None:
    node: Node | None = level
    for step in key:
        node = node.get(step) if node is not None else None
    return node


def substitute(node: Node, factors: Mapping[str, Factor], point: Levels) -> Node:
    """The node with its references replaced by the point's levels; references must have been checked.

    A key whose whole value refers to nothing (`null`) is left out, so that a level can be without a parameter.
    """
    value = node.value
    if isinstance(value, dict):
        children = {key: substitute(child, factors, point) for key, child in value.items()}
        if all(children[key] is child for key, child in value.items()):
            return node
        children = {
            key: child for key, child in children.items() if child.value is not None or child is value[key]
        }
        return Node(children, node.line, node.column, node.text, node.quoted, node.origin, node.keys)
    if isinstance(value, list):
        items = [substitute(child, factors, point) for child in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return node
        return Node(items, node.line, node.column, node.text, node.quoted, node.origin, node.keys)
    if not isinstance(value, str) or "${" not in value:
        return node
    match = REFERENCE.fullmatch(value.strip())
    if match is not None and match[1] is not None:
        return _inserted(match[1], factors, point) or node

    def inserted(match: re.Match[str]) -> str:
        level = _inserted(match[1], factors, point) if match[1] is not None else None
        return "${" if level is None else level.text

    text = REFERENCE.sub(inserted, value)
    return Node(text, node.line, node.column, text, quoted=True, origin=_origin(references(node), point))


def _inserted(reference: str, factors: Mapping[str, Factor], point: Levels) -> Node | None:
    name, key = _parted(reference)
    named = {name, *(step.factor for step in key if isinstance(step, _Named))}
    if not named <= set(factors):
        return None
    steps = tuple(point[step.factor] if isinstance(step, _Named) else step for step in key)
    level = _value_of(factors[name].levels[point[name]], steps)
    if level is None:
        return None
    return Node(
        level.value, level.line, level.column, level.text, level.quoted, _origin(named, point), level.keys
    )


def _origin(names: set[str], point: Levels) -> str:
    return ", ".join(f"{name} = {point[name]}" for name in sorted(names) if name in point)
