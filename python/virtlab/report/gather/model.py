"""What a report shows, as plain data: the nouns that pictures, tables, page and terminal speak of.

Everything here is already aggregated: a cell holds one value per run, a distribution at most a thousand points. Nothing
here knows DuckDB, files or HTML. Values are in the metric's base unit (ns, bit/s, ratio 0..1); what is drawn is scaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from virtlab.metrics import METRICS, Metric
from virtlab.units import Display

if TYPE_CHECKING:
    from virtlab.stats import Estimate


@dataclass(frozen=True, slots=True)
class Factor:
    """What varies, with its levels in the file's order, as the file writes them."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """The metrics worth drawing: a statistic of a metric of a role."""

    role: str
    metric: str
    statistic: str
    unit: str
    better: str = ""  # 'lower', 'higher' or '' where neither is
    title: str = ""  # the metric in words
    goal: str = ""  # of the search that gave it
    mixed: bool = False  # shares of vCPUs in some settings and of processors in others
    declared: Metric | None = field(
        default=None, compare=False, repr=False
    )  # where the experiment declares it

    @property
    def declaration(self) -> Metric:
        """The metric."""
        return self.declared or METRICS[self.metric]

    @property
    def qualifier(self) -> str:
        """What follows a title: the goal of a search, and that shares are of different things where they are."""
        mixed = "of vCPUs in some settings, of processors in others" if self.mixed else ""
        said = "; ".join(each for each in (self.goal, mixed) if each)
        return f" ({said})" if said else ""

    @property
    def path(self) -> str:
        """As a claim writes it: `probe.rtt.mean`."""
        return f"{self.role}.{self.metric}.{self.statistic}"


@dataclass(frozen=True, slots=True)
class RunValue:
    """The value of one run; None where the run measured nothing (missing is not zero)."""

    run: str
    repetition: int
    value: float | None
    reason: str = ""  # why there is no value


SettingKey = tuple[tuple[tuple[str, str], ...], str]  # of a design point and a link realisation


@dataclass(frozen=True, slots=True)
class Cell:
    """All valid runs of one design point under one link realisation; `estimate` is None where too few have a value."""

    point: Mapping[str, str]
    realisation: str
    values: tuple[RunValue, ...]
    estimate: Estimate | None
    share_of: str = ""  # of a guest's share of processors, what of (see `analysis.shares`)

    @property
    def present(self) -> list[float]:
        """The values that exist."""
        return [one.value for one in self.values if one.value is not None]

    @property
    def mean(self) -> float:
        """Mean over the runs that have a value."""
        return sum(self.present) / len(self.present)

    @property
    def setting(self) -> SettingKey:
        """The key by which other tables find the cell's setting."""
        return tuple(self.point.items()), self.realisation


@dataclass(frozen=True, slots=True)
class Published:
    """A number of the literature: the levels that it refers to, its value, and how the source hedges it."""

    point: Mapping[str, str]  # a part of the factors; the rest is free
    low: float
    high: float
    qualifier: str
    source: str

    def is_of(self, point: Mapping[str, str]) -> bool:
        """Whether it speaks of a design point."""
        return all(point.get(name) == level for name, level in self.point.items())

    def text(self, shown: Display) -> str:
        """The number as the source hedges it."""
        to = f" to {shown.text(self.high)}" if self.high != self.low else ""
        return f"{self.qualifier} {shown.text(self.low)}{to}".strip()


@dataclass(frozen=True, slots=True)
class Result:
    """A quantity over all design points."""

    quantity: Quantity
    cells: tuple[Cell, ...]
    published: tuple[Published, ...] = ()


class Setting(Protocol):
    """Anything of one setting: a design point under one realisation of its links."""

    @property
    def point(self) -> Mapping[str, str]:
        """Factor -> level."""

    @property
    def realisation(self) -> str:
        """How its links were realised."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A distribution or a time series of one design point: points in order."""

    point: Mapping[str, str]
    realisation: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    runs: tuple[str, ...]
    samples: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """Curves of one metric of one role: distributions (x value, y share) or courses (x seconds, y value)."""

    role: str
    metric: str
    unit: str
    title: str
    curves: tuple[Curve, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim as judged: `verdict` is holds, refuted or undecided."""

    name: str
    claim: str
    verdict: str
    sentence: str
    because: str = ""  # notes of the analysis
    estimate: Estimate | None = None
    required: tuple[float | None, float | None] = (None, None)  # where the estimate has to lie; None: open
    effect: str = ""
    n: str = ""
    published: str = ""
    more_runs: int | None = None
    goal: str = ""  # of the search that gave what was judged
    paths: tuple[str, ...] = ()  # what the claim speaks about


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as the dataset keeps it."""

    run: str
    point: Mapping[str, str]
    repetition: int
    attempt: int
    status: str
    reasons: tuple[str, ...]
    started: str = ""
    realisation: str = "none"
    used: bool = True  # its values are in the estimates


@dataclass(frozen=True, slots=True)
class Realisation:
    """A state of an object of the world: intended, applied, read back, and in how many runs it was so."""

    path: str
    by: str
    intended: Mapping[str, Any]
    applied: Mapping[str, Any]
    read_back: Mapping[str, Any]
    runs: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure or table of the source: names here that reproduce it, from which experiments; the command that answers
    it; or why nothing does, for good or (`not_yet`) until virtlab has what it needs.
    """

    figure: str
    shows: str
    experiments: tuple[str, ...] = ()
    plots: tuple[str, ...] = ()
    why_not: str = ""
    note: str = ""
    command: str = ""
    not_yet: str = ""


@dataclass(frozen=True, slots=True)
class ClassSeen:
    """One class of one direction's queue at one setting; medians over its runs. `name` is empty without classes."""

    setting: str
    direction: str
    name: str
    runs: int
    wait_mean_ns: float | None
    wait_p99_ns: float | None
    dropped_ratio: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One setting in two sources: the dataset's own cell, the other source's, and their difference, other less own."""

    point: Mapping[str, str]
    reference: Cell
    label: str
    other: Cell
    difference: Estimate | None

    @property
    def relative(self) -> float | None:
        """The difference as a share of the reference's mean; None where either has no value, or the mean is zero."""
        if self.difference is None or self.reference.estimate is None or self.reference.estimate.point == 0:
            return None
        return self.difference.point / abs(self.reference.estimate.point)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity over all settings and sources. `result` has the factor `source` added, for drawing."""

    quantity: Quantity
    reference: str
    labels: tuple[str, ...]
    pairs: tuple[Pair, ...]
    result: Result
