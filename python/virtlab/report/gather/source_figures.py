"""A study's `figures.yaml`: every figure and table of the source, and the plots here that reproduce it, or
why none does.

Checked without running anything: an experiment file says which roles measure what and which factors vary, and
that decides the names of all plots (`names`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.analysis.published import NAME_CURE, NO_NAME, is_table_name
from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.workloads.raw_stream import flow_names
from virtlab.documents import read_yaml
from virtlab.errors import ExperimentError
from virtlab.experiment import load
from virtlab.metrics import METRICS, MetricPath
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.report import names
from virtlab.report.gather.fairness import axis_of_experiment
from virtlab.report.gather.model import Entry
from virtlab.report.gather.samples import SAMPLED
from virtlab.report.gather.selection import RECURRING, bucketed
from virtlab.report.names import CLASS_DROPS_PLOT, CLASS_WAITS_PLOT, CORES_PLOT, Measured, expected_names

FILE_NAME = "figures.yaml"
_KEYS = {"figure", "shows", "experiment", "plots", "why_not", "note"}


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an entry, and the cure."""

    figure: str
    what: str
    cure: str

    def __str__(self) -> str:
        return f"{self.figure}: {self.what}; {self.cure}"


@dataclass(frozen=True, slots=True)
class PublishedColumns:
    """Rows of a published table that lie over a plot: `columns` says which column is which factor's level,
    `levels` which cell is which level where their words differ.
    """

    file: str
    metric: str
    path: str
    columns: Mapping[str, str]
    where: Mapping[str, str]
    levels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figures:
    """A whole `figures.yaml`."""

    source: str
    entries: tuple[Entry, ...]
    published: tuple[PublishedColumns, ...] = ()

    @property
    def plots(self) -> frozenset[str]:
        """Every name that some entry gives."""
        return frozenset(plot for entry in self.entries for plot in entry.plots)


def read_figures(path: Path) -> Figures:
    """The file. ExperimentError when it is missing or no such file."""
    values = read_yaml(path, cure="see docs/reference/report.md")
    if not isinstance(values, dict) or not isinstance(values.get("figures"), list):
        raise ExperimentError(str(path), "has no list 'figures'", "see docs/reference/report.md")
    return Figures(
        str(values.get("source", "")),
        tuple(_entry(path, one) for one in values["figures"]),
        tuple(_published(path, one) for one in values.get("published") or ()),
    )


def _published(path: Path, values: Any) -> PublishedColumns:
    known = {"file", "metric", "path", "columns", "where", "levels"}
    if not isinstance(values, dict) or not {"file", "metric", "path"} <= set(values) <= known:
        raise ExperimentError(
            f"{path}: published", "is not an overlay", "write file, metric, path, columns, where, levels"
        )
    try:
        MetricPath.parse(str(values["path"]))
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise ExperimentError(f"{path}: published", what, cure) from None
    if not is_table_name(str(values["file"])):
        raise ExperimentError(f"{path}: published.file", NO_NAME, NAME_CURE)
    maps = []
    for key in ("columns", "where", "levels"):
        value = values.get(key) or {}
        if not isinstance(value, dict):
            raise ExperimentError(
                f"{path}: published.{key}", "is not a mapping", f"write {key}: {{NAME: NAME}}"
            )
        maps.append({str(name): str(one) for name, one in value.items()})
    return PublishedColumns(str(values["file"]), str(values["metric"]), str(values["path"]), *maps)


def _entry(path: Path, values: Any) -> Entry:
    if not isinstance(values, dict) or "figure" not in values:
        raise ExperimentError(str(path), "an entry without 'figure'", "name the source's figure or table")
    name = str(values["figure"])
    unknown = sorted(set(map(str, values)) - _KEYS)
    if unknown:
        raise ExperimentError(
            f"{path}: {name}", f"unknown key '{unknown[0]}'", f"write {', '.join(sorted(_KEYS))}"
        )
    return Entry(
        name,
        str(values.get("shows", "")),
        _texts(values.get("experiment")),
        _texts(values.get("plots")),
        str(values.get("why_not") or ""),
        str(values.get("note") or ""),
    )


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def measured(roles: Mapping[str, str], entities: Iterable[str] = ()) -> list[Measured]:
    """What roles (name -> workload) and entities (hosts, guests, ...) can have values of."""
    found = [
        Measured(
            role,
            metric.key,
            metric.statistics,
            sampled=metric.key in SAMPLED,
            recurring=metric.key in RECURRING,
            bucketed=bucketed(workload, metric.key),
        )
        for role, workload in roles.items()
        for metric in METRICS.values()
        if metric.key in WORKLOADS[workload].metrics
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
    factors, values = varying(experiment), measured(experiment.role_workloads()) + tested(experiment)
    axis = axis_of_experiment(experiment, factors)
    found = expected_names(values, factors) | searched_names(experiment)
    study = experiment.study(experiment.points()[0])
    if any(queue.classes for both in study.queues.values() for queue in both):
        found |= {CLASS_WAITS_PLOT: "waits of classes", CLASS_DROPS_PLOT: "drops of classes"}
    if "host.cpu" in study.collect.series:
        found[CORES_PLOT] = "processors of the host during each test"
    return found if axis is None else expected_names(values, axis.names(factors)) | found


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


def check_figures(figures_file: Path | str, experiments: Sequence[Path | str] = ()) -> list[Problem]:
    """Every mistake of a `figures.yaml`; empty when each named plot is one that its experiment's report will
    hold.

    `experiments` are used for entries that name none; names are looked up beside the file. ExperimentError
    when a file cannot be read at all.
    """
    path = Path(figures_file)
    default = [str(one) for one in experiments]
    known: dict[str, dict[str, str]] = {}
    problems = []
    for entry in read_figures(path).entries:
        if bool(entry.plots) == bool(entry.why_not):
            what = "has plots and a why_not" if entry.plots else "has neither plots nor a why_not"
            problems.append(Problem(entry.figure, what, "keep exactly one of them"))
        if not entry.shows:
            problems.append(Problem(entry.figure, "does not say what it shows", "add 'shows'"))
        files = list(entry.experiments) or default
        if entry.plots and not files:
            problems.append(Problem(entry.figure, "names no experiment", "add 'experiment'"))
            continue
        for name in files:
            if name not in known:
                known[name] = names_of_experiment(path.parent / name)
        available = [known[name] for name in files]
        for plot in entry.plots:
            if not any(plot in one for one in available):
                near = difflib.get_close_matches(
                    plot, {key for one in available for key in one}, n=1, cutoff=0.3
                )
                cure = f"the nearest is '{near[0]}'" if near else "see docs/reference/report.md"
                problems.append(
                    Problem(entry.figure, f"no report of {', '.join(files)} holds '{plot}'", cure)
                )
    return problems
