"""Every command in the documentation is run, in the order of its page, in an empty folder beside a copy of the studies.

A block ```console holds lines `$ COMMAND`; other lines are what it prints, for people. A comment before the block says
what is special: `<!-- exit: 2 -->` (the exit code, 0 unless said), `<!-- file: NAME -->` before a
```yaml block writes the block to that file. `make` targets are resolved (`make -n`), since CI runs them itself. A page
whose claims stay undecided because other work tainted runs is followed again from its beginning, three times at most.
What a page shows of an output, or as a picture, is compared too (`shown.py`). Pages that name no picture are followed
as virtlab is installed without the extra that draws them, which would be half of the time that most of them take.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import plain
from tests.docs import shown

ROOT = Path(__file__).parents[2]
STUDIES = ROOT.glob("experiments/*/README.md")  # what takes hours stands in no such block there
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *STUDIES])
UNDECIDED = 4  # exit code
TRIES = 3
BLOCK = re.compile(
    r"(?:<!--(?P<note>[^>]*)-->\s*\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Piece:
    """A block of a page: a file to write, or commands to run with the exit code they must have."""

    note: str
    kind: str
    text: str

    @property
    def file(self) -> str | None:
        match = re.search(r"file:\s*(\S+)", self.note)
        return match[1] if match else None

    @property
    def exit_code(self) -> int:
        match = re.search(r"exit:\s*(\d+)", self.note)
        return int(match[1]) if match else 0

    def said(self, key: str) -> str | None:
        match = re.search(rf"{key}:\s*([^;]+)", self.note)
        return match[1].strip() if match else None

    @property
    def commands(self) -> list[str]:
        if self.kind != "console":
            return []
        joined = self.text.replace("\\\n", " ")
        return [line[2:].strip() for line in joined.splitlines() if line.startswith("$ ")]


def pieces(page: Path) -> list[Piece]:
    return [Piece(m["note"] or "", m["kind"], m["text"]) for m in BLOCK.finditer(page.read_text())]


def runnable(page: Path) -> bool:
    return any(piece.commands for piece in pieces(page))


class SpoiltError(AssertionError):
    """A command that judges could not, for the machine had other work during its runs."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if runnable(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    for number in range(1, TRIES + 1):
        try:
            follow(page, tmp_path / str(number))
            return
        except SpoiltError:
            if number == TRIES:
                raise


def follow(page: Path, folder: Path) -> None:
    """Does what a page says in a new folder."""
    for name in ("experiments", "published"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.results"))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "COLUMNS": "120",
    }
    if not re.search(r"\b(svg|png)\b", page.read_text(), re.IGNORECASE):
        environment |= plain.without_pictures(folder / ".plain")
    for piece in pieces(page):
        if piece.file:
            (folder / piece.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / piece.file).write_text(piece.text)
        outputs = ""
        for command in piece.commands:
            where = ROOT if command.startswith("make ") else folder
            line = re.sub(r"^make ", "make -n ", command)
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=where,
                env=environment,
                capture_output=True,
                text=True,
                timeout=1000,
                check=False,
            )
            said = f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            if done.returncode == UNDECIDED != piece.exit_code and " tainted (" in done.stderr + done.stdout:
                raise SpoiltError(said)
            assert done.returncode == piece.exit_code, said
            outputs += done.stdout or done.stderr
        if how := piece.said("shows"):
            wrong = shown.differs(how, piece.text, outputs)
            if shown.WRITING and wrong is not None:
                shown.written(page, piece.text, outputs)
            else:
                assert wrong is None, wrong
        if note := piece.said("picture"):
            wrong = shown.picture(page, note, folder)
            assert wrong is None, wrong


def test_commands_are_only_written_where_they_are_run() -> None:
    """A shell block of another kind would escape the test above."""
    stray = [
        f"{page.relative_to(ROOT)}: ```{piece.kind}"
        for page in PAGES
        for piece in pieces(page)
        if piece.kind in {"sh", "bash", "shell"}
    ]
    assert stray == []
