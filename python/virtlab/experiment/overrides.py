"""An experiment with inputs set to other values than its file gives: for questions about set-ups that are in no file.

An input is named as the file names things: a factor (`load`), a place in the file (`host.guests`,
`topology.switches`, `link.rate`, `roles.load.burst`), `ROLE.PARAMETER` (`load.burst`), or the last word of a place
alone where the file has only one such (`guests`). The input becomes a factor of one level, so everything else about
the experiment, its seeds and its checks included, is what it would be had its author written that level. Claims are
left out: they speak of the levels of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from virtlab.errors import ExperimentError
from virtlab.experiment.experiment import Experiment
from virtlab.experiment.load import load_text
from virtlab.experiment.read.factors import NAME, REFERENCE, factor_of, range_texts, read_factors, substitute
from virtlab.experiment.read.mistakes import FileMistakesError, Mistakes
from virtlab.experiment.read.tree import Node, read_tree
from virtlab.units import nearest

COMMON = (
    "host",
    "switch",
    "router",
    "link",
    "network",
    "timing",
)  # sections that may be written to without being there
_NUMBERED = re.compile(r"([\w-]+)\.g(\d+)\Z")


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a file. `levels` are those that the file declares; empty where it is no factor.

    `place` is its path in the file; None for a factor.
    """

    text: str = field(repr=False)
    name: str
    levels: tuple[str, ...]
    place: tuple[str, ...] | None
    now: str = ""  # the value in the file, where it is no factor
    named: bool = False  # a factor whose levels are names: it has no others

    @property
    def label(self) -> str:
        """The name for people."""
        return self.name if self.place is None else ".".join(self.place)


def find_input(experiment: Experiment, reference: str) -> Input:
    """The input that a reference means. ExperimentError for no match, or several."""
    root = _root(experiment.text)
    if reference in experiment.factors:
        declared = root.get("factors")
        node = declared.get(reference) if declared is not None else None
        is_range = node is not None and isinstance(node.value, dict) and "from" in node.value
        named = node is not None and isinstance(node.value, dict) and not is_range
        return Input(experiment.text, reference, experiment.factors[reference], None, named=named)
    place = _place(root, reference, experiment)
    value = _at(root, place)
    if value is not None and isinstance(value.value, (dict, list)):
        raise ExperimentError(
            f"--vary {reference}", "holds several values in the file", "make it a factor with named levels"
        )
    if value is not None and isinstance(value.value, str) and (match := REFERENCE.search(value.value)):
        name = factor_of(match[1] or "")
        raise ExperimentError(
            f"--vary {reference}", f"is given by the factor '{name}'", f"write --vary {name}"
        )
    name = place[-1] if NAME.match(place[-1]) and place[-1] not in experiment.factors else "varied"
    return Input(experiment.text, name, (), place, value.text if value is not None else "")


def at_level(inputs: Mapping[Input, str], carrying: Sequence[str] = ()) -> Experiment:
    """The experiment with inputs (of one file) at a level each. ExperimentError when the file does not allow it.

    `carrying` are roles that every guest beyond those of the file carries once more (see `carry`), where the number of
    guests is what varies.
    """
    first = next(iter(inputs))
    data: dict[str, Any] = _root(first.text).plain()
    data.pop("claims", None)
    for one, level in inputs.items():
        if carrying and one.place is not None and one.place[-1] == "guests":
            carry(data, one, level, carrying)
        _set(data, one, level)
    for key in ("factors", "exclude"):
        if not data.get(key):
            data.pop(key, None)
    where = ", ".join(f"{one.label} = {level}" for one, level in inputs.items())
    return reread(data, where)


def carry(data: dict[str, Any], target: Input, level: str, roles: Sequence[str]) -> None:
    """Repeats roles between the guests that a larger number of guests adds: `load` from h1.g2 to h2.g2 becomes
    `load-g3` from h1.g3 to h2.g3 too, and so on. With fewer guests than the file has, a role whose guest is gone
    makes no traffic.

    ExperimentError when guests have names, or a role does not run between numbered guests.
    """
    where = "--carrying"
    before, after = _number(target.now or "1"), _number(level)
    if before is None or after is None:
        raise ExperimentError(where, "guests are not counted in the file", "write e.g. 'host: {guests: 2}'")
    every: dict[str, Any] = data["roles"]
    for name in roles:
        role = every.get(name)
        ends = (
            [_NUMBERED.match(str(role.get(end, ""))) for end in ("from", "to")]
            if isinstance(role, dict)
            else []
        )
        found = [end for end in ends if end is not None]
        if role is None or len(found) != 2:
            cure = (
                f"name one of {', '.join(every)}" if role is None else "write e.g. 'from: h1.g2, to: h2.g2'"
            )
            raise ExperimentError(where, f"'{name}' is not a role between numbered guests", cure)
        if any(int(end[2]) > after for end in found):
            every[name] = {**role, "from": f"{found[0][1]}.g1", "to": f"{found[1][1]}.g1", "enabled": False}
            continue
        for number in range(before + 1, after + 1):
            copied = {end: f"{match[1]}.g{number}" for end, match in zip(("from", "to"), found, strict=True)}
            every[f"{name}-g{number}"] = {**role, **copied}


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def grid(first: str, last: str, step: str | None) -> list[str]:
    """Levels from first to last. The step is 1 of the first level's unit unless given. ExperimentError for an empty
    range.

    >>> grid("1", "4", None), grid("10 kB", "20 kB", "5 kB")
    (['1', '2', '3', '4'], ['10 kB', '15 kB', '20 kB'])
    """
    _, _, unit = first.strip().partition(" ")
    width = step if step is not None else f"1 {unit}".strip()
    nodes = [Node(_scalar(text), 1, 1, " ".join(text.split())) for text in (first, last, width)]
    try:
        return range_texts(*nodes)
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise ExperimentError("--from, --to, --step", what, cure or "write e.g. --from 1 --to 64") from None


def _scalar(text: str) -> int | float | str:
    """A level as YAML reads it: whole numbers and fractions are numbers, all else is text."""
    bare = text.strip()
    try:
        return int(bare)
    except ValueError:
        pass
    try:
        number = Decimal(bare)
    except InvalidOperation:
        return {"true": True, "false": False}.get(bare, text)
    return float(number) if number.is_finite() else text


def _root(text: str) -> Node:
    root = read_tree(text, Mistakes())
    assert root is not None, "the text was loaded before"
    return root


def _set(data: dict[str, Any], target: Input, level: str) -> None:
    factors: dict[str, Any] = data.setdefault("factors", {})
    if target.place is not None:
        factors[target.name] = [_scalar(level)]
        holder = data
        for step in target.place[:-1]:
            inner = holder.get(step)
            if not isinstance(inner, dict):
                inner = {} if inner is None else {"shape": inner}  # only a topology is one word
                holder[step] = inner
            holder = inner
        holder[target.place[-1]] = f"${{{target.name}}}"
        return
    declared = factors[target.name]
    named = isinstance(declared, dict) and "from" not in declared
    if named and level not in target.levels:
        raise ExperimentError(
            f"--vary {target.name}", f"'{level}' is not a level", f"levels are {', '.join(target.levels)}"
        )
    if named:
        factors[target.name] = {
            key: value for key, value in declared.items() if " ".join(str(key).split()) == level
        }
    else:
        factors[target.name] = [_scalar(level)]
    kept = []
    for entry in data.get("exclude") or ():
        if target.name in entry:
            said = entry[target.name]
            texts = [" ".join(str(each).split()) for each in (said if isinstance(said, list) else [said])]
            if level not in texts:
                continue
            kept.append({**entry, target.name: level if named else _scalar(level)})
        else:
            kept.append(entry)
    data["exclude"] = kept


def _at(root: Node, place: Sequence[str]) -> Node | None:
    node: Node | None = root
    for step in place:
        node = node.get(step) if node is not None else None
    return node


def _place(root: Node, reference: str, experiment: Experiment) -> tuple[str, ...]:
    steps = tuple(reference.split("."))
    roles = root.get("roles")
    if roles is not None and len(steps) == 2 and roles.get(steps[0]) is not None:
        return ("roles", *steps)
    if len(steps) > 1:
        holder = _at(root, steps[:-1])
        if holder is not None and isinstance(holder.value, dict):
            return steps
        if len(steps) == 2 and (steps[0] in COMMON or steps[0] == "topology"):
            return steps
    elif _at(root, steps) is not None and steps[0] in {"hosts", "switches", "routers"}:
        return steps
    found = [place for place in _places(root) if place[-1] == steps[0]] if len(steps) == 1 else []
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(".".join(place) for place in found[:6])
        raise ExperimentError(f"--vary {reference}", "could be several inputs", f"write one of {names}")
    known = [*experiment.factors, *(".".join(place) for place in _places(root))]
    cure = (
        nearest(reference, known)
        or f"write a factor ({', '.join(experiment.factors) or 'the file has no factors'}) or a place such as host.guests"
    )
    raise ExperimentError(f"--vary {reference}", "is not an input of the file", cure)


def _places(root: Node) -> Iterator[tuple[str, ...]]:
    """Every single value of the world and the roles."""

    def below(node: Node, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if isinstance(node.value, dict):
            for key, child in node.value.items():
                yield from below(child, (*place, key))
        elif not isinstance(node.value, list):
            yield place

    for section in (
        "hosts",
        "host",
        "topology",
        "switches",
        "switch",
        "routers",
        "router",
        "links",
        "link",
        "network",
        "roles",
    ):
        node = root.get(section)
        if node is not None:
            yield from below(node, (section,))


def alone(experiment: Experiment, levels: Mapping[str, str]) -> dict[str, Any]:
    """The file's values at one design point, references replaced and factors gone: to be altered and read by
    `reread`.
    """
    root = _root(experiment.text)
    factors = read_factors(root.get("factors"), Mistakes())
    assert isinstance(root.value, dict)
    return {
        key: substitute(node, factors, levels).plain()
        for key, node in root.value.items()
        if key not in {"factors", "exclude", "claims"}
    }


def reread(values: Mapping[str, Any], name: str) -> Experiment:
    """The experiment of such values; `name` is its name in errors. ExperimentError for values of no experiment."""
    try:
        return load_text(json.dumps(values, ensure_ascii=False), name=name, runs_max=None)
    except FileMistakesError as error:
        mistake = error.mistakes[0]
        what = f"{mistake.path}: {mistake.what}" if mistake.path else mistake.what
        raise ExperimentError(name, what, mistake.cure) from None
