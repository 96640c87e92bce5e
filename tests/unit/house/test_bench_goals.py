"""Figures beside their goals: the line says whether each is met, and every goal that a bench states can be read."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHES = Path(__file__).parents[3] / "benches"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`benches/run.py`, as it is when it is executed."""
    monkeypatch.syspath_prepend(BENCHES)
    before = set(sys.modules)
    import run as module

    yield module
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        ({"value": 0.3, "goal": "<= 0.3"}, True),
        ({"value": 0.31, "goal": "<= 0.3"}, False),
        ({"value": 0, "goal": "< 0"}, False),
        ({"value": 2.7e6, "goal": ">= 2.7e+06"}, True),
        ({"value": 9e9, "ratio": 2.9, "goal": "ratio >= 3"}, False),
        ({"value": 0, "ratio": 3.1, "goal": "ratio >= 3"}, True),
        ({"value": 0, "ratio": None, "goal": "ratio >= 3"}, None),
        ({"value": None, "goal": "<= 1"}, None),
        ({"value": -20, "goal": "-20 .. 20"}, True),
        ({"value": 20.1, "goal": "-20 .. 20"}, False),
        ({"value": 500, "ratio": 1.5, "goal": "<= 100 or ratio <= 1.5"}, True),
        ({"value": 500, "ratio": 1.6, "goal": "<= 100 or ratio <= 1.5"}, False),
        ({"value": 500, "goal": "<= 100 or ratio <= 1.5"}, None),
    ],
)
def test_a_line_says_whether_its_goal_is_met_right_beside_it(
    run: ModuleType, figure: dict[str, Any], met: bool | None
) -> None:
    told = json.loads(run.line("some", {"name": "one", **figure, "more": 1}))
    assert told == {"bench": "some", "name": "one", **figure, "met": met, "more": 1}
    keys = list(told)
    assert keys.index("met") == keys.index("goal") + 1


@pytest.mark.parametrize("figure", [{"value": 1}, {"value": 1, "goal": None}])
def test_a_figure_without_a_goal_meets_none(run: ModuleType, figure: dict[str, Any]) -> None:
    assert json.loads(run.line("some", figure)) == {"bench": "some", **figure}


@pytest.mark.parametrize("goal", ["", "fast", "<= 0.5 s", "0", "<=1", "ratio", "<= 1 or fast"])
def test_a_goal_that_cannot_be_read_is_told(run: ModuleType, goal: str) -> None:
    with pytest.raises(ValueError, match=r"one: no goal can be read in .*; write e\.g\. '<= 0\.3'"):
        run.line("some", {"name": "one", "value": 1, "goal": goal})


def test_a_missed_goal_is_printed_and_is_no_failure(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = [{"name": "slow", "value": 2, "goal": "<= 1"}, {"name": "fast", "value": 1, "goal": "<= 1"}]
    bench = ModuleType("made_up")
    bench.bench = lambda: iter(figures)  # type: ignore[attr-defined]
    monkeypatch.setattr(run, "benches", lambda _wanted: [("made_up", bench)])
    monkeypatch.setattr(sys, "argv", ["run.py"])
    assert run.main() == 0
    assert [json.loads(line)["met"] for line in capsys.readouterr().out.splitlines()] == [False, True]


def stated() -> list[tuple[str, str]]:
    """(where, goal) of every goal written in a bench, with 1 for what is filled in."""
    found = []
    for path in sorted(BENCHES.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
            for key, value in pairs:
                if isinstance(key, ast.Constant) and key.value == "goal" and path.stem != "run":
                    found += [(f"{path.name}:{value.lineno}", text) for text in _texts(value)]
    return found


def _texts(value: ast.expr) -> list[str]:
    if isinstance(value, ast.Constant):
        return [] if value.value is None else [str(value.value)]
    if isinstance(value, ast.JoinedStr):
        return ["".join(part.value if isinstance(part, ast.Constant) else "1" for part in value.values)]  # type: ignore[misc]
    return []  # a name: its bench tells it where the figures are made


@pytest.mark.slow
def test_every_goal_that_a_bench_states_can_be_read(run: ModuleType) -> None:
    goals = stated()
    assert len(goals) > 15
    for where, goal in goals:
        told = json.loads(run.line(where, {"name": where, "value": 1, "ratio": 1, "goal": goal}))
        assert told["met"] in {True, False}, where
