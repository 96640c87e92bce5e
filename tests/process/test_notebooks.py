"""The notebooks of the documentation, run cell by cell as a notebook does: in one namespace, inside a running event
loop.
"""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))
ANSWERS = {
    "first-experiment": lambda shown: (
        "holds" in shown[0] and "<table" in shown[1] and shown[2].startswith("<svg")
    ),
    "compare-two-datasets": lambda shown: "'equivalent'" in shown[0] and "'worse'" in shown[1],
    "predict-and-plan": lambda shown: "<table" in shown[0] and shown[1] == "'2'",
}


def shown(value: Any) -> str:
    """What a notebook shows of a value."""
    return str(value._repr_html_()) if hasattr(value, "_repr_html_") else repr(value)


async def played(notebook: dict[str, Any]) -> list[str]:
    """Runs all cells; what is shown below those that end in an expression."""
    names: dict[str, Any] = {}
    found = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                found.append(shown(value))
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_its_answers(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text())
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert ANSWERS[path.stem](asyncio.run(played(notebook)))


def test_every_notebook_has_answers() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(ANSWERS)
