"""An option that takes several values is given once for each, and its help says so: of every command."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from virtlab.cli.table import COMMANDS, declaration

SAID = "may be repeated"


def commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, or those of a group, each with its words."""
    beneath = getattr(command, "commands", {})
    if not beneath:
        yield path, command
    for name, each in beneath.items():
        yield from commands(f"{path} {name}", each)


EVERY = dict(pair for name in COMMANDS for pair in commands(name, declaration(name)))
OPTIONS = [
    (path, option)
    for path, command in EVERY.items()
    for option in command.params
    if option.param_type_name == "option"
]
REPEATED = [(path, option) for path, option in OPTIONS if SAID in (option.help or "")]


def takes_list(path: str, name: str) -> bool:
    """Whether the function of a command takes a list by that name."""
    function = inspect.unwrap(EVERY[path].callback)
    annotation = typing.get_type_hints(function)[name]
    return list in {typing.get_origin(each) for each in (annotation, *typing.get_args(annotation))}


@pytest.mark.slow
def test_an_option_can_be_repeated_where_its_help_says_so_and_nowhere_else() -> None:
    assert len(REPEATED) > 20
    said = {(path, option.name) for path, option in REPEATED}
    assert said == {(path, option.name) for path, option in OPTIONS if option.multiple}
    assert said == {(path, option.name) for path, option in OPTIONS if takes_list(path, option.name)}


@pytest.mark.parametrize(
    ("path", "option"), [pytest.param(*each, id=f"{each[0]} {each[1].opts[0]}") for each in REPEATED]
)
def test_both_values_of_a_repeated_option_are_taken(path: str, option: Any, tmp_path: Path) -> None:
    values = [str(tmp_path / name) for name in ("one", "two")]
    for value in values:
        Path(value).touch()  # some are files that must exist
    given = [word for value in values for word in (option.opts[0], value)]
    context = EVERY[path].make_context(path, given, resilient_parsing=True)
    assert [str(value) for value in context.params[option.name]] == values
