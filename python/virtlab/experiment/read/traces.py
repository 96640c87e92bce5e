"""Traces: instants at which requests are due, from files beside the experiment file, kept in its section `traces`.

A dataset holds its experiment file and is resumed and reported from it. A file beside it could change meanwhile, or be
missing elsewhere; so the text of an experiment that was read from a file ends with the traces that its roles name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

from virtlab.brought import read_beside
from virtlab.catalogue.kinds import DURATION_MAX_NS, FILE_NAME, shown
from virtlab.experiment.read.ending import values_of, with_section
from virtlab.experiment.read.factors import read_factors
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.read.mistakes import FileMistakesError, Mistake, Mistakes
from virtlab.experiment.read.tree import Node
from virtlab.lazy import csv, pattern
from virtlab.units import Duration

TIMES_MAX = 20_000
FILES_MAX_BYTES = 8 << 20  # of all traces of an experiment, as they lie beside it
COLUMNS = {f"time_{unit}": unit for unit in ("ns", "us", "ms", "s")}
_NUMBER = pattern(r"[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE][-+]?[0-9]{1,2})?\Z")
_TIME = pattern(r"(\S+?)\s*(ns|us|ms|s|min|h)\Z")
_CURE = "name a column time_s, time_ms, time_us or time_ns, or write a time with its unit on each line, e.g. 0.25 s"

Traces = Mapping[str, tuple[int, ...] | None]  # None: its lines are wrong


class TraceError(ValueError):
    """A line of a trace that holds no instant: "WHAT; CURE"."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def parse_trace(text: str) -> tuple[int, ...]:
    """The instants of a trace, in ns from its start: of a column with its unit, or a time with its unit on each line.

    >>> parse_trace("user,time_ms\\na,0\\nb,1.5\\n"), parse_trace("# recorded\\n0 s\\n\\n20 us\\n")
    ((0, 1500000), (0, 20000))
    >>> parse_trace("0.1\\n0.2\\n")
    Traceback (most recent call last):
    virtlab.experiment.read.traces.TraceError: '0.1' has no unit; name a column time_s, time_ms, time_us or time_ns, or...
    """
    times: list[int] = []
    column: tuple[int, str] | None = None
    begun = False
    for line, fields in _lines(text):
        if not begun:
            begun, column = True, _column(fields)
            if column is not None:
                continue
        instant = _instant(line, fields, column)
        if times and instant < times[-1]:
            raise TraceError(line, "it is before the line above; sort the lines by time")
        if len(times) == TIMES_MAX:
            raise TraceError(
                line, f"a trace has at most {TIMES_MAX} times; shorten it, and repeat it by 'trace_period'"
            )
        times.append(instant)
    if not times:
        raise TraceError(1, f"it holds no time; {_CURE}")
    return tuple(times)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(keepends=True))
    try:
        for fields in reader:
            stripped = [field.strip() for field in fields]
            if any(stripped) and not stripped[0].startswith("#"):
                yield reader.line_num, stripped
    except csv.Error as error:
        raise TraceError(
            reader.line_num, f"it is not a valid line of a CSV file ({error}); mend it"
        ) from None


def _column(fields: list[str]) -> tuple[int, str] | None:
    """Which column holds times, and their unit; None if this line is no head of a table."""
    places = [place for place, field in enumerate(fields) if field in COLUMNS]
    return (places[0], COLUMNS[fields[places[0]]]) if len(places) == 1 else None


def _instant(line: int, fields: list[str], column: tuple[int, str] | None) -> int:
    if column is None:
        found = _TIME.match(fields[0]) if len(fields) == 1 else None
        if found is None:
            what = "has no unit" if len(fields) == 1 and _NUMBER.match(fields[0]) else "is not a time"
            raise TraceError(line, f"'{shown(','.join(fields))}' {what}; {_CURE}")
        number, unit = found.groups()
    elif column[0] < len(fields):
        number, unit = fields[column[0]], column[1]
    else:
        raise TraceError(
            line, f"it has {len(fields)} columns, and the time is in column {column[0] + 1}; mend it"
        )
    if not _NUMBER.match(number):
        raise TraceError(line, f"'{shown(number)}' is not a time from the start; write a number, e.g. 0.25")
    instant = round(Decimal(number) * Duration.units[unit])
    if instant > DURATION_MAX_NS:
        what = f"'{shown(number)} {unit}' is more than 30 days from the start"
        raise TraceError(line, f"{what}; times count from the start of the role, so subtract the first")
    return instant


def read_traces(findings: Findings) -> Traces:
    """The section `traces`; the mistakes of its traces are added."""
    node = findings.root.get("traces")
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        cure = "write e.g. 'arrivals.csv: |', and its lines below"
        findings.add(("traces",), "must map names to the lines of a trace", cure)
        return {}
    traces: dict[str, tuple[int, ...] | None] = dict.fromkeys(node.value)
    for name, entry in node.value.items():
        at = ("traces", name)
        if not FILE_NAME.match(name):
            findings.add(
                at, f"'{shown(name)}' is not a name of a file", "use letters, digits, _, . and -", key=True
            )
        elif not isinstance(entry.value, str):
            findings.add(at, "is not the lines of a trace", "write '|' behind its name, and its lines below")
        else:
            try:
                traces[name] = parse_trace(entry.value)
            except TraceError as error:
                what, _, cure = str(error).partition("; ")
                findings.add(at, f"line {error.line}: {what}", cure)
    return traces


def with_traces(text: str, root: Node, folder: Path, name: str) -> str:
    """The text, ended by the traces that its roles name and it does not hold, as they are in a folder.

    FileMistakesError at the line that names a trace which cannot be read, or at the line of the trace that is wrong.
    """
    held = root.get("traces")
    wanted = {file: place for file, place in _named(root) if held is None or held.get(file) is None}
    if not wanted:
        return text
    if held is not None:
        file, (node, path) = next(iter(wanted.items()))
        raise _mistaken(
            name, node, path, f"'traces' has no '{shown(file)}'", "add it there, or remove 'traces'"
        )
    parts = ["traces:  # as they were beside this file when it was read"]
    left_bytes = FILES_MAX_BYTES
    for file, (node, path) in wanted.items():
        try:
            octets = read_beside(folder, file, left_bytes)
            left_bytes -= len(octets)
            content = octets.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _mistaken(name, node, path, f"'{file}' is not UTF-8 text", "save it as UTF-8") from None
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise _mistaken(name, node, path, what, cure) from None
        try:
            times = parse_trace(content)
        except TraceError as error:
            what, _, cure = str(error).partition("; ")
            raise FileMistakesError(str(folder / file), [Mistake(error.line, 1, "", what, cure)]) from None
        parts += [f'  "{file}": |', "    time_ns", *(f"    {instant}" for instant in times)]
    try:
        return with_section(text, root, parts)
    except ValueError:
        node, path = next(iter(wanted.values()))
        cure = (
            "write the file as lines 'key: value' without indentation, or the trace in its section 'traces'"
        )
        raise _mistaken(name, node, path, "the trace cannot be kept at the end of this file", cure) from None


def _mistaken(name: str, node: Node, path: str, what: str, cure: str) -> FileMistakesError:
    return FileMistakesError(name, [Mistake(node.line, node.column, path, what, cure)])


def _named(root: Node) -> Iterator[tuple[str, tuple[Node, str]]]:
    """Files that roles name as their traces, at any level of the factors; each with the node that names it."""
    roles = root.get("roles")
    entries = roles.value if roles is not None and isinstance(roles.value, dict) else {}
    traces = [(f"roles.{role}.trace", entry.get("trace")) for role, entry in entries.items()]
    named = [(path, node) for path, node in traces if node is not None]
    factors = read_factors(root.get("factors"), Mistakes()) if named else {}
    for path, node in named:
        for value in values_of(node, factors):
            if isinstance(value, str) and FILE_NAME.match(value):
                yield value, (node, path)
