"""What a prediction is held against: `rtt.p99 < 5 ms`, kept or broken by the mean over independent runs.

Without a role a limit holds for every measuring role that has the metric. Whether a limit is kept is a one-sided test
of the runs' mean (Student's t); a share that no run differs in is tested by what was counted over all of them (Clopper
and Pearson), since no packet lost in 400 does not show a loss below 0.1 %. A run without a value breaks the limit:
nothing came back.

Where the profile's parameters have intervals, worlds with drawn parameters are played too, each with the seed of one of
the runs; how far they move widens the mean (`uncertainty`), so a limit is shown to be kept, or broken, for what the
parameters may be and not only for their values. A drawn world without a value leaves both open.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtlab.analysis.judging.cells import SHARES
from virtlab.analysis.values import RunValue
from virtlab.catalogue import WORKLOADS
from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment
from virtlab.lazy import np
from virtlab.metrics import METRICS, MetricPath
from virtlab.prediction.simulation.uncertainty import combined
from virtlab.stats import Estimate, contrast, mean_interval, proportion_interval
from virtlab.stats.proportions import p_share_above, p_share_below
from virtlab.units import parse_quantity, show_quantity

_LIMIT = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(<=|>=|<|>)\s*(.+?)\s*\Z")
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Limit:
    """`path operator value`, the value in the metric's unit; true means that it is kept."""

    path: MetricPath
    operator: str
    value: float

    def __str__(self) -> str:
        return f"{self.path} {self.operator} {show_quantity(self.value, self.path.unit)}"

    @property
    def below(self) -> bool:
        """Whether smaller values keep it."""
        return self.operator in {"<", "<="}


@dataclass(frozen=True, slots=True)
class Judged:
    """p values of one level for one limit: small `p_broken` shows that the limit is kept, small `p_kept` that it is
    broken.

    `missing` is the reason of a run without a value.
    """

    p_broken: float
    p_kept: float
    estimate: Estimate | None
    missing: str = ""


def refuse_search(experiment: Experiment) -> None:
    """ExperimentError where the file searches: a prediction would play its role at the highest value unasked."""
    if experiment.study(experiment.points()[0]).search is not None:
        what = "a prediction plays each setting once, at the highest value, and searches nothing"
        cure = "virtlab run FILE --backend simulator --profile PROFILE searches"
        raise ExperimentError("search", what, cure)


def measuring_paths(text: str, roles: Mapping[str, str], where: str) -> list[MetricPath]:
    """`ROLE.METRIC.STATISTIC`; without a role, of every measuring role that has the metric (of loads where none has).

    Without a statistic, the metric's ratio where it has one, else its mean. `roles` are role -> workload.
    ExperimentError says what is wrong.
    """
    parts = text.split(".")
    metric = parts[0] if parts[0] in METRICS and parts[0] not in roles else parts[1] if len(parts) > 1 else ""
    if metric in METRICS and text.rpartition(".")[2] == metric:
        statistics = METRICS[metric].statistics
        text += f".{'ratio' if 'ratio' in statistics else 'mean' if 'mean' in statistics else statistics[0]}"
    texts = [text]
    if parts[0] in METRICS and parts[0] not in roles:
        able = [name for name, workload in roles.items() if metric in WORKLOADS[workload].metrics]
        first = [name for name in able if WORKLOADS[roles[name]].part == "measure"] or able
        if not first:
            raise ExperimentError(where, f"no role has '{metric}'", "name another metric")
        texts = [f"{name}.{text}" for name in first]
    found = []
    for one in texts:
        try:
            path = MetricPath.parse(one)
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise ExperimentError(where, what, cure) from None
        if METRICS[path.metric].of == "role" and path.role not in roles:
            raise ExperimentError(where, f"there is no role '{path.role}'", f"there are {', '.join(roles)}")
        found.append(path)
    return found


def measuring_path(text: str, roles: Mapping[str, str], where: str) -> MetricPath:
    """One path; ExperimentError where several roles have the metric and none is named."""
    found = measuring_paths(text, roles, where)
    if len(found) > 1:
        names = ", ".join(path.role for path in found)
        raise ExperimentError(where, f"roles {names} have '{found[0].metric}'", f"write {found[0]}")
    return found[0]


def parse_limits(texts: Sequence[str], roles: Mapping[str, str], where: str) -> list[Limit]:
    """Limits as a person writes them; one without a role holds for every measuring role that has the metric.

    ExperimentError says what is wrong and what to write.
    """
    found = []
    for text in texts:
        match = _LIMIT.match(text)
        if match is None:
            raise ExperimentError(where, f"'{text}' is not a limit", "write e.g. 'rtt.p99 < 5 ms'")
        for path in measuring_paths(match[1], roles, where):
            try:
                found.append(Limit(path, match[2], parse_quantity(match[3], path.unit)))
            except ValueError as error:
                what, _, cure = str(error).partition("; ")
                raise ExperimentError(where, what, cure) from None
    return list(dict.fromkeys(found))


def judge_runs(
    limit: Limit,
    runs: Sequence[Sequence[RunValue]],
    level: float,
    drawn: Sequence[Sequence[RunValue]] = (),
    paired: int = 1,
) -> Judged:
    """One limit by all values of several runs, and of worlds with `drawn` parameters: draw k has the seed of run k mod
    `paired`. A role that makes no traffic at this level breaks nothing.

    ExperimentError when a run has no such metric although its role made traffic.
    """
    if not any(row.role == limit.path.role for rows in runs for row in rows):
        return Judged(0.0, 1.0, None, f"{limit.path.role} makes no traffic")
    rows = [row_of(each, limit.path) for each in runs]
    return judge_limit(limit, rows, level, shifts_of(rows, drawn, paired, limit.path))


def shifts_of(
    rows: Sequence[RunValue], drawn: Sequence[Sequence[RunValue]], paired: int, path: MetricPath
) -> list[float]:
    """How far each drawn world's value is from that of the run with its seed; no number where one of them has none."""
    found = []
    for at, each in enumerate(drawn):
        value, nominal = row_of(each, path).value, rows[at % paired].value
        found.append(float("nan") if value is None or nominal is None else value - nominal)
    return found


def row_of(rows: Sequence[RunValue], wanted: MetricPath) -> RunValue:
    """The row of a path. ExperimentError when the run has no such metric at all."""
    for row in rows:
        if (row.role, row.metric, row.statistic) == (wanted.role, wanted.metric, wanted.statistic):
            return row
    known = ", ".join(dict.fromkeys(f"{row.role}.{row.metric}" for row in rows if row.role == wanted.role))
    raise ExperimentError(
        str(wanted),
        "is not measured in the simulation",
        f"there are {known}" if known else "name another role",
    )


def judge_limit(limit: Limit, rows: Sequence[RunValue], level: float, shifts: Sequence[float] = ()) -> Judged:
    """One limit by the run-level values of its path, one per run; `shifts` are those of drawn parameters."""
    found = [row.value for row in rows if row.value is not None]
    if not rows or len(found) != len(rows):
        why = next((row.reason for row in rows if row.value is None), "no run has it")
        return Judged(1.0, 0.0 if rows else 1.0, None, why)
    path, metric = limit.path, limit.path.metric
    counted = sum(row.samples for row in rows)
    if any(map(math.isnan, shifts)):
        why = "a world with drawn parameters has no value"
        return Judged(1.0, 1.0, mean_interval(found, level=level, metric=metric, unit=path.unit), why)
    if (
        not any(shifts)
        and metric in SHARES
        and path.statistic == "ratio"
        and counted
        and len(set(found)) == 1
    ):
        hits = round(found[0] * counted)
        above = p_share_above(hits, counted, limit.value)
        below = p_share_below(hits, counted, limit.value)
        if (
            limit.value == 0 and limit.operator == "<="
        ):  # nothing below zero can be shown: what was seen decides
            above, below = (1.0, 0.0) if hits == 0 else (0.0, 1.0)
        estimate = proportion_interval(hits, counted, level=level, metric=metric, runs=len(found))
    else:
        mean = contrast([np.array(found)], [1.0]).widened(shifts)
        above, below = mean.p_above(limit.value), mean.p_below(limit.value)
        if mean.se == 0:
            kept = _HOLDS[limit.operator](mean.value, limit.value)
            above, below = (1.0, 0.0) if kept is limit.below else (0.0, 1.0)
        estimate = combined(found, shifts, level=level, metric=metric, unit=path.unit).estimate
    return Judged(below, above, estimate) if limit.below else Judged(above, below, estimate)
