"""Commands that the studies name take hours, so none is run but those in blocks (`test_commands.py`): each must be one
that virtlab takes, on files that are there.

They stand in the README of each study (in a line of their own, or `in a sentence`) and in the heads of its files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from virtlab.cli.main import USAGE_ERROR, app

ROOT = Path(__file__).parents[2]
TEXTS = sorted([*ROOT.glob("experiments/*/README.md"), *ROOT.glob("experiments/**/*.yaml")])
IN_A_SENTENCE = re.compile(r"`(virtlab [^`]+)`")
IN_A_LINE = re.compile(r"^(?: {4})?(virtlab .+)$", re.MULTILINE)
BETWEEN = {"&&", "|", ";", ">"}


def commands(text: str) -> Iterator[list[str]]:
    """Words after `virtlab` of each command, of a line with several the first ones that are ours."""
    text = re.sub(r"\n# ", " ", text).replace("\\\n", " ")
    for line in [*IN_A_SENTENCE.findall(text), *IN_A_LINE.findall(IN_A_SENTENCE.sub("", text))]:
        part: list[str] = []
        for word in [*shlex.split(line, comments=True), ";"]:
            if word in BETWEEN:
                if part[:1] == ["virtlab"]:
                    yield part[1:]
                part = []
            else:
                part.append(word)


def parsed(words: list[str]) -> None:
    """Takes a command line as `virtlab` does, without doing it. The library's usage error when it is none."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("virtlab", ["--version"], resilient_parsing=True)
    while hasattr(command, "commands") or hasattr(command, "get_command"):
        if not words:
            return  # a group is named as a whole
        name, words = words[0], words[1:]
        found = command.get_command(context, name)
        assert found is not None, f"there is no command '{name}'"
        if not words:
            return  # a command is named, without what it is to do
        command = found
        if hasattr(command, "get_command"):
            context = command.make_context(name, [], parent=context, resilient_parsing=True)
        else:
            command.make_context(name, words, parent=context)
            return


FOUND = [(text, words) for text in TEXTS for words in commands(text.read_text(encoding="utf-8"))]


def test_there_are_commands_in_every_kind_of_place() -> None:
    assert len(FOUND) >= 20
    assert {text.suffix for text, _ in FOUND} == {".md", ".yaml"}


@pytest.mark.parametrize(
    ("text", "words"), FOUND, ids=[f"{text.parent.name}-{' '.join(words)[:60]}" for text, words in FOUND]
)
def test_a_command_of_a_study_is_one_that_virtlab_takes(
    text: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del text
    monkeypatch.chdir(ROOT)
    parsed(words)
    for word in words:
        if word.startswith(("experiments/", "published/")):
            assert (ROOT / word).exists(), f"{word} is not there"


@pytest.mark.parametrize("wrong", [["run", "a.yaml", "--inside", "lab-vm"], ["run", "a.yaml", "b.yaml", "c"]])
def test_a_command_that_virtlab_does_not_take_is_found(wrong: list[str]) -> None:
    with pytest.raises(USAGE_ERROR):
        parsed(wrong)
