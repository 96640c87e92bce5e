"""Manual pages, from the same declarations as `--help` and the reference page: a page per command, in section 1."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from virtlab import __version__
from virtlab.cli.table import COMMANDS, declaration

SUMMARY = "a laboratory for virtualised infrastructure"


def pages() -> dict[str, str]:
    """File name -> troff text, of `virtlab` and each of its commands."""
    found = {"virtlab.1": _root()}
    for name, entry in COMMANDS.items():
        found[f"virtlab-{name}.1"] = _page(name, entry.help, declaration(name))
    return found


def _root() -> str:
    lines = [
        _title("virtlab"),
        ".SH NAME",
        f"virtlab \\- {SUMMARY}",
        ".SH SYNOPSIS",
        ".B virtlab",
        "COMMAND ...",
    ]
    lines += [".SH COMMANDS"]
    for name, entry in COMMANDS.items():
        lines += [".TP", f".B {_text(name)}", f"{_text(entry.help)}; see", f".BR virtlab-{name} (1)."]
    lines += [".SH SEE ALSO", ", ".join(f"virtlab-{_text(name)}(1)" for name in COMMANDS)]
    return "\n".join(lines) + "\n"


def _page(name: str, help_text: str, command: Any) -> str:
    lines = [_title(f"virtlab-{name}"), ".SH NAME", f"virtlab-{_text(name)} \\- {_text(help_text)}"]
    children = getattr(command, "commands", None)
    lines += [
        ".SH SYNOPSIS",
        f".B virtlab {_text(name)}",
        _text("COMMAND ..." if children else _synopsis(command)),
    ]
    lines += [".SH DESCRIPTION", *_description(command)]
    for child, one in (children or {}).items():
        lines += [
            f".SH {_text(name).upper()} {_text(child).upper()}",
            f".B virtlab {_text(name)} {_text(child)}",
        ]
        lines += [_text(_synopsis(one)), ".PP", *_description(one), *_options(one)]
    if not children:
        lines += [".SH OPTIONS", *_options(command)]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR virtlab (1)"]) + "\n"


def _title(name: str) -> str:
    return f'.TH "{name.upper()}" 1 "" "virtlab {__version__}" "User Commands"'


def _synopsis(command: Any) -> str:
    words = ["[OPTIONS]"]
    for each in command.params:
        if not each.opts[0].startswith("-") and not each.hidden:
            word = each.name.upper() + ("..." if each.nargs == -1 else "")
            words.append(word if each.required else f"[{word}]")
    return " ".join(words)


def _description(command: Any) -> list[str]:
    lines: list[str] = []
    for paragraph in dedent(command.help or "").strip().split("\n\n"):
        if paragraph.startswith("    "):
            lines += [".PP", ".nf", *(_text(line.strip()) for line in paragraph.splitlines()), ".fi"]
        else:
            lines += [".PP", _text(" ".join(paragraph.split()))]
    return lines[1:] if lines[:1] == [".PP"] else lines


def _options(command: Any) -> list[str]:
    lines: list[str] = []
    for each in command.params:
        if each.hidden or each.name == "help":
            continue
        option = each.opts[0].startswith("-")
        names = ", ".join([*each.opts, *each.secondary_opts]) if option else each.name.upper()
        lines += [".TP", f".B {_text(names)}", _text(each.help or "")]
    return [*lines, ".TP", ".B \\-\\-help", "Shows the help and ends."]


def _text(text: str) -> str:
    """Text as troff takes it: hyphens that may be copied, no line that begins with a command."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
