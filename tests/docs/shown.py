"""What a page shows of a command's output, and pictures of it: compared with what the command does, or written again.

A comment before a console block says so: `<!-- shows: exactly -->` for an output that is the same every time,
`<!-- shows: but for measured numbers -->` for that of a real run, and `<!-- picture: IMAGE is FILE -->` for an image of
the page that is a file which the commands wrote. With `VIRTLAB_TEST_WRITE=1` pages and images are written from what the
commands do, those of a real run if more than its numbers changed.

Two real runs of one file never measure the same. What is compared of them is all the rest: the verdicts and their
sentences, levels, numbers of runs, loss, tables and units, and the files that are named. Left out are times with their
intervals, the effect size, and how many runs other work on the machine spoilt.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

_NUMBER = r"-?\d+(?:\.\d+)?"
# What differs between two real runs of a file, and what stands for it; after line breaks became spaces.
_MEASURED = (
    (re.compile(rf"{_NUMBER} to {_NUMBER} µs"), "LOW to HIGH µs"),
    (re.compile(rf"{_NUMBER} µs"), "TIME µs"),
    (re.compile(rf"{_NUMBER} ± {_NUMBER}"), "TIME ± HALF"),
    (re.compile(rf"(?:Cliff's delta|Hedges g) {_NUMBER}"), "EFFECT"),
    (re.compile(r"\d+ runs? not counted: tainted, failed or cancelled; see the report\. "), ""),
)

WRITING = os.environ.get("VIRTLAB_TEST_WRITE") == "1"


def shown(block: str) -> str:
    """The lines of a console block that are output."""
    joined = block.replace("\\\n", " ")
    return _plain("\n".join(line for line in joined.splitlines() if not line.startswith("$ ")))


def differs(how: str, block: str, output: str) -> str | None:
    """What is wrong with what the block shows; None when it is right."""
    if how not in {"exactly", "but for measured numbers"}:
        return f"'{how}' is neither 'exactly' nor 'but for measured numbers'"
    page, real = shown(block), _plain(output)
    if how != "exactly":
        page, real = _unmeasured(page), _unmeasured(real)
    return None if page == real else f"the page shows\n{page}\nand the commands print\n{real}"


def written(page: Path, block: str, output: str) -> None:
    """The block with the output instead of what it showed."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) == 1, "a block whose output is shown holds one command"
    now = page.read_text(encoding="utf-8")
    assert now.count(block) == 1
    page.write_text(now.replace(block, f"{commands[0]}\n{_plain(output)}\n"), encoding="utf-8")


def picture(page: Path, note: str, folder: Path) -> str | None:
    """What is wrong with an image of the page that a command wrote; None when it is right."""
    image, _, file = (part.strip() for part in note.partition(" is "))
    kept, made = page.parent / image, folder / file
    if f"({image})" not in page.read_text(encoding="utf-8"):
        return f"the page does not show {image}"
    if WRITING:
        shutil.copyfile(made, kept)
    return (
        None
        if kept.read_bytes() == made.read_bytes()
        else f"{image} is not what the commands wrote to {file}"
    )


def _unmeasured(text: str) -> str:
    """The text in one line, without what a real run measured."""
    line = " ".join(text.split())
    for pattern, instead in _MEASURED:
        line = pattern.sub(instead, line)
    return line


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
