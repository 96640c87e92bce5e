"""What a run's search found, as values of the role that was searched."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from virtlab.analysis.searches import benchmarks
from virtlab.analysis.values import Collector
from virtlab.catalogue.flows import flow_names
from virtlab.errors import DatasetError
from virtlab.folders import read_bounded
from virtlab.metrics import METRICS
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.results.parquet import CURE
from virtlab.results.record import RunRecord
from virtlab.results.typed import MAX_BYTES, Count, first_mistake

FILE_NAME = "trials.jsonl"
Positive = Annotated[float, Field(gt=0)]
LIMITS = {
    "_bit_per_s": "limit_rate",
    "_pps": "limit_packet_rate",
    "_per_s": "limit_request_rate",
    "_bytes": "limit_size",
    "_ns": "limit_time",
}
NOT_REACHED = "no value that was tried met the goal"


def limit_of(parameter: str) -> str:
    """The metric that says what was found of an input with `until`: its unit is the end of the input's name.

    >>> limit_of("burst_bytes"), limit_of("interval_ns"), limit_of("streams")
    ('limit_size', 'limit_time', 'limit_count')
    """
    return next((metric for end, metric in LIMITS.items() if parameter.endswith(end)), "limit_count")


def trials_of(record: RunRecord) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]] | None:
    """(header, trials, what was found per goal) of a run; None when it made no search."""
    lines = _lines(record)
    return None if lines is None else (lines[0], lines[1:-1], lines[-1]["found"])


def tests_of(record: RunRecord) -> tuple[dict[str, Any], ...]:
    """What the tests after a run's search measured; none when it made none."""
    lines = _lines(record)
    return () if lines is None else tuple(lines[-1].get("tests", ()))


def _lines(record: RunRecord) -> list[dict[str, Any]] | None:
    """Header, trials and what was found. DatasetError if the file is not of this run's search."""
    path = record.folder / "artefacts" / FILE_NAME
    if not path.is_file():
        return None
    try:
        lines = [json.loads(line) for line in read_bounded(path, MAX_BYTES).splitlines()]
        header = _Header.model_validate(lines[0] if lines else None)
        ended = _End.model_validate(lines[-1])
        for line in lines[1:-1]:
            _Line.model_validate(line)
    except (OSError, ValueError, RecursionError) as error:
        what = first_mistake(error) if isinstance(error, ValidationError) else "a line that no search writes"
        raise DatasetError(str(path), f"is damaged ({what})", CURE) from error
    role = record.plan.roles.get(header.role)
    flows = len(flow_names(role.parameters)) if role is not None else 0
    known = header.until is not None or all(one.goal in METRICS for one in ended.found)
    tested = all(one.sound(flows) for one in ended.tests)
    if role is None or header.plan != record.plan_identity or not known or not tested:
        raise DatasetError(str(path), "is of another run, role or metric than its run.json", CURE)
    return lines


class _Part(BaseModel):
    """A line, as far as anything reads it."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class _Goal(_Part):
    loss: float


class _Header(_Part):
    plan: str
    role: str
    parameter: str
    variable: str
    until: str | None
    goals: Annotated[list[_Goal], Field(min_length=1)]


class _Line(_Part):
    purpose: str
    load: float
    value: Count
    trial_s: Positive
    loss_ratio: float
    sent: Count | None
    received: Count | None
    unsent: Count | None
    repeated: bool
    disturbed: str
    measured: float | None
    low: float | None
    high: float | None
    part: str = ""
    note: str = ""


class _Criterion(_Part):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    loss_ratio: float
    exceed_ratio: Annotated[float, Field(ge=0, le=1)]
    initial_trial_s: Positive
    final_trial_s: Positive
    duration_sum_s: Positive
    width: Positive


class _Found(_Part):
    goal: str
    text: str = ""
    lower: float | None
    upper: float | None
    value: float | None
    criterion: _Criterion | None = None


class _Tested(_Part):
    part: str
    metric: str
    statistic: str
    value: float | None
    samples: Count
    reason: str = ""
    flow: Count | None = None

    def sound(self, flows: int) -> bool:
        """Whether it is a statistic of a metric, of a flow that there is."""
        metric = BENCHMARKS.get(self.metric)
        return metric is not None and self.statistic in metric.statistics and (self.flow or 0) < max(flows, 1)


class _End(_Part):
    found: Annotated[list[_Found], Field(min_length=1)]
    tests: list[_Tested] = []


def values(record: RunRecord, out: Collector) -> None:
    """Adds what the search found, per goal."""
    lines = _lines(record)
    if lines is None:
        return
    header, trials, found = lines[0], lines[1:-1], lines[-1]["found"]
    out.role = header["role"]
    role = record.plan.roles[out.role]
    parameter = header["parameter"]
    frame_bytes = role.parameters.get("frame_bytes")
    bits = 1.0 if parameter == "rate_bit_per_s" else 8.0 * float(frame_bytes or 0)
    for one in found:
        if header["until"] is not None:
            _add(out, limit_of(parameter), one, 1.0, len(trials))
            continue
        _add(out, one["goal"], one, bits, len(trials))
        if parameter == "rate_pps":
            _add(out, f"{one['goal']}_rate", one, 1.0, len(trials))
    out.add("search_trials", "count", len(trials), 1)
    out.add("search_traffic", "total", sum(each["trial_s"] for each in trials) * 1e9, len(trials))
    benchmarks.values(header["role"], role.parameters, lines[-1].get("tests", ()), bits, out)


def _add(out: Collector, metric: str, search: dict[str, Any], scale: float, trials: int) -> None:
    for statistic, key in (("found", "value"), ("lower", "lower"), ("upper", "upper")):
        value = search[key]
        why = "the highest value met the goal" if statistic == "upper" else NOT_REACHED
        out.add(metric, statistic, None if value is None else value * scale, trials, why)
