"""Everything a report says, in the parts that it is gathered in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtlab.analysis.effects.accounted import Accounted
from virtlab.analysis.effects.added import Effect
from virtlab.report.gather.around_moves import Around
from virtlab.report.gather.distributions.histograms import Histogram
from virtlab.report.gather.distributions.over_time import OverTime
from virtlab.report.gather.distributions.recurrence import Recurring
from virtlab.report.gather.fairness import FairnessAxis
from virtlab.report.gather.migrations import MoveCourse
from virtlab.report.gather.model import (
    Cell,
    ClassSeen,
    Comparison,
    Entry,
    Factor,
    Realisation,
    Result,
    RunRow,
    Sampled,
    SettingKey,
    Verdict,
)
from virtlab.report.gather.processing import Course
from virtlab.report.gather.searches import Searched


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the numbers are from: the experiment, and the dataset that it ended in."""

    title: str
    description: str
    dataset: str
    backend: str
    created: str
    experiment_text: str


@dataclass(frozen=True, slots=True)
class Design:
    """The requested settings: factors of two levels or more, what was constant, and the points."""

    factors: tuple[Factor, ...]
    conditions: Mapping[str, str]  # factors of one level
    points: tuple[Mapping[str, str], ...]
    fairness: FairnessAxis | None = None  # where a factor decides Jain's index of the load

    @property
    def varying(self) -> list[str]:
        """Names of the factors that have two levels or more."""
        return [factor.name for factor in self.factors]


@dataclass(frozen=True, slots=True)
class Samples:
    """What single samples show, of the metrics that have them; empty if only run-level values were requested."""

    distributions: tuple[Sampled, ...] = ()
    courses: tuple[Sampled, ...] = ()
    recurring: tuple[Recurring, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    processing: tuple[Course, ...] = ()
    over_time: tuple[OverTime, ...] = ()
    moves: tuple[MoveCourse, ...] = ()
    around_moves: tuple[Around, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    """What was built, and under what conditions it ran."""

    plan: Mapping[str, Any] | None  # of the design point that has most in it
    machine: Mapping[str, Mapping[str, str]]  # group -> name -> text
    realised: tuple[Realisation, ...]
    wire: Mapping[str, str]  # role -> the share of the wire that it asks for
    pushbacks: tuple[str, ...] = ()  # kinds, of hosts with guests and a wire
    link_quality: tuple[Mapping[str, Any], ...] = ()  # the switch's lateness and added delay, per realisation
    queues: tuple[Mapping[str, str], ...] = ()  # of link directions, a row per class and setting
    classes: tuple[ClassSeen, ...] = ()  # the same, as numbers


@dataclass(frozen=True, slots=True)
class Source:
    """The publication that a study reproduces, by its figures.yaml."""

    title: str = ""
    entries: tuple[Entry, ...] = ()
    files: tuple[Path, ...] = ()  # figures.yaml and the published tables, to be kept with the report

    @property
    def plots(self) -> frozenset[str]:
        """Names of plots that some entry asks for."""
        return frozenset(plot for entry in self.entries for plot in entry.plots)


@dataclass(frozen=True, slots=True)
class Influences:
    """What factors do, beside the values of their levels."""

    effects: tuple[Effect, ...] = ()  # of one more switch, and of one more guest
    accounted: tuple[Accounted, ...] = ()  # the share of each factor


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything a report says, from one dataset."""

    origin: Origin
    design: Design
    runs: tuple[RunRow, ...]
    verdicts: tuple[Verdict, ...]
    results: tuple[Result, ...]
    samples: Samples
    searches: tuple[Searched, ...]  # one of each design point
    influences: Influences
    world: World
    source: Source
    notes: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()  # with other sources

    @property
    def realisations(self) -> list[str]:
        """The link realisations of the runs in use, sorted."""
        return sorted({run.realisation for run in self.runs if run.used})

    @property
    def claimed(self) -> frozenset[str]:
        """Paths that claims speak about."""
        return frozenset(path for verdict in self.verdicts for path in verdict.paths)

    @property
    def searched_roles(self) -> list[str]:
        """Roles that were searched or tested."""
        return list(dict.fromkeys(one.role for one in self.searches))

    def by_setting(self, path: str) -> dict[SettingKey, Cell]:
        """The cells of a quantity, by what they are of; empty where no run has it."""
        return {cell.setting: cell for one in self.results if one.quantity.path == path for cell in one.cells}
