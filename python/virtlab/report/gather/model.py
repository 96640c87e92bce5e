"""What a report shows, as plain data: gathered from a dataset once, then drawn as page, pictures, terminal
text, JSON.

Everything here is already aggregated: a cell holds one value per run, a distribution at most a thousand
points. Nothing below knows DuckDB, files or HTML. Values are in the metric's base unit (ns, bit/s, ratio
0..1); the drawing scales them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from virtlab.analysis.effects import Effect
    from virtlab.report.gather.comparison import Beside
    from virtlab.report.gather.fairness import FairnessAxis
    from virtlab.report.gather.histograms import Histogram
    from virtlab.report.gather.recurrence import Recurring
    from virtlab.report.gather.searches import Searched
    from virtlab.stats import Estimate


@dataclass(frozen=True, slots=True)
class Factor:
    """What varies, with its levels in the file's order, as the file writes them."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is drawn: a statistic of a metric of a role."""

    role: str
    metric: str
    statistic: str
    unit: str
    better: str = ""  # 'lower', 'higher' or '' where neither is
    title: str = ""  # the metric in words
    goal: str = ""  # of the search that it hangs on

    @property
    def beside(self) -> str:
        """The goal as it stands behind a title."""
        return f" ({self.goal})" if self.goal else ""

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


@dataclass(frozen=True, slots=True)
class Cell:
    """All valid runs of one design point under one link realisation; `estimate` is None where too few runs
    have a value.
    """

    point: Mapping[str, str]
    realisation: str
    values: tuple[RunValue, ...]
    estimate: Estimate | None

    @property
    def present(self) -> list[float]:
        """The values that exist."""
        return [one.value for one in self.values if one.value is not None]


@dataclass(frozen=True, slots=True)
class Published:
    """A number of the literature that stands beside a cell: levels it refers to, value, and how the source
    hedges it.
    """

    point: Mapping[str, str]  # a part of the factors; the rest is free
    low: float
    high: float
    qualifier: str
    source: str


@dataclass(frozen=True, slots=True)
class Result:
    """A quantity over all design points."""

    quantity: Quantity
    cells: tuple[Cell, ...]
    published: tuple[Published, ...] = ()


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
    """A claim as judged: `verdict` is holds, refuted, undecided, different or equivalent."""

    name: str
    claim: str
    verdict: str
    sentence: str
    because: str = ""  # why somebody expects it, as the file says
    unit: str = ""
    estimate: Estimate | None = None
    required: tuple[float | None, float | None] = (None, None)  # where the estimate has to lie; None: open
    place: str = ""  # which comparison decided
    effect: str = ""
    n: str = ""
    published: str = ""
    more_runs: int | None = None
    goal: str = ""  # of the search that what was judged hangs on


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
    """An object of the world: intended, applied, read back, over how many runs this was so."""

    path: str
    by: str
    intended: Mapping[str, Any]
    applied: Mapping[str, Any]
    read_back: Mapping[str, Any]
    runs: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure or table of the source: names here that reproduce it, from which experiments, or why none
    does.
    """

    figure: str
    shows: str
    experiments: tuple[str, ...] = ()
    plots: tuple[str, ...] = ()
    why_not: str = ""
    note: str = ""


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
class Gathered:
    """Everything a report says, from one dataset."""

    title: str
    description: str
    dataset: str
    backend: str
    created: str
    factors: tuple[Factor, ...]
    conditions: Mapping[str, str]  # factors of one level
    points: tuple[Mapping[str, str], ...]
    verdicts: tuple[Verdict, ...]
    results: tuple[Result, ...]
    distributions: tuple[Sampled, ...]
    courses: tuple[Sampled, ...]
    recurring: tuple[Recurring, ...]
    histograms: tuple[Histogram, ...]
    runs: tuple[RunRow, ...]
    machine: Mapping[str, Mapping[str, str]]  # group -> name -> text
    link_quality: tuple[Mapping[str, Any], ...]  # switch lateness and added delay per realisation
    realised: tuple[Realisation, ...]
    experiment_text: str
    plan: Mapping[str, Any] | None
    glossary: tuple[Mapping[str, str], ...]
    entries: tuple[Entry, ...] = ()  # of the study's figures.yaml
    source: str = ""
    claimed: frozenset[str] = frozenset()  # paths that claims speak about
    sources: tuple[Path, ...] = ()  # files that stand beside the dataset: figures.yaml, published tables
    notes: tuple[str, ...] = ()
    beside: tuple[Beside, ...] = ()  # other sources beside the dataset's own
    effects: tuple[Effect, ...] = ()  # of one more switch, and of one more guest
    queues: tuple[Mapping[str, str], ...] = ()  # of link directions, a row per class and setting
    classes: tuple[ClassSeen, ...] = ()  # the same, as numbers
    searches: tuple[Searched, ...] = ()  # one of each design point
    wire: Mapping[str, str] = field(default_factory=dict)  # role -> what it asks of the wire
    fairness: FairnessAxis | None = None  # where a factor decides Jain's index of the load

    @property
    def realisations(self) -> list[str]:
        """The link realisations of the runs in use, sorted."""
        return sorted({run.realisation for run in self.runs if run.used})

    @property
    def varying(self) -> list[str]:
        """Names of the factors that have two levels or more."""
        return [factor.name for factor in self.factors]
