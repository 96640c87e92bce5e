"""`--junit` and `--markdown`: what several commands also write for other programs.

The summary of a GitHub step is a file that every step adds to; any other file is written as a whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtlab.errors import MachineError
from virtlab.folders import put

if TYPE_CHECKING:
    from virtlab.report.exchange.cases import Cases

Junit = Annotated[
    Path | None,
    typer.Option("--junit", help="also write the answers as JUnit XML into this file", show_default=False),
]
Markdown = Annotated[
    Path | None,
    typer.Option(
        "--markdown",
        help="also write the answers as Markdown into this file; added at the end of $GITHUB_STEP_SUMMARY",
        show_default=False,
    ),
]
SUMMARY = "GITHUB_STEP_SUMMARY"


def write_cases(cases: Cases, junit_file: Path | None, markdown_file: Path | None) -> None:
    """Writes what was asked. MachineError where a file cannot be written."""
    if junit_file is not None:
        from virtlab.report.exchange.junit import junit

        _write("--junit", junit_file, junit(cases), add=False)
    if markdown_file is not None:
        from virtlab.report.exchange.markdown import markdown

        summary = os.environ.get(SUMMARY)
        add = bool(summary) and markdown_file.absolute() == Path(summary or "").absolute()
        _write("--markdown", markdown_file, markdown(cases), add=add)


def refuse_unwritable(junit_file: Path | None, markdown_file: Path | None) -> None:
    """MachineError where a file could not be written later, before hours of runs."""
    for option, file in (("--junit", junit_file), ("--markdown", markdown_file)):
        if file is not None and (file.is_dir() or not os.access(file.absolute().parent, os.W_OK | os.X_OK)):
            what = (
                "is a folder"
                if file.is_dir()
                else "cannot be written: there is no folder for it that is yours"
            )
            raise MachineError(f"{option} {file}", what, "name another file")


def _write(option: str, file: Path, text: str, *, add: bool) -> None:
    try:
        if add:
            with file.open("a", encoding="utf-8") as target:
                target.write(text)
        else:
            put(file, text.encode())
    except OSError as error:
        raise MachineError(
            f"{option} {file}", f"cannot be written ({error.strerror})", "name another file"
        ) from None
