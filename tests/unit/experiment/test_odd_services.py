"""Whatever a file holds in place of a service, an operation or a condition is accepted or cleanly refused."""

from __future__ import annotations

import pytest

from virtlab.experiment import FileMistakesError, load_text
from virtlab.experiment.read.mistakes import Mistake

ODD = ["3", "[1]", "{a: b}", "null", "x", "[]", "{}", "true", "[[x]]", '"\\u0007"']
FILE = """
version: 1
name: odd
hosts: 2
topology: none
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1}
"""
SERVICE = {"kind": "program", "on": "h1.g1", "argv": "[x]", "ready": "{port: 1}"}
RIGHT = "services: {a: {kind: program, on: h1.g1, argv: [x]}}\n"
ENDS = "timeout: 1 s, on_timeout: fail"


def mapping(values: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}"


def files(odd: str) -> list[str]:
    """Each place with this value in it."""
    found = [f"services: {odd}\n"]
    for key in (*SERVICE, "needs", "environment", "files", "user", "cpu", "memory"):
        found.append(f"services: {{a: {mapping({**SERVICE, key: odd})}}}\n")
    for key in ("port", "http", "line", "argv", "every", "timeout"):
        for check in ({key: odd}, {"port": "1", key: odd}):
            found.append(f"services: {{a: {mapping({**SERVICE, 'ready': mapping(check)})}}}\n")
    for key in ("service", "op", "args", "role"):
        called = mapping({"id": "c", "do": "call", "service": "a", "op": "fail", key: odd})
        found += [f"{before}timeline: [{called}]\n" for before in ("", RIGHT)]
    for key in ("call", "every", "series", "op", "value"):
        for until in (mapping({key: odd}), mapping({"call": "a.ready", key: odd}), odd):
            waits = f"timeline: [{{id: c, do: wait, until: {until}, {ENDS}}}]\n"
            found += [f"{before}{waits}" for before in ("", RIGHT)]
    return [*found, f"timeline: [{{id: c, do: start, role: {odd}}}]\n"]


def mistakes_of(text: str) -> list[Mistake]:
    try:
        load_text(text)
    except FileMistakesError as error:
        return list(error.mistakes)
    return []


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_value_in_any_place_of_a_service_is_cleanly_refused(odd: str) -> None:
    found = {text: mistakes_of(FILE + text) for text in files(odd)}
    assert all(mistake.what and mistake.cure for mistakes in found.values() for mistake in mistakes)
    assert sum(bool(mistakes) for mistakes in found.values()) > len(found) // 2
