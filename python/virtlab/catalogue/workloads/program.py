"""`program`: a program of the user's own runs in a guest, and its metrics come from what it prints.

The words of `argv` may refer to addresses and ports (`catalogue.references`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from virtlab.catalogue.declaration import Parameter, Values, Workload
from virtlab.catalogue.kinds import (
    ARGV,
    FILES,
    POSITIVE_DURATION,
    USER,
    Kind,
    PlacedError,
    SeveralError,
    shown,
)
from virtlab.metrics import METRICS
from virtlab.metrics.declared import NAME
from virtlab.outputs import EXAMPLE, READERS, mistakes, parse

METRICS_MAX = 64
VALUES_GUESS = 1000  # of a metric, for an estimate


def _metrics(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"'{shown(value)}' declares no metric; write e.g. 'answer_time: {EXAMPLE}'")
    if len(value) > METRICS_MAX:
        raise ValueError(f"{len(value)} metrics are more than a role has; write at most {METRICS_MAX}")
    wrong = [found for key, entry in value.items() for found in _mistakes(key, entry)]
    if wrong:
        raise SeveralError(wrong)
    return {str(key): parse(key, entry) for key, entry in value.items()}


def _mistakes(key: Any, entry: Any) -> Iterator[PlacedError]:
    if not NAME.match(str(key)):
        cure = "begin with a small letter; use small letters, digits and _, at most 40"
        yield PlacedError((key,), f"'{shown(key)}' is not a valid name of a metric; {cure}")
        return
    if key in METRICS:
        what = f"'{key}' is a metric of virtlab's own: {METRICS[key].title()}"
        yield PlacedError((key,), f"{what}; give the program's another name, e.g. 'client_{key}'")
    for name, text in mistakes(key, entry):
        yield PlacedError((key,) if name is None else (key, name), text)


_TEXT = {"type": "string"}
OUTPUT = Kind(
    "list of metrics by name",
    _metrics,
    {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "type": "object",
            "properties": {
                "unit": {
                    **_TEXT,
                    "description": "of the numbers that the program prints, e.g. ms, request/s, %",
                },
                "better": {
                    "enum": ["lower", "higher", "neither"],
                    "description": "which direction is better",
                },
                "meaning": {**_TEXT, "description": "what it is, for the report"},
                **{name: {**_TEXT, "description": reader.meaning} for name, reader in READERS.items()},
                **{
                    name: {**_TEXT, "description": meaning}
                    for reader in READERS.values()
                    for name, meaning in reader.further.items()
                },
            },
            "required": ["unit", "better"],
            "additionalProperties": False,
        },
    },
    f"{{answer_time: {EXAMPLE}}}",
)


def _rows(values: Values, _: int) -> Mapping[str, int]:
    return {"value/1": VALUES_GUESS * max(1, len(values.get("metrics") or ()))}


PROGRAM = Workload(
    name="program",
    meaning="a program of your own in a guest, its metrics read from its output",
    part="measure",
    parameters=(
        Parameter(
            "argv", ARGV, "argv", "program and arguments, with addresses as {to}, {h2.g1}, {web.address}", required=True,
            in_image=True,
        ),
        Parameter("metrics", OUTPUT, "metrics", "what its output holds, by name; absent: its time alone"),
        Parameter("user", USER, "user", "the user of its guest that it runs as; absent: the guest's own"),
        Parameter("files", FILES, "files", "files in its working folder, by name: texts, or from beside this file"),
        Parameter("timeout", POSITIVE_DURATION, "timeout_ns", "one that runs longer is ended, and the run fails", "1 min"),
    ),
    streams={"value/1": "from"},
    metrics=frozenset({"program_time"}),
    transport=lambda _: None,
    duration_ns=lambda values: int(values["timeout_ns"]),
    rows=_rows,
    command=True,
    arms={
        "testbed": None,
        "simulator": "what a program costs is known to its own code alone; run the file on the testbed",
    },
)  # fmt: skip
