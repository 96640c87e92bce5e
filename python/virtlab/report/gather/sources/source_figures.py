"""A study's `figures.yaml`: every figure and table of the source, and the plots here that reproduce it, the command
that answers it, or why none does.

With `rows` the file names a source of `published/figures.csv`, and has one entry for each figure and table of it.
`tests/study_figures.py` checks that; `tools/figures.py` that each plot is one that a report can hold, without a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.analysis.claims.nouns import NAME_CURE, NO_NAME, is_table_name
from virtlab.documents import read_yaml
from virtlab.errors import ExperimentError
from virtlab.metrics import MetricPath
from virtlab.report.gather.model import Entry

FILE_NAME = "figures.yaml"
_KEYS = {"figure", "shows", "experiment", "plots", "command", "why_not", "not_yet", "note"}


@dataclass(frozen=True, slots=True)
class PublishedColumns:
    """Rows of a published table that lie over a plot: `columns` says which column is which factor's level,
    `levels` which cell is which level where their words differ, `at` at which levels the source took what it prints
    without saying so in the row.
    """

    file: str
    metric: str
    path: str
    columns: Mapping[str, str]
    where: Mapping[str, str]
    levels: Mapping[str, str] = field(default_factory=dict)
    at: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figures:
    """A whole `figures.yaml`."""

    source: str
    entries: tuple[Entry, ...]
    published: tuple[PublishedColumns, ...] = ()
    rows: str = ""  # the source's name in the table of figures
    not_marked: Mapping[str, str] = field(
        default_factory=dict
    )  # metric of a published table -> why no plot has it

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
        str(values.get("rows") or ""),
        {str(name): str(reason) for name, reason in (values.get("not_marked") or {}).items()},
    )


def _published(path: Path, values: Any) -> PublishedColumns:
    known = {"file", "metric", "path", "columns", "where", "levels", "at"}
    if not isinstance(values, dict) or not {"file", "metric", "path"} <= set(values) <= known:
        raise ExperimentError(
            f"{path}: published", "is not an overlay", "write file, metric, path, columns, where, levels, at"
        )
    try:
        MetricPath.parse(str(values["path"]))
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise ExperimentError(f"{path}: published", what, cure) from None
    if not is_table_name(str(values["file"])):
        raise ExperimentError(f"{path}: published.file", NO_NAME, NAME_CURE)
    maps = []
    for key in ("columns", "where", "levels", "at"):
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
        str(values.get("command") or ""),
        str(values.get("not_yet") or ""),
    )


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)
