"""Modules of Python depend one way, also in what they import for their types alone: whoever reads one reads no other
that leads back to it.
"""

import ast
from pathlib import Path

import pytest
from tests.unit.house.test_rust_modules import circles

ROOT = Path(__file__).parents[3] / "python" / "virtlab"
Module = tuple[str, ...]


def modules(folder: Path) -> dict[Module, Path]:
    """By its name, beneath the package."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[parts[:-1] if parts[-1] == "__init__" else parts] = path
    return found


def imports(folder: Path) -> dict[Module, set[Module]]:
    """By module, those that it imports, wherever the statement stands in it."""
    files, edges = modules(folder), {}
    for module, path in files.items():
        named: set[Module] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                package = tuple(node.module.split("."))
                wholes = [(*package, alias.name) for alias in node.names]
                named |= {whole if whole[1:] in files else package for whole in wholes}
            elif isinstance(node, ast.Import):
                named |= {tuple(alias.name.split(".")) for alias in node.names}
        own = {name[1:] for name in named if name[0] == folder.name}
        edges[module] = {name for name in own if name in files and name != module}
    return edges


@pytest.mark.slow
def test_modules_depend_one_way() -> None:
    assert circles(imports(ROOT)) == []


def test_a_circle_by_types_alone_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "house"
    (folder / "room").mkdir(parents=True)
    (folder / "__init__.py").write_text("from house.room import a\n")
    (folder / "room" / "__init__.py").write_text("")
    (folder / "room" / "a.py").write_text("def late():\n    from house.room.b import B\n")
    (folder / "room" / "b.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.room import a, c\n"
    )
    (folder / "room" / "c.py").write_text("import house.d\n")
    (folder / "d.py").write_text("import json\n")
    assert circles(imports(folder)) == [{("room", "a"), ("room", "b")}]
