"""What a run's search found, as values of the role that was searched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from virtlab.analysis import benchmarks

if TYPE_CHECKING:
    from virtlab.analysis.values import Collector
    from virtlab.results.record import RunRecord

FILE_NAME = "trials.jsonl"
LIMITS = {
    "_bit_per_s": "limit_rate",
    "_pps": "limit_packet_rate",
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
    path = record.folder / "artefacts" / FILE_NAME
    if not path.is_file():
        return None
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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


def _add(out: Collector, metric: str, one: dict[str, Any], scale: float, trials: int) -> None:
    for statistic, key in (("found", "value"), ("lower", "lower"), ("upper", "upper")):
        value = one[key]
        why = "the highest value met the goal" if statistic == "upper" else NOT_REACHED
        out.add(metric, statistic, None if value is None else value * scale, trials, why)
