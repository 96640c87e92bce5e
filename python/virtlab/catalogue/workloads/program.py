"""`program`: a program of the user's own runs in a guest, and its metrics come from what it prints.

The words of `argv` may refer to addresses and ports (`catalogue.references`). Where it does not run, it is what
`simulated_as` says: a client of a service, or work on the processors of its guest; and of its metrics those are known
that are said to be one of virtlab's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from virtlab.catalogue.costs import SIMULATED_AS, cost_kind
from virtlab.catalogue.declaration import Parameter, Values, Workload
from virtlab.catalogue.kinds import (
    ARGV,
    COUNT,
    FILES,
    POSITIVE_DURATION,
    USER,
    Kind,
    PlacedError,
    SeveralError,
    choice,
    shown,
)
from virtlab.catalogue.workloads.request_response import REQUEST_RESPONSE, TCP, UDP, works
from virtlab.metrics import METRICS, STATISTICS, MetricPath, unit_of
from virtlab.metrics.declared import NAME, base_unit
from virtlab.outputs import EXAMPLE, READERS, mistakes, parse
from virtlab.units import nearest

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


SERVICE, MOST, METERED = "service", "count", "metrics"  # of a program's cost
PROGRAM_TIME = "program_time"
# What is known of the client that stands for a program, and what of any program.
KNOWN = ("response_time", "client_wait", "request_rate", "answer_rate", "lost_requests", "request_errors")
_OF_CLIENT = (
    "rate", "connections", "think", "think_distribution", "request", "timeout", "duration",
)  # fmt: skip
_OF_WORK = (
    "demand", "serial_demand", "subtasks", "threads", "demand_distribution", "demand_variation", "demand_samples",
)  # fmt: skip
_ASKS_EXAMPLE = "{service: web, connections: 8, duration: 5 s}"
_WORKS_EXAMPLE = "{demand: 2 s}"
_METERED_EXAMPLE = "{latency: response_time.p99}"


def known_as(text: str) -> tuple[str, str | None, str]:
    """Metric, statistic and unit of what stands for a number of a program: without a statistic, all samples or the only
    one.

    ValueError("WHAT; CURE") for anything else.

    >>> known_as("response_time.p99"), known_as("response_time"), known_as("answer_rate")
    (('response_time', 'p99', 'ns'), ('response_time', None, 'ns'), ('answer_rate', 'mean', '1/s'))
    """
    key, _, statistic = text.partition(".")
    if key not in (*KNOWN, PROGRAM_TIME):
        cure = nearest(key, (*KNOWN, PROGRAM_TIME)) or f"write one of {', '.join((*KNOWN, PROGRAM_TIME))}"
        raise ValueError(f"'{shown(key)}' is not known of a program in the simulator; {cure}")
    metric = METRICS[key]
    if not statistic and "median" in metric.statistics:
        return key, None, metric.unit
    if not statistic and len(metric.statistics) > 1:
        raise ValueError(
            f"'{key}' is several numbers; write {' or '.join(f'{key}.{one}' for one in metric.statistics)}"
        )
    path = MetricPath.parse(f"program.{key}.{statistic or metric.statistics[0]}")
    return key, path.statistic, unit_of(metric, STATISTICS[path.statistic])


def _metered(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"'{shown(value)}' names no metric; write e.g. '{_METERED_EXAMPLE}'")
    wrong = []
    for key, text in value.items():
        try:
            known_as(str(text))
        except ValueError as error:
            wrong.append(PlacedError((key,), str(error)))
    if wrong:
        raise SeveralError(wrong)
    return {str(key): str(text) for key, text in value.items()}


_ENTRIES = {entry.name: entry for entry in REQUEST_RESPONSE.parameters}


def _cost(values: Values) -> list[tuple[str, str]]:
    """What of a cost does not fit together."""
    client = [entry.name for name in _OF_CLIENT if (entry := _ENTRIES[name]).plan in values]
    client += [name for name in ("arrivals", "protocol", MOST) if name in values]
    work = [entry.name for name in _OF_WORK if (entry := _ENTRIES[name]).plan in values]
    if SERVICE not in values:
        if client:
            return [
                (client[0], f"it is of a client, and no service is asked; write '{SERVICE}', or remove it")
            ]
        if not works(values):
            what = "it says neither which service the program asks nor what it works"
            return [("", f"{what}; write e.g. '{_ASKS_EXAMPLE}' or '{_WORKS_EXAMPLE}'")]
        asking = [text for text in values.get(METERED, {}).values() if known_as(text)[0] != PROGRAM_TIME]
        if asking:
            what = f"a program that asks no service has no {known_as(asking[0])[0]}"
            return [(METERED, f"{what}; write '{PROGRAM_TIME}', or '{SERVICE}'")]
    elif work:
        return [(work[0], "the program asks a service, which works for it; remove it, or 'service'")]
    elif "duration_ns" not in values and MOST not in values:
        return [("", f"it never ends; write '{MOST}' of its requests, or 'duration'")]
    return REQUEST_RESPONSE.check(REQUEST_RESPONSE.complete(values))


COST = cost_kind(
    "cost of a program",
    [
        Parameter(SERVICE, Kind("service", str, _TEXT, "web"), SERVICE, "that it asks in the guest 'to'"),
        *(_ENTRIES[name] for name in _OF_CLIENT),
        Parameter(
            "arrivals", choice("constant", "poisson"), "arrivals", "of a rate: constant, or poisson; absent: constant"
        ),
        Parameter("protocol", choice(TCP, UDP), "protocol", "over which it asks; absent: tcp"),
        Parameter(MOST, COUNT, MOST, "requests after which it ends"),
        *(_ENTRIES[name] for name in _OF_WORK),
        Parameter(
            METERED,
            Kind(
                "mapping of metrics", _metered,
                {"type": "object", "minProperties": 1, "additionalProperties": _TEXT}, _METERED_EXAMPLE,
            ),
            METERED, "what each of its metrics is there, e.g. response_time.p99; any other is missing",
        ),
    ],
    _ASKS_EXAMPLE,
    _cost,
)  # fmt: skip


def _check(values: Values) -> list[tuple[str, str]]:
    """What the cost says of metrics that the role does not have, or that are something else."""
    found = []
    declared = values.get("metrics") or {}
    for key, text in (values.get(SIMULATED_AS) or {}).get(METERED, {}).items():
        if key not in declared:
            cure = nearest(key, declared) or f"it has {', '.join(declared) or 'none'}"
            found.append((SIMULATED_AS, f"'{shown(key)}' is not a metric of this role; {cure}"))
            continue
        unit, _ = base_unit(str(declared[key]["unit"]))
        if unit != known_as(text)[2]:
            what = f"'{key}' is in {declared[key]['unit']}, and {text} in {known_as(text)[2]}"
            found.append((SIMULATED_AS, f"{what}; write one of the same unit"))
    return found


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
        Parameter(
            SIMULATED_AS, COST, SIMULATED_AS,
            "in the simulator: the client of a service that it is there, or what it works; and what its metrics are",
        ),
        Parameter("timeout", POSITIVE_DURATION, "timeout_ns", "one that runs longer is ended, and the run fails", "1 min"),
    ),
    streams={"value/1": "from"},
    metrics=frozenset({PROGRAM_TIME}),
    transport=lambda _: None,
    duration_ns=lambda values: int(values["timeout_ns"]),
    rows=_rows,
    check=_check,
    command=True,
    stands_in={"simulator": SIMULATED_AS},
    arms={
        "testbed": None,
        "simulator": "a simulated guest runs no programs; say what it is, e.g. 'simulated_as: "
        f"{_ASKS_EXAMPLE}' or 'simulated_as: {_WORKS_EXAMPLE}', or run the file on the testbed",
    },
)  # fmt: skip
