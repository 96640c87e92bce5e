"""The Python interface as a page for people: docs/reference/python.md is written by this and checked against it.

`python -m virtlab.api.reference_page` prints the page, from the signatures and docstrings of what it names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from textwrap import dedent
from typing import Any

import virtlab as vl
from virtlab.changes.differences import Change, Changes
from virtlab.experiment import Experiment
from virtlab.prediction.questions.capacity import Capacity
from virtlab.report.gather.model import Verdict
from virtlab.stats import Estimate

FUNCTIONS = ("run", "open", "define", "load", "compare", "predict", "capacity")
CLASSES: dict[type, tuple[str, ...]] = {
    vl.Results: (),
    vl.Table: (),
    vl.Picture: (),
    Experiment: ("points", "write"),
    Verdict: (),
    Estimate: (),
    Changes: (),
    Change: (),
    Capacity: (),
}  # what functions return, and the members that programs need; none named: all that are public
_WIDTH = 100  # characters, beyond which a signature takes a line per parameter
_HEAD = """\
    # Python interface

    What `import virtlab as vl` offers. [Use virtlab from Python](../howto/use-python.md) shows it at work. These two pages
    are the stable interface; anything else may change without notice.
    """


def page() -> str:
    """The whole page as Markdown."""
    parts = [dedent(_HEAD), "## Functions\n"]
    for name in FUNCTIONS:
        parts += [f"### `vl.{name}`\n", _signature(name, getattr(vl, name)), _prose(getattr(vl, name))]
    parts.append("## What they return\n")
    for made, names in CLASSES.items():
        parts += [f"### `{made.__name__}`\n", _prose(made)]
        if rows := "\n".join(_fields(made)):
            parts.append(f"| field | type |\n|---|---|\n{rows}\n")
        parts += [text for name, member in _members(made, names) for text in _member(name, member)]
    return "\n".join(parts)


def _members(made: type, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties in the order of the source."""
    of_fields = {each.name for each in fields(made)} if is_dataclass(made) else set()
    for name, member in vars(made).items():
        if not name.startswith("_") and name not in of_fields and (not names or name in names):
            yield name, member


def _member(name: str, member: Any) -> list[str]:
    if isinstance(member, (property, cached_property)):
        getter = member.fget if isinstance(member, property) else member.func
        assert getter is not None
        kind = inspect.signature(getter).return_annotation
        return [f"```python\n{name}: {kind}\n```", _prose(getter)]
    call = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    return [_signature(name, call, method=True), _prose(call)]


def _fields(made: type) -> Iterator[str]:
    """A row of a table per field that is public."""
    for each in fields(made) if is_dataclass(made) else ():
        if not each.name.startswith("_"):
            kind = str(each.type).replace("|", "\\|")
            yield f"| `{each.name}` | `{kind}` |"


def _signature(name: str, call: Callable[..., Any], *, method: bool = False) -> str:
    """As a stub has it: on one line where it fits."""
    found = inspect.signature(call)
    words, keywords = [], False
    for each in list(found.parameters.values())[1 if method else 0 :]:
        if each.kind is each.KEYWORD_ONLY and not keywords:
            keywords = True
            words.append("*")
        stars = "**" if each.kind is each.VAR_KEYWORD else ""
        default = "" if each.default is each.empty else f" = {each.default!r}"
        words.append(f"{stars}{each.name}: {each.annotation}{default}")
    line = f"{name}({', '.join(words)}) -> {found.return_annotation}"
    if len(line) > _WIDTH:
        line = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f") -> {found.return_annotation}"
    return f"```python\n{line}\n```"


def _prose(documented: object) -> str:
    """A docstring, its example as a block of its own."""
    text, prompt, example = (inspect.getdoc(documented) or "").partition(">>>")
    block = f"```pycon\n{prompt}{example.rstrip()}\n```\n" if prompt else ""
    return f"{text.rstrip()}\n" + (f"\n{block}" if block else "")


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
