"""Requests as types are those of the protocol's reference, field by field."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from virtlab.agents.requests import descriptors, every, leader, probe, switch
from virtlab.agents.requests.descriptors import AgentDescriptor, Descriptor
from virtlab.agents.requests.every import Hello
from virtlab.agents.requests.leader import Exec, HandOver
from virtlab.agents.requests.request import Request
from virtlab.catalogue import WORKLOADS

REFERENCE = (Path(__file__).parents[3] / "docs" / "reference" / "agent-protocol.md").read_text(
    encoding="utf-8"
)
ROOMS = {"Every agent": every, "Probe": probe, "Leader": leader, "Soft switch": switch}
ALIKE = {"hello", "sample", "counters"}  # of probes: as of every agent and of leaders
OF_TESTS = {"record", "recorded"}  # asked of the soft switch by tests alone


def inside(text: str, begin: int) -> str:
    """What stands between the brace that opens there and its own end."""
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] in "{[") - (text[at] in "}]")
        if depth == 0:
            return text[begin + 1 : at]
    raise AssertionError(text[begin:])


def fields_in(text: str) -> dict[str, bool]:
    """Name of each field -> whether it may be absent.

    >>> fields_in("role, at_ns?, x: {deep?: [a, b]}, y?: 1")
    {'role': False, 'at_ns': True, 'x': False, 'y': True}
    """
    flat, depth = "", 0
    for letter in text:
        depth -= letter in "}]"
        flat += letter if depth == 0 else ""
        depth += letter in "{["
    names = [part.split(":")[0].strip() for part in flat.split(",") if part.strip()]
    return {name.rstrip("?"): name.endswith("?") for name in names}


def forms(title: str) -> dict[str, list[dict[str, bool]]]:
    """Requests that a chapter's table names, in all their forms."""
    chapter = next(part for part in REFERENCE.split("\n### ") if part.startswith(title))
    found: dict[str, list[dict[str, bool]]] = {}
    for row in re.findall(r"^\| (`[a-z_]+ \{.*?) \| ", chapter, re.M):
        for match in re.finditer(r"`([a-z_]+) (?=\{)", row):
            found.setdefault(match[1], []).append(fields_in(inside(row, match.end())))
    return found


def merged(alternatives: list[dict[str, bool]]) -> dict[str, bool]:
    """A field may be absent where one form of the request does without it."""
    names = [name for form in alternatives for name in form]
    return {name: any(form.get(name, True) for form in alternatives) for name in names}


def types_of(module: ModuleType, kind: type) -> list[Any]:
    own = [
        each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__
    ]
    return [each for each in own if issubclass(each, kind) and each is not kind]


def fields_of(request: Any) -> dict[str, bool]:
    return {field.name: field.default is None for field in dataclasses.fields(request)}


@pytest.mark.parametrize("title", ROOMS)
def test_every_request_has_the_fields_of_the_reference(title: str) -> None:
    written = {do: merged(found) for do, found in forms(title).items() if do not in OF_TESTS}
    typed = {each.do: fields_of(each) for each in types_of(ROOMS[title], Request)}
    if title == "Probe":
        written = {do: found for do, found in written.items() if do not in ALIKE}
    if title == "Every agent":
        written["hello"] |= merged(forms("Probe")["hello"])
    assert written
    assert typed == written


def test_what_probes_are_asked_like_others_has_fields_of_theirs() -> None:
    others = {each.do: fields_of(each) for room in (every, leader) for each in types_of(room, Request)}
    for do in ALIKE:
        assert merged(forms("Probe")[do]).items() <= others[do].items(), do


def test_the_reference_names_every_parameter_that_can_change_while_its_role_runs() -> None:
    row = next(
        line for line in REFERENCE.splitlines() if line.startswith("| `set {role, parameter, value}` |")
    )
    written = {(workload, parameter) for parameter, workload in re.findall(r"`(\w+)` of `(\w+)`", row)}
    declared = {(name, parameter) for name, workload in WORKLOADS.items() for parameter in workload.tunable}
    assert written == declared


def test_every_descriptor_has_the_fields_of_the_reference() -> None:
    written: dict[str, set[str]] = {}
    row = next(line for line in REFERENCE.splitlines() if line.startswith("| `exec "))
    for match in re.finditer(r"`(?=\{kind: ([a-z]+))", row):
        written.setdefault(match[1], set()).update(fields_in(inside(row, match.end())))
    typed = {each.kind: {"kind", *fields_of(each)} for each in types_of(descriptors, Descriptor)}
    assert typed == written


def test_a_field_that_is_absent_is_not_sent() -> None:
    assert Hello().wire() == {"protocol": (1, 0)}
    assert HandOver(7).wire() == {"channel": 7}
    assert HandOver(7, held=False).wire() == {"channel": 7, "held": False}


def test_descriptors_are_sent_with_their_kind() -> None:
    program = Exec(5, "guest:a", ["true"], descriptors=[AgentDescriptor(7, 3)])
    assert program.wire()["descriptors"] == [{"kind": "agent", "channel": 7, "channels": 3}]


def test_a_reply_is_held_to_the_shape_that_its_request_names() -> None:
    assert Hello.do == "hello"
    with pytest.raises(ValueError, match="its answer to 'hello' has another shape: protocol"):
        Hello().read({})
