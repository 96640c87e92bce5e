"""Task files: CSV, YAML, JSON, rt-app JSON and SimSo XML.

Every quantity has a unit, except where the format fixes one: rt-app times are microseconds, SimSo times milliseconds. A
mistake is one line that names the file, the task and the cure.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from virtlab.documents import read_text, yaml_values
from virtlab.errors import ExperimentError
from virtlab.realtime.quantities import exact_fraction, parse_time_ns
from virtlab.realtime.tasks import Policy, Task, TaskSet

COLUMNS = ("name", "period", "wcet", "deadline", "jitter", "blocking", "priority", "vcpu")
_TIMES = ("period", "wcet", "deadline", "jitter", "blocking")
LARGEST_BYTES = 16 << 20


def load_tasks(path: Path, policy: Policy = "rm") -> TaskSet:
    """The tasks of a file, by its suffix: .csv, .yaml, .yml, .json (ours or rt-app's), .xml (SimSo).

    ExperimentError names the file and the task.
    """
    text = read_text(path, largest_bytes=LARGEST_BYTES)
    try:
        rows = _rows(path, text)
        return TaskSet([_task(row, number) for number, row in enumerate(rows, 1)], policy, str(path))
    except ExperimentError as error:
        where = (
            error.where
            if error.where.startswith(str(path))
            else ": ".join(filter(None, (str(path), error.where)))
        )
        raise ExperimentError(where, error.what, error.cure) from None


def tasks_of(rows: Sequence[Mapping[str, Any]], where: str, policy: Policy = "rm") -> TaskSet:
    """The tasks of rows with the columns of a task file, as another file may hold them."""
    try:
        return TaskSet([_task(row, number) for number, row in enumerate(rows, 1)], policy, where)
    except ExperimentError as error:
        raise ExperimentError(": ".join(filter(None, (where, error.where))), error.what, error.cure) from None


def _rows(path: Path, text: str) -> list[Mapping[str, Any]]:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return _csv(text)
    if suffix in {".yaml", ".yml"}:
        return _listed(yaml_values(text))
    if suffix == ".json":
        try:
            content = json.loads(text, parse_float=str)
        except (ValueError, RecursionError) as error:
            raise ExperimentError("", f"is not a JSON: {error}", "mend it there") from None
        return (
            _rt_app(content)
            if isinstance(content, dict) and isinstance(content.get("tasks"), dict)
            else _listed(content)
        )
    if suffix == ".xml":
        return _simso(text)
    raise ExperimentError(
        "",
        f"'{suffix}' is not a kind of task file",
        "use .csv, .yaml, .json (ours or rt-app's) or .xml (SimSo)",
    )


def _csv(text: str) -> list[Mapping[str, Any]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    reader = csv.reader(io.StringIO("\n".join(lines)), skipinitialspace=True)
    try:
        header, *rows = list(reader)
    except (ValueError, csv.Error) as error:
        raise ExperimentError(
            "", "has no header and rows", f"begin with name,period,wcet ({error})"
        ) from None
    header = [name.strip() for name in header]
    found: list[Mapping[str, Any]] = []
    for number, row in enumerate(rows, 1):
        if len(row) > len(header):
            name = row[0].strip() or str(number)
            raise ExperimentError(
                f"task {name}", f"{len(row)} values for {len(header)} columns", "write one for each"
            )
        found.append({key: value.strip() for key, value in zip(header, row, strict=False) if value.strip()})
    return found


def _listed(content: Any) -> list[Mapping[str, Any]]:
    rows = content.get("tasks") if isinstance(content, dict) else content
    if isinstance(content, dict):
        unknown = sorted(set(map(str, content)) - {"tasks", "version"})
        if unknown:
            raise ExperimentError(
                "", f"'{unknown[0]}' is not a key of a task file", "it has 'tasks' (and 'version')"
            )
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ExperimentError(
            "", "has no list of tasks", "write 'tasks:' and below it '- {name: a, period: 10 ms, wcet: 1 ms}'"
        )
    return rows


def _task(row: Mapping[str, Any], number: int) -> Task:
    name = str(row.get("name", "") or f"task{number}")
    where = f"task {name}"
    for key in row:
        if key not in COLUMNS:
            raise ExperimentError(where, f"'{key}' is not a column of a task", f"it has {', '.join(COLUMNS)}")
    times: dict[str, Fraction] = {}
    for key in _TIMES:
        value = row.get(key)
        if value is None:
            continue
        if isinstance(value, Fraction):
            times[key] = value
            continue
        try:
            times[key] = parse_time_ns(str(value))
        except ValueError as error:
            raise ExperimentError(where, f"{key}: {error}") from None
    for key in ("period", "wcet"):
        if key not in times:
            raise ExperimentError(where, f"it has no {key}", f"write its {key}, e.g. '10 ms'")
    return Task(
        name,
        times["period"],
        times["wcet"],
        times.get("deadline"),
        times.get("jitter", Fraction(0)),
        times.get("blocking", Fraction(0)),
        _whole(row, "priority", where),
        _whole(row, "vcpu", where),
    )


def _whole(row: Mapping[str, Any], key: str, where: str) -> int | None:
    value = row.get(key)
    if value is None:
        return None
    try:
        if isinstance(value, (bool, float)):
            raise ValueError
        return int(str(value))
    except ValueError:
        raise ExperimentError(where, f"{key} '{value}' is not a whole number", "write e.g. 1") from None


def _rt_app(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """rt-app: each task runs `run` us (or several phases' sum) per `timer` period us; instances are copies."""
    rows: list[Mapping[str, Any]] = []
    for name, body in content["tasks"].items():
        where = f"task {name}"
        if not isinstance(body, dict):
            raise ExperimentError(where, "is not an rt-app task", "write a mapping with 'run' and 'timer'")
        run, period = _rt_app_events(body, where)
        phases = body.get("phases")
        if isinstance(phases, dict):
            for phase in phases.values():
                more, other = _rt_app_events(phase, where) if isinstance(phase, dict) else (Fraction(0), None)
                run += more
                period = period or other
        if period is None:
            raise ExperimentError(
                where, "it has no 'timer' with a period", "only periodic rt-app tasks can be analysed"
            )
        row: dict[str, Any] = {"name": name, "period": period, "wcet": run}
        if "dl-deadline" in body:
            row["deadline"] = _microseconds(body["dl-deadline"], where)
        if isinstance(body.get("priority"), int) and str(body.get("policy", "")).upper() in {
            "SCHED_FIFO",
            "SCHED_RR",
        }:
            row["priority"] = 100 - body["priority"]  # SCHED_FIFO counts upwards, we count from the highest
        instances = body.get("instance", 1)
        if not isinstance(instances, int) or not 0 < instances <= 10_000:
            raise ExperimentError(
                where, f"'instance' {instances} is not a number of copies", "write 1 to 10000"
            )
        for copy in range(instances):
            rows.append(row if instances == 1 else {**row, "name": f"{name}-{copy}"})
    return rows


def _rt_app_events(body: Mapping[str, Any], where: str) -> tuple[Fraction, Fraction | None]:
    run, period = Fraction(0), None
    for key, value in body.items():
        if key == "run" or key.startswith("run"):
            if key.startswith("runtime") or not isinstance(value, (dict, list)):
                run += _microseconds(value, where)
        elif key.startswith("timer") and isinstance(value, dict) and "period" in value:
            period = _microseconds(value["period"], where)
    return run, period


def _microseconds(value: Any, where: str) -> Fraction:
    try:
        return exact_fraction(str(value), str(value)) * 1000
    except ValueError:
        raise ExperimentError(
            where, f"'{value}' is not a number of microseconds", "write e.g. 1000"
        ) from None


def _simso(text: str) -> list[Mapping[str, Any]]:
    """SimSo: `<task name period WCET deadline activationDate .../>`, times in ms; aperiodic tasks are refused."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ExperimentError("", "declares entities", "SimSo files have none; remove the declaration")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - entities are refused above
    except ElementTree.ParseError as error:
        raise ExperimentError("", f"is not an XML: {error}", "mend it there") from None
    rows: list[Mapping[str, Any]] = []
    for number, element in enumerate(root.iter("task"), 1):
        name = element.get("name") or f"task{number}"
        where = f"task {name}"
        if element.get("task_type", "Periodic") not in {"Periodic", "Sporadic"}:
            raise ExperimentError(
                where, f"a {element.get('task_type')} task has no period to analyse", "remove it"
            )
        row: dict[str, Any] = {"name": name}
        for ours, theirs in (("period", "period"), ("wcet", "WCET"), ("deadline", "deadline")):
            value = element.get(theirs)
            if value is None:
                continue
            try:
                row[ours] = exact_fraction(value, value) * 1_000_000
            except ValueError:
                raise ExperimentError(
                    where, f"{theirs} '{value}' is not a number of milliseconds", "write e.g. 10"
                ) from None
        rows.append(row)
    return rows
