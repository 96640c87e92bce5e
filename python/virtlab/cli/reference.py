"""The commands as a page for people: docs/reference/commands.md is written by this and checked against it.

`python -m virtlab.cli.reference` prints the page. Each command's own declaration is what it is made of, so the page
says what `--help` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from textwrap import dedent, fill
from typing import Any

from virtlab.cli.table import COMMANDS, declaration

_HEAD = """\
    # Commands

    `virtlab COMMAND --help` prints the same texts. Every command except `exec` and `shell` ends with one of these codes:

    | exit code | meaning |
    |---|---|
    | 0 | done; every claim holds |
    | 1 | a claim is refuted, or the answer is no (`rt`, `migration`) |
    | 2 | the file, the dataset or an option is wrong |
    | 3 | this machine cannot |
    | 4 | finished, but something failed or is undecided |
    | 70 | a defect of virtlab |
    | 130 | interrupted; the same command resumes |
    | 141 | the program that read standard output ended first |

    An error is one line on standard error, `virtlab: WHERE: WHAT; CURE`; each mistake of a file gets a line.
    Control characters, and characters without width or that change the direction of writing, are shown (`␛`, `�`)
    and not passed on to the terminal; `--json` escapes them. A run continues even if standard error cannot be
    written. If an option is not given, `run` takes it from the environment and from a [settings
    file](settings.md#settings); the profile that is named there also applies to `predict`, `capacity` and
    `recommend`.
    """


def page() -> str:
    """The whole page as Markdown."""
    parts = [dedent(_HEAD).rstrip()]
    for name in COMMANDS:
        command = declaration(name)
        children = getattr(command, "commands", None)
        parts.append(f"\n## `virtlab {name}`" if children else f"\n## {_title(name, command)}")
        parts += _described(command)
        for child, one in (children or {}).items():
            parts.append(f"\n### {_title(f'{name} {child}', one)}")
            parts += _described(one)
    return "\n".join(parts) + "\n"


def _title(name: str, command: Any) -> str:
    words = [f"virtlab {name}"]
    for given in command.params:
        if not _is_option(given):
            word = given.name.upper() + ("..." if given.nargs == -1 else "")
            words.append(word if given.required else f"[{word}]")
    return f"`{' '.join(words)}`"


def _described(command: Any) -> Iterator[str]:
    """What it does, and its arguments and options as a table."""
    for paragraph in dedent(command.help or "").strip().split("\n\n"):
        word, colon, example = paragraph.strip().partition(": ")
        text = " ".join(paragraph.split())
        if paragraph.startswith("    "):
            yield f"    {text}"
        elif word == "Example":
            yield f"\nExample{colon}`{' '.join(example.split())}`"
        else:
            wrapped = fill(text, 118, break_long_words=False, break_on_hyphens=False)
            yield f"\n{wrapped}" + ("\n" if text.endswith(":") else "")
    rows = [row for given in command.params if not given.hidden for row in _row(given)]
    if rows:
        yield "\n| option | meaning | default |\n|---|---|---|"
        yield from rows


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def _row(parameter: Any) -> Iterator[str]:
    if parameter.name in {"install_completion", "show_completion", "help"}:
        return
    names = (
        [*parameter.opts, *parameter.secondary_opts] if _is_option(parameter) else [parameter.name.upper()]
    )
    meaning = (parameter.help or "").replace("|", "\\|")
    yield f"| {', '.join(f'`{name}`' for name in names)} | {meaning} | {_default(parameter)} |"


def _default(parameter: Any) -> str:
    said = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    if parameter.required:
        return "required"
    if parameter.secondary_opts and isinstance(said, bool):
        return f"`{(parameter.opts if said else parameter.secondary_opts)[0]}`"
    return "" if said is None or isinstance(said, bool | list) or said == "" else f"`{said}`"


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
