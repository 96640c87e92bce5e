"""Every plot and table that a report of an experiment file can hold, known from the file alone.

An experiment file says which roles measure what, which factors vary and what is searched, and that decides the
names of all plots (`names`). What the parameters of a role rule out (`Workload.never`) and what only a search or the
tests after it measure are left out, so that a name found here is one that a report of a good dataset contains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtlab.analysis.searches.searched import limit_of
from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.actions import MIGRATE
from virtlab.catalogue.collected import GUEST_DISK, HOST_CPU, HOST_DISK
from virtlab.catalogue.flows import flow_names
from virtlab.documents import read_yaml
from virtlab.experiment import load
from virtlab.metrics import METRICS
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.metrics.migration import OF_CLIENTS
from virtlab.metrics.searches import SEARCHES
from virtlab.realtime.forms import load_study
from virtlab.realtime.plots import PLOTS
from virtlab.report import names
from virtlab.report.gather.distributions.over_time import TIMED
from virtlab.report.gather.distributions.samples import SAMPLED
from virtlab.report.gather.fairness import axis_of_experiment
from virtlab.report.gather.processing import SHARES
from virtlab.report.gather.selection import RECURRING, bucketed
from virtlab.report.names import CLASS_DROPS_PLOT, CLASS_WAITS_PLOT, CONDITIONS, CORES_PLOT, READ_BACK

OF_EVERY_REPORT = {
    CONDITIONS: "machine, kernel and versions",
    READ_BACK: "every object as intended, as applied and as read back",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric of one role, before anything ran: its statistics, and whether single samples exist."""

    role: str
    metric: str
    statistics: tuple[str, ...]
    sampled: bool = False
    recurring: bool = False  # its runs are plotted beside each other
    bucketed: bool = False  # it has a histogram
    timed: bool = False  # it has quantiles per interval


def expected_names(measured: Iterable[Measured], factors: Sequence[str]) -> dict[str, str]:
    """Every plot and table that a report over these metrics and varying factors holds: name -> the sentence
    behind it.
    """
    found = {"topology": "the world of the first design point"}
    for one in measured:
        path = f"{one.role}.{one.metric}"
        for statistic in one.statistics:
            axes: list[str | None] = [*factors] if factors else [None]
            for x in axes:
                name = names.interval_plot(one.role, one.metric, statistic, x, factors)
                found[name] = f"{path}.{statistic}" + (f" by {x}" if x else "")
        found[names.of_metric("table", one.role, one.metric)] = f"run-level values of {path}"
        if one.sampled:
            found[names.of_metric("ecdf", one.role, one.metric)] = f"distribution of {path}"
            found[names.of_metric("series", one.role, one.metric)] = f"{path} over time in exemplar runs"
        if one.recurring:
            found[names.of_metric("runs", one.role, one.metric)] = f"runs of {path} beside each other"
            found[names.of_metric("recurrence", one.role, one.metric)] = (
                f"variance of {path} within and between runs"
            )
        if one.timed:
            found[names.over_time(one.role, one.metric)] = f"median, p99 and maximum of {path} over time"
        if one.bucketed:
            found[names.of_metric("histogram", one.role, one.metric)] = f"histogram of {path}"
            found[names.of_metric("buckets", one.role, one.metric)] = f"buckets of the histogram of {path}"
    return found


def measured(
    roles: Mapping[str, str], entities: Iterable[str] = (), never: Mapping[str, Collection[str]] | None = None
) -> list[Measured]:
    """What roles (name -> workload) and entities (hosts, guests, ...) can have values of; `never`: of a role,
    metrics that it cannot.
    """
    excluded = never or {}
    found = [
        Measured(
            role,
            metric.key,
            metric.statistics,
            sampled=metric.key in SAMPLED,
            recurring=metric.key in RECURRING,
            timed=metric.key in TIMED,
            bucketed=bucketed(workload, metric.key),
        )
        for role, workload in roles.items()
        for metric in METRICS.values()
        if metric.key in WORKLOADS[workload].metrics and metric.key not in excluded.get(role, ())
    ]
    return found + [
        Measured(entity, metric.key, metric.statistics, sampled=False)
        for entity in entities
        for metric in METRICS.values()
        if metric.of == "entity"
    ]


def names_of_experiment(path: Path) -> dict[str, str]:
    """Every plot and table that a report of this experiment file can hold. ExperimentError when the file is
    wrong.
    """
    experiment = load(path)
    factors = varying(experiment)
    values = measured(experiment.role_workloads(), never=impossible(experiment)) + tested(experiment)
    values += [
        Measured(role, metric.key, metric.statistics, sampled=metric.over_time)
        for role, metrics in experiment.declared.items()
        for metric in metrics.values()
    ]
    axis = axis_of_experiment(experiment, factors)
    found = expected_names(values, factors) | searched_names(experiment) | OF_EVERY_REPORT
    study = experiment.study(experiment.points()[0])
    if any(queue.classes for both in study.queues.values() for queue in both):
        found |= {CLASS_WAITS_PLOT: "waits of classes", CLASS_DROPS_PLOT: "drops of classes"}
    if HOST_CPU.name in study.collect.series:
        found[CORES_PLOT] = "processors of the host during each test"
    if study.collect.telemetry:
        for share, (_, words) in SHARES.items():
            found[names.processing(share, "over time")] = f"processors over time, share {words}"
            found[names.processing(share, "by load")] = f"processors against the load, share {words}"
    if any(action.do == MIGRATE.name for action in study.timeline or ()):
        found[names.MOVES_PLOT] = "memory left to be copied of guests that move, over time"
        found |= {plot: f"{what} from the start of a move" for what, plot in names.AROUND_MOVES_PLOTS.items()}
    sampled = study.collect.telemetry or {GUEST_DISK.name, HOST_DISK.name} & set(study.collect.series)
    hosts = study.wiring.hosts.values()
    if sampled and any(one.disk for host in hosts for one in (host, *host.guests.values())):
        found[names.WRITES_PLOT] = "bytes written to disks of guests against the load"
    return found if axis is None else expected_names(values, axis.names(factors)) | found


def names_of_study(path: Path) -> dict[str, str]:
    """Every plot that `virtlab rt study` writes for this file; none if it is no file of that command."""
    content = read_yaml(path)
    if not isinstance(content, dict) or "study" not in content:
        return {}
    parts, _, _ = load_study(path)
    return {name: f"plot of `virtlab rt study`, part {part}" for part in parts for name in PLOTS[part]}


def impossible(experiment: Any) -> dict[str, frozenset[str]]:
    """Role -> metrics that it has at no design point: its parameters rule them out, or nothing searches for them."""
    found: dict[str, frozenset[str]] = {}
    for point in experiment.points():
        study = experiment.study(point)
        moving = {
            str(action.fields.get("guest")) for action in study.timeline or () if action.do == MIGRATE.name
        }
        for name, role in study.roles.items():
            ruled = WORKLOADS[role.workload].never(role.parameters) | _not_searched(study, name)
            ruled |= frozenset() if role.target in moving else OF_CLIENTS
            found[name] = found[name] & ruled if name in found else ruled
    return found


def _not_searched(study: Any, role: str) -> frozenset[str]:
    """Metrics of searches and of tests after them that this role does not get."""
    search = study.search
    if search is None or search.role != role:
        return frozenset({*SEARCHES, *BENCHMARKS})
    goals = {"ndr" if goal.loss == 0 else "pdr" for goal in search.goals}
    given = {"search_trials", "search_traffic"}
    if search.until is not None:
        given.add(limit_of(search.parameter))
    else:
        given |= goals | ({f"{goal}_rate" for goal in goals} if search.parameter == "rate_pps" else set())
    if search.tests is not None:
        given |= set(BENCHMARKS)
    return frozenset({*SEARCHES, *BENCHMARKS} - given)


def tested(experiment: Any) -> list[Measured]:
    """What the tests after the search of an experiment can have values of: loads, and flows at them."""
    points = experiment.points()
    study = experiment.study(points[0]) if points else None
    if study is None or study.search is None or study.search.tests is None:
        return []
    role = study.search.role
    flows = flow_names(study.roles[role].parameters)
    parts = [f"{role}.{part}" for part in study.search.tests.parts()]
    owners = [*parts, *(f"{part}.{flow}" for part in parts for flow in flows)]
    return [
        Measured(owner, metric.key, metric.statistics) for owner in owners for metric in BENCHMARKS.values()
    ]


def searched_names(experiment: Any) -> dict[str, str]:
    """Plots and tables of the search of an experiment, and of the tests after it."""
    points = experiment.points()
    search = experiment.study(points[0]).search if points else None
    if search is None:
        return {}
    role, tests = search.role, search.tests
    found = {
        names.of_search("search", role): f"trials of the search of {role}",
        names.of_search("trials", role): f"trials of the search of {role}, and of the tests after it",
    }
    if tests is not None:
        found[names.of_search("tests", role)] = f"what the tests after the search of {role} measured"
    if tests is not None and tests.latency is not None:
        found[names.by_load("latency", role)] = f"delay of {role} against load"
        found[names.by_load("latency quantiles", role)] = f"quantiles of delay of {role} against load"
    if tests is not None and tests.frame_loss is not None:
        found[names.by_load("frame loss", role)] = f"loss of {role} against load"
    return found


def varying(experiment: Any) -> list[str]:
    """Factors with two levels or more among the design points, in the file's order."""
    points = [point.levels for point in experiment.points()]
    return [name for name in experiment.factors if len({point[name] for point in points}) > 1]
