"""One file says which name was probably meant: no other compares words by itself, and all say it alike."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLACE = "python/virtlab/units/nearest.py"


def imported(path: Path) -> set[str]:
    """Modules that a file imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.slow
def test_words_are_compared_in_one_place() -> None:
    sources = [path for folder in ("python", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]
    comparing = [path.relative_to(ROOT).as_posix() for path in sources if "difflib" in imported(path)]
    assert comparing == [PLACE]
