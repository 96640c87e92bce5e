"""Small files of others that are read whole: regular files of bounded size, tables of them, and YAML of bounded
content.

A device or a pipe in the place of a file never ends. A few lines of YAML that refer to one another stand for more
values than any memory holds, and a few thousand brackets for a depth that no program walks. So the size is bounded
before reading, and nodes (an alias counts as all that it stands for) and depth before anything is made of them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from virtlab.errors import ExperimentError
from virtlab.lazy import csv
from virtlab.units import show_count

LARGEST_BYTES = 1 << 20
NODES_MAX = 50_000
DEPTH_MAX = 24
OF_THE_MACHINE = {
    errno.EIO,
    errno.ESTALE,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
}  # no other file would be read


def read_text(path: Path, *, cure: str = "name a readable file", largest_bytes: int = LARGEST_BYTES) -> str:
    """A whole file of UTF-8 text. ExperimentError if it is not UTF-8, not a regular file, or larger."""
    try:
        return read_bytes(path, cure=cure, largest_bytes=largest_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ExperimentError(str(path), "is not UTF-8 text", "save it as UTF-8") from None


def read_bytes(
    path: Path, *, cure: str = "name a readable file", missing: str = "", largest_bytes: int = LARGEST_BYTES
) -> bytes:
    """The bytes of a whole regular file. ExperimentError where it cannot be read, or is larger than so many bytes.

    `missing` is the cure where there is no such file. OSError where the machine fails, whatever file it were.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ExperimentError(str(path), "is not a regular file", cure)
            content = file.read(largest_bytes + 1)
    except OSError as error:
        if error.errno in OF_THE_MACHINE:
            raise OSError(error.errno, error.strerror, str(path)) from None
        cure = missing if missing and isinstance(error, FileNotFoundError) else cure
        raise ExperimentError(str(path), f"cannot be read ({error.strerror})", cure) from None
    except ValueError as error:  # a null character in the name
        raise ExperimentError(str(path), f"cannot be read ({error})", cure) from None
    if len(content) > largest_bytes:
        raise ExperimentError(str(path), f"is larger than {largest_bytes >> 20} MiB", cure)
    return content


def read_table(
    path: Path, columns: Iterable[str] = (), *, cure: str = "name a readable file"
) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file below its heading, each with its line; a cell that is not written is empty.

    ExperimentError, with the line as `where`, for text that is no table, and where one of the columns is missing.
    """
    lines = read_text(path, cure=cure).splitlines(keepends=True)
    reader = csv.DictReader(lines, restval="", strict=True)
    rows = []
    try:
        for column in columns:
            if column not in (reader.fieldnames or ()):
                raise ExperimentError(f"{path}, line 1", f"has no column '{column}'", cure)
        for row in reader:
            if None in row:
                raise ExperimentError(
                    f"{path}, line {reader.line_num}",
                    "has more cells than the table has columns",
                    "quote cells that hold a comma",
                )
            rows.append((reader.line_num, dict(row)))
    except csv.Error as error:
        raise ExperimentError(
            f"{path}, line {reader.line_num}", f"is not a valid line of a CSV file ({error})", "mend it there"
        ) from None
    return rows


def yaml_values(text: str) -> Any:
    """The values of YAML 1.2 text, in plain types. ExperimentError, with the line as `where`, for other text."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        _bounded(YAML(typ="safe", pure=True).parse(text))
        reader = YAML(typ="safe", pure=True)
        reader.composer.warn_double_anchors = False  # YAML allows it, and a warning is no line of ours
        return reader.load(text)
    except MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = error.problem or str(error).splitlines()[0]
        raise ExperimentError(line, f"is not YAML: {problem}", "mend it there") from None
    except (
        YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        # The reader of YAML raises all of these for text that is not YAML.
        problem = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise ExperimentError("", f"is not YAML: {problem}", "mend it") from None


def _bounded(events: Any) -> None:
    """Counts what the events stand for. ExperimentError where it is too much."""
    nodes, depth = 0, 0
    weights: dict[str, int] = {}
    begun: list[
        tuple[str | None, int]
    ] = []  # the anchor of each open list or mapping, and the nodes before it
    for event in events:
        kind = type(event).__name__
        if kind == "AliasEvent":
            if any(event.anchor == anchor for anchor, _ in begun):
                raise ExperimentError(
                    f"line {event.start_mark.line + 1}", f"'*{event.anchor}' contains itself", "write it out"
                )
            nodes += weights.get(event.anchor, 1)
        elif kind in {"ScalarEvent", "MappingStartEvent", "SequenceStartEvent"}:
            nodes += 1
            if kind == "ScalarEvent":
                weights[event.anchor] = 1
            else:
                begun.append((event.anchor, nodes - 1))
                depth += 1
        elif kind in {"MappingEndEvent", "SequenceEndEvent"}:
            anchor, before = begun.pop()
            weights[anchor or ""] = nodes - before
            depth -= 1
        if nodes > NODES_MAX or depth > DEPTH_MAX:
            line = event.start_mark.line + 1 if event.start_mark else 1
            what = (
                f"holds more than {show_count(NODES_MAX)} values"
                if nodes > NODES_MAX
                else f"is deeper than {DEPTH_MAX} levels"
            )
            raise ExperimentError(f"line {line}", what, "shorten it, and write aliases out")


def read_yaml(path: Path, *, cure: str = "name a readable file") -> Any:
    """The values of a YAML file. ExperimentError with the file, and the line where there is one."""
    try:
        return yaml_values(read_text(path, cure=cure))
    except ExperimentError as error:
        if error.where.startswith(str(path)):
            raise
        raise ExperimentError(
            ", ".join(filter(None, (str(path), error.where))), error.what, error.cure
        ) from None
