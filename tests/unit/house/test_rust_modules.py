"""Modules of the Rust crates depend one way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CRATES = sorted(path.name for path in (ROOT / "crates").iterdir() if (path / "src").is_dir())

# Circles that were there when this test was written; the list may only shrink.
REVIEWED = {
    "virtlab-agent": [
        {"probe::expected", "probe::socket"},
    ],
    # Each discipline declares itself to `build`, which knows them all.
    "virtlab-qdisc": [
        {
            *("build", "classes", "classify", "codel", "drr", "fifo", "fq_codel", "hfsc", "htb", "kernel"),
            *("netem", "pfifo_fast", "pie", "prio", "sfq", "tbf"),
        }
    ],
}


def statements(text: str) -> list[str]:
    """What a source imports, path by path: `crate::a::B`, `super::c`; imports of its tests are none of it."""
    text = re.sub(r"//[^\n]*", "", text.split("\n#[cfg(test)]\nmod tests {", maxsplit=1)[0])
    uses = re.findall(r"(?m)^\s*(?:pub(?:\([a-z]+\))? )?use ([^;]+);", text)
    inline = re.findall(r"(?<!use )(?<!in )\b((?:crate|super)(?:::\w+)+)", text)
    return inline + [path for use in uses for path in paths("", "".join(use.split()))]


def paths(prefix: str, tree: str) -> list[str]:
    """The paths of one `use`, its braces opened."""
    head, brace, rest = tree.partition("{")
    if not brace:
        return [prefix + tree]
    parts, depth, begin = [], 0, 0
    body = rest[: rest.rindex("}")]
    for at, sign in enumerate(body + ","):
        depth += (sign == "{") - (sign == "}")
        if sign == "," and not depth:
            parts.append(body[begin:at])
            begin = at + 1
    return [path for part in parts if part for path in paths(prefix + head, part)]


class Crate:
    """The modules of a crate, by their paths (the root is empty), and what they import."""

    def __init__(self, source: Path) -> None:
        self.texts = {}
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            if parts[-1] in {"mod", "lib", "main"}:
                parts = parts[:-1]
            self.texts[parts] = path.read_text()

    def module(self, at: tuple[str, ...], path: str) -> tuple[str, ...] | None:
        """The module in which stands what a module imports; None: another crate's."""
        names = path.split(" as ", maxsplit=1)[0].split("::")
        if names[0] == "crate":
            here: tuple[str, ...] = ()
            names = names[1:]
        elif names[0] in {"super", "self"}:
            here = at
            while names[0] in {"super", "self"}:
                here = here[:-1] if names[0] == "super" else here
                names = names[1:]
        elif (*at, names[0]) in self.texts:
            here = at
        else:
            return None
        while names and (*here, names[0]) in self.texts:
            here, names = (*here, names[0]), names[1:]
        return self.origin(here, names[0], 0) if names else here

    def origin(self, here: tuple[str, ...], name: str, depth: int) -> tuple[str, ...]:
        """Where a name comes from that a module passes on."""
        exported = re.findall(r"(?m)^pub(?:\([a-z]+\))? use ([^;]+);", self.texts[here])
        for path in (path for use in exported for path in paths("", "".join(use.split()))):
            if path.split("::")[-1] == name and depth < 9:
                return self.module(here, path) or here
        return here

    def imports(self) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
        """By module, those that it imports from."""
        edges: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for at, text in self.texts.items():
            exported = set(re.findall(r"(?m)^pub(?:\([a-z]+\))? use ([^;]+);", text))
            passed_on = {path for use in exported for path in paths("", "".join(use.split()))}
            found = (self.module(at, path) for path in statements(text) if path not in passed_on)
            edges[at] = {module for module in found if module is not None and module != at}
        return edges


def circles(edges: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[set[tuple[str, ...]]]:
    """Groups of modules each of which leads to every other."""

    def reach(start: tuple[str, ...]) -> set[tuple[str, ...]]:
        seen: set[tuple[str, ...]] = set()
        todo = [start]
        while todo:
            todo.extend(edges[todo.pop()] - seen)
            seen.update(todo)
        return seen

    reached = {module: reach(module) for module in edges}
    groups = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in edges
        if module in reached[module]
    }
    return sorted((set(group) for group in groups), key=sorted)


@pytest.mark.slow
@pytest.mark.parametrize("crate", CRATES)
def test_modules_of_a_crate_depend_one_way(crate: str) -> None:
    found = circles(Crate(ROOT / "crates" / crate / "src").imports())
    named = [{"::".join(module) or "lib" for module in group} for group in found]
    assert named == REVIEWED.get(crate, [])


def test_a_circle_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "lib.rs").write_text("mod a;\nmod d;\npub use a::b::{B, Other};\n")
    (tmp_path / "a" / "mod.rs").write_text("pub mod b;\npub mod c;\nuse b::B;\n")
    (tmp_path / "a" / "b.rs").write_text("use super::c::C;\npub struct B;\n")
    (tmp_path / "a" / "c.rs").write_text("use crate::{B, d::D};\npub struct C;\n")
    (tmp_path / "d.rs").write_text(
        "use std::fmt;\npub struct D;\n#[cfg(test)]\nmod tests {\n    use crate::B;\n}\n"
    )
    assert circles(Crate(tmp_path).imports()) == [{("a", "b"), ("a", "c")}]
