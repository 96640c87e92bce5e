"""`rt_tasks`: hard-deadline tasks inside a guest that gets a CPU budget each period; it sends no traffic.

The guest is one virtual CPU: a thread under SCHED_DEADLINE (or in a control group with a quota), with a preemptive
fixed-priority executive inside. All tasks are released together, once per episode of two of the longest task period, at
`phases` points of the guest's period. `virtlab.realtime` computes the bound of every task exactly from the same
parameters; a supply that broke taints the run, so a response time beyond its bound refutes the analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from virtlab.catalogue.declaration import SHARED, Parameter, Values, Workload
from virtlab.catalogue.kinds import (
    COUNT,
    DURATION,
    DURATION_MAX_NS,
    NAME_TEXT,
    POSITIVE_DURATION,
    Kind,
    PlacedError,
    choice,
    shown,
)
from virtlab.units import Duration, nearest

TASKS_MAX = 64
COMPETITORS_MAX = 64
DURATION_MAX_RUN_NS = 120 * 10**9
DEADLINE_PERIOD_MIN_NS, DEADLINE_PERIOD_MAX_NS = 100_000, 4_190_000_000
QUOTA_PERIOD_MIN_NS, QUOTA_PERIOD_MAX_NS = 1_000_000, 1_000_000_000


def _rows_of(
    noun: str, example: str, most: int, keys: Mapping[str, bool], check: Callable[[dict[str, Any]], str]
) -> Callable[[Any], list[dict[str, Any]]]:
    """A parser of a list of mappings whose keys are times (True: required), but for `name`."""

    def parse(value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            raise ValueError(f"'{shown(value)}' is not a list of {noun}s; write e.g. '[{example}]'")
        if len(value) > most:
            raise ValueError(f"{len(value)} {noun}s are more than one guest plays; write at most {most}")
        rows: list[dict[str, Any]] = []
        for place, entry in enumerate(value):
            row = _row(noun, example, keys, place, entry)
            if any(other.get("name") == row["name"] for other in rows if "name" in row):
                raise PlacedError(
                    (place, "name"), f"there are two {noun}s '{row['name']}'; give each its own name"
                )
            if text := check(row):
                raise PlacedError((place,), text)
            rows.append(row)
        return rows

    return parse


def _row(noun: str, example: str, keys: Mapping[str, bool], place: int, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise PlacedError((place,), f"'{shown(entry)}' is not a {noun}; write '{example}'")
    for key in entry:
        if key not in keys:
            cure = nearest(key, keys) or f"it has {', '.join(keys)}"
            raise PlacedError((place, key), f"'{shown(key)}' is not a key of a {noun}; {cure}")
    row: dict[str, Any] = {}
    for key, required in keys.items():
        if key not in entry:
            if required:
                raise PlacedError((place,), f"'{key}' of the {noun} is missing; write '{example}'")
            continue
        kind = NAME_TEXT if key == "name" else POSITIVE_DURATION
        try:
            row[key if key == "name" else f"{key}_ns"] = kind.parse(entry[key])
        except ValueError as error:
            raise PlacedError((place, key), str(error)) from None
    return row


def _check_task(row: dict[str, Any]) -> str:
    row.setdefault("deadline_ns", row["period_ns"])
    name = f"task {row['name']}"
    if row["deadline_ns"] > row["period_ns"]:
        return f"{name}: its deadline exceeds its period; write at most '{Duration(row['period_ns'])}'"
    if row["wcet_ns"] > row["deadline_ns"]:
        return (
            f"{name}: its execution time {Duration(row['wcet_ns'])} exceeds its deadline"
            f" {Duration(row['deadline_ns'])}; shorten it, or release it less often"
        )
    return ""


def _check_competitor(row: dict[str, Any]) -> str:
    if row["budget_ns"] > row["period_ns"]:
        return f"its budget exceeds its period; write at most '{Duration(row['period_ns'])}'"
    return ""


_TIME = {"anyOf": [POSITIVE_DURATION.schema, {"type": "string", "pattern": r"\$\{"}]}
_TASK = "{name: a, period: 16 ms, wcet: 2 ms}"
_COMPETITOR = "{period: 8 ms, budget: 1 ms}"


def _list_schema(required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    properties = {key: {"type": "string"} if key == "name" else dict(_TIME) for key in (*required, *optional)}
    item = {
        "type": "object", "properties": properties, "required": list(required), "additionalProperties": False,
    }  # fmt: skip
    return {"type": "array", "items": item}


TASKS = Kind(
    "list of tasks",
    _rows_of(
        "task", _TASK, TASKS_MAX, {"name": True, "period": True, "wcet": True, "deadline": False}, _check_task
    ),
    {**_list_schema(("name", "period", "wcet"), ("deadline",)), "minItems": 1},
    f"[{_TASK}]",
)
COMPETITORS = Kind(
    "list of reservations",
    _rows_of("competitor", _COMPETITOR, COMPETITORS_MAX, {"period": True, "budget": True}, _check_competitor),
    _list_schema(("period", "budget"), ()),
    f"[{_COMPETITOR}]",
)


def episode_ns(values: Values) -> int:
    """Length of an episode with the waits around it: two of the longest task period, three of the guest's."""
    return 2 * max(int(task["period_ns"]) for task in values["tasks"]) + 3 * int(values["period_ns"])


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    jobs = sum(traffic_ns // int(task["period_ns"]) + 1 for task in values["tasks"])
    return {"rt_job/1": jobs, "rt_supply/1": traffic_ns // int(values["period_ns"]) + 1}


def _check(values: Values) -> list[tuple[str, str]]:
    period_ns, budget_ns, overhead_ns = (int(values[f"{key}_ns"]) for key in ("period", "budget", "overhead"))
    if not values["tasks"]:
        return [("tasks", f"there is no task; write e.g. '[{_TASK}]'")]
    low, high = (
        (DEADLINE_PERIOD_MIN_NS, DEADLINE_PERIOD_MAX_NS)
        if values["server"] == "deadline"
        else (QUOTA_PERIOD_MIN_NS, QUOTA_PERIOD_MAX_NS)
    )
    if not low <= period_ns <= high:
        cure = f"write between '{Duration(low)}' and '{Duration(high)}'"
        return [("period", f"the kernel takes no such period by {values['server']}; {cure}")]
    if budget_ns > period_ns:
        what = f"{Duration(budget_ns)} each {Duration(period_ns)} is more than one CPU"
        return [("budget", f"{what}; write at most '{Duration(period_ns)}'")]
    if overhead_ns >= budget_ns:
        return [
            (
                "overhead",
                f"it leaves nothing of a budget of {Duration(budget_ns)}; write less, or a larger budget",
            )
        ]
    if values["server"] == "quota" and budget_ns < QUOTA_PERIOD_MIN_NS:
        return [("budget", "a control group takes quotas of at least 1 ms; write at least '1 ms'")]
    if values["server"] == "quota" and values["competitors"]:
        return [
            ("competitors", "they are reservations under SCHED_DEADLINE; remove them, or 'server: deadline'")
        ]
    least_ns = int(values["phases"]) * episode_ns(values)
    if not least_ns <= int(values["duration_ns"]) <= DURATION_MAX_RUN_NS:
        if least_ns > DURATION_MAX_RUN_NS:
            cure = "shorten the longest period, or ask for fewer phases"
            return [("phases", f"{values['phases']} phases take longer than 2 min; {cure}")]
        what = f"{values['phases']} phases take {Duration(least_ns)}, at most 2 min can be played"
        return [("duration", f"{what}; write between '{Duration(least_ns)}' and '120 s'")]
    assert least_ns < DURATION_MAX_NS
    return []


def _quota_us(values: Values) -> tuple[int, int] | None:
    if values.get("server") != "quota":
        return None
    return values["budget_ns"] // 1000, values["period_ns"] // 1000


RT_TASKS = Workload(
    name="rt_tasks",
    meaning="hard-deadline tasks under a CPU budget each period, against their exact bounds",
    part="measure",
    parameters=(
        Parameter(
            "tasks", TASKS, "tasks", "name, period, wcet and where it is shorter the deadline of each task", required=True
        ),
        Parameter("period", POSITIVE_DURATION, "period_ns", "of the guest's budget", "10 ms"),
        Parameter("budget", POSITIVE_DURATION, "budget_ns", "CPU time of the guest each period", required=True),
        Parameter(
            "overhead", DURATION, "overhead_ns", "of the budget, lost at each start (`virtlab rt overhead`)", SHARED
        ),
        Parameter("policy", choice("rm", "dm", "given"), "policy", "priorities inside the guest", "rm"),
        Parameter("server", choice("deadline", "quota"), "server", "what gives the budget", "deadline"),
        Parameter("competitors", COMPETITORS, "competitors", "other reservations that use theirs up", SHARED),
        Parameter("phases", COUNT, "phases", "points of the guest's period at which all tasks are released", 8),
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "how long it lasts", "2 s"),
    ),
    streams={"rt_job/1": "from", "rt_supply/1": "from"},
    metrics=frozenset({
        "response_time", "response_bound", "bound_slack", "beyond_bound", "deadline_misses",
        "deadline_slack", "supply", "start_loss", "supply_shortfall",
    }),
    transport=lambda _: None,
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    check=_check,
    alone=True,
    budgeted=True,
    parts=True,
    quota_us=_quota_us,
)  # fmt: skip
