"""How a file says where in a program's output a metric is: one reader, its argument, and what the number is of.

`{json: $.requests[*].ms, unit: ms, better: lower}`. A Plan holds the entry as the file writes it. With `time` the
numbers are a series: the output tells the time of each. With `http` or `file` they are polled, which is a series, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from virtlab.lazy import unloaded
from virtlab.metrics.declared import BETTER, base_unit
from virtlab.outputs import polled, times
from virtlab.outputs.times import Stamp, Written
from virtlab.outputs.unreadable import UnreadableError
from virtlab.units import did_you_mean, meant_unit, nearest
from virtlab.units.scales import SCALES

if TYPE_CHECKING:
    from virtlab.outputs import histogram_log, json_path, pattern, prometheus, table
else:
    _FORMATS = ("histogram_log", "json_path", "pattern", "prometheus", "table")
    histogram_log, json_path, pattern, prometheus, table = unloaded(
        *(f"{__package__}.{name}" for name in _FORMATS)
    )

EXAMPLE = "{json: '$.requests[*].ms', unit: ms, better: lower}"
ARGUMENT_MAX = 1000  # characters
BEYOND = 1e300  # no quantity, and sums of squares overflow
LISTED = "docs/reference/workloads.md"  # where units are
COMMON = ("unit", "better", "meaning")


class Samples(NamedTuple):
    """Numbers in a metric's SI unit, how often each was met, and of a series when each was."""

    values: list[float]
    counts: list[int]
    stamps: list[Stamp] | None = None


class Text:
    """A program's output; what several metrics need of it is made once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._document: Any = None
        self._loaded = False

    @property
    def document(self) -> Any:
        """As JSON."""
        if not self._loaded:
            self._document, self._loaded = json_path.load(self.text), True
        return self._document


class Reader(NamedTuple):
    """`check` refuses an argument with ValueError("WHAT; CURE"); `values` are the numbers that the entry is of."""

    meaning: str
    example: str
    check: Callable[[str, Mapping[str, Any]], object]  # of the metric's key and the entry
    values: Callable[
        [str, Mapping[str, Any], Text], list[float] | dict[float, int]
    ]  # or how often each was met
    options: Mapping[str, str] | None = None  # further keys, and what they are
    check_time: Callable[[Mapping[str, Any]], object] | None = None  # as `check`, of the entry's `time`
    times: Callable[[Mapping[str, Any], Text], list[Written]] | None = None  # None: it reads none
    polls: bool = True  # whether what it reads may be polled

    @property
    def further(self) -> Mapping[str, str]:
        """Keys that an entry of it may have, and what they are."""
        timed = times.KEYS if self.times is not None else {}
        return {**(self.options or {}), **timed, **(polled.KEYS if self.polls else {})}


def _delimiter(entry: Mapping[str, Any]) -> str:
    said = str(entry.get("delimiter", ","))
    if len(said) != 1 or said in '\r\n"':
        raise ValueError(f"'{said[:10]}' is not a delimiter; write one character, e.g. ';'")
    return said


def _times_of_lines(entry: Mapping[str, Any], text: Text) -> list[Written]:
    steps = json_path.parse(entry["time"])
    return [
        Written(value, number, where)
        for number, document in json_path.lines(text.text)
        for where, value in json_path.places(document, steps)
    ]


READERS: dict[str, Reader] = {
    "json": Reader(
        "path to numbers in a JSON text", "$.requests[*].ms",
        lambda _, entry: json_path.parse(entry["json"]),
        lambda _, entry, text: list(json_path.values(text.document, json_path.parse(entry["json"]))),
        check_time=lambda entry: json_path.parse(entry["time"]),
        times=lambda entry, text: [
            Written(value, 0, where) for where, value in json_path.places(text.document, json_path.parse(entry["time"]))
        ],
    ),
    "json_lines": Reader(
        "path to numbers in an output of one JSON text per line", "$.ms",
        lambda _, entry: json_path.parse(entry["json_lines"]),
        lambda _, entry, text: json_path.values_of_lines(text.text, json_path.parse(entry["json_lines"])),
        check_time=lambda entry: json_path.parse(entry["time"]),
        times=_times_of_lines,
    ),
    "regex": Reader(
        "regular expression (RE2) whose group of the metric's name is the number, at every match",
        "rate=(?P<rate>[0-9.]+)",
        lambda key, entry: pattern.group_of(entry["regex"], key),
        lambda key, entry, text: pattern.values(text.text, entry["regex"], key),
        check_time=lambda entry: pattern.group_of(entry["regex"], entry["time"]),
        times=lambda entry, text: [
            Written(what, 0, f"match {number} of {entry['time']},")
            for number, what in enumerate(pattern.matched(text.text, entry["regex"], entry["time"]), start=1)
        ],
    ),
    "csv": Reader(
        "column of comma-separated values, as the first row names it", "latency",
        lambda _, entry: _delimiter(entry),
        lambda _, entry, text: table.values(text.text, entry["csv"], _delimiter(entry)),
        {"delimiter": "between cells; absent: a comma"},
        check_time=lambda _: None,
        times=lambda entry, text: [
            Written(what, line, entry["time"])
            for line, what in table.cells(text.text, entry["time"], _delimiter(entry))
        ],
    ),
    "prometheus": Reader(
        "samples in Prometheus' text format, by name and labels", 'requests_total{code="200"}',
        lambda _, entry: prometheus.parse(entry["prometheus"]),
        lambda _, entry, text: prometheus.values(text.text, entry["prometheus"]),
    ),
    "hdr_histogram": Reader(
        "histograms of an HdrHistogram log: those of a tag, of '' without one, or of '*', which is all", "*",
        lambda _, __: None,
        lambda _, entry, text: histogram_log.values(text.text, entry["hdr_histogram"]),
        polls=False,
    ),
}  # fmt: skip
"""Every reader by the key that names it."""


def parse(key: str, entry: Any) -> dict[str, Any]:
    """An entry of `metrics` as a Plan holds it. ValueError("WHAT; CURE") when something of it is wrong.

    >>> parse("rate", {"unit": "1/s", "better": "higher", "csv": "rps"})
    {'csv': 'rps', 'unit': '1/s', 'better': 'higher'}
    """
    for _, text in mistakes(key, entry):
        raise ValueError(text)
    reader = next(name for name in READERS if name in entry)
    return {name: entry[name] for name in _known(reader) if name in entry}


def _known(reader: str) -> list[str]:
    return [reader, *COMMON, *READERS[reader].further]


def mistakes(key: str, entry: Any) -> Iterator[tuple[str | None, str]]:
    """All that is wrong with an entry of `metrics`: at which of its keys, None for the entry, and "WHAT; CURE"."""
    if not isinstance(entry, dict):
        yield None, f"'{key}' is not a mapping; write e.g. '{EXAMPLE}'"
        return
    chosen = [name for name in READERS if name in entry]
    if len(chosen) != 1:
        said = " and ".join(chosen) or "none"
        yield None, f"a metric is read in one way, and this names {said}; write one of {', '.join(READERS)}"
    known = list(dict.fromkeys(name for one in chosen or READERS for name in _known(one)))
    lines = {name for name, value in entry.items() if _is_line(value)}
    for name in entry:
        if name not in known:
            cure = nearest(str(name), known) or f"it has {', '.join(known)}"
            yield name, f"unknown key '{str(name)[:40]}' of a metric; {cure}"
        elif name not in lines:
            yield name, f"'{name}' is not a line of text; write e.g. '{EXAMPLE}'"
    for name in ("unit", "better"):
        if name not in entry:
            yield None, f"a metric without '{name}'; write e.g. '{EXAMPLE}'"
    if "unit" in lines and (text := _no_unit(entry["unit"])):
        yield "unit", text
    if "better" in lines and entry["better"] not in BETTER:
        yield "better", f"'{entry['better'][:40]}' is not a direction; write one of {', '.join(BETTER)}"
    if len(chosen) == 1 and lines.issuperset({chosen[0], *READERS[chosen[0]].further} & entry.keys()):
        yield from _misread(key, entry, chosen[0])


def _misread(key: str, entry: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """What is wrong with what a reader is told, all of which is lines."""
    reader = READERS[name]
    if reader.polls:
        yield from polled.mistakes(entry)
    if reader.times is not None and not polled.is_polled(entry):
        yield from times.mistakes(entry)
    try:
        reader.check(key, entry)
    except ValueError as error:
        yield name, str(error)
        return
    if reader.check_time is not None and "time" in entry:
        try:
            reader.check_time(entry)
        except ValueError as error:
            yield "time", str(error)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= ARGUMENT_MAX


def _no_unit(written: str) -> str:
    """What is wrong with a unit, '' where nothing is."""
    try:
        base_unit(written)
    except ValueError as error:
        units = [unit for scales in SCALES.values() for unit in scales if unit.isascii() and unit]
        near = meant_unit(written, units)
        cure = f"did you mean '{near}'?" if near else did_you_mean(written, units, LISTED)
        return f"{error}; {cure}"
    return ""


def read(key: str, entry: Mapping[str, Any], text: Text) -> Samples:
    """The values of a metric in its SI unit. UnreadableError where the output does not hold them."""
    name = next(name for name in READERS if name in entry)
    _, scale = base_unit(str(entry["unit"]))
    found = READERS[name].values(key, entry, text)
    values = [value * scale for value in found]
    if not values:
        raise UnreadableError("holds no number")
    if not all(-BEYOND < value < BEYOND for value in values):
        raise UnreadableError("holds a number beyond all measure")
    if "time" in entry:
        return Samples(values, [1] * len(values), _stamps(entry, READERS[name], text, len(values)))
    return Samples(values, list(found.values()) if isinstance(found, dict) else [1] * len(values))


def _stamps(entry: Mapping[str, Any], reader: Reader, text: Text, wanted: int) -> list[Stamp]:
    assert reader.times is not None
    written = reader.times(entry, text)
    if len(written) != wanted:
        raise UnreadableError(f"has {wanted} numbers and {len(written)} times of them")
    return times.stamps(written, entry)
