"""A checked experiment: what the file says as a whole, its design points, and each point resolved on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from virtlab.catalogue.declaration import Pushback
from virtlab.errors import MachineError
from virtlab.experiment.study import Study
from virtlab.folders import put
from virtlab.lazy import pattern
from virtlab.metrics import Declared, MetricPath

if TYPE_CHECKING:
    from virtlab.analysis.claims import Claim as ParsedClaim
    from virtlab.experiment.read.factors import Design
    from virtlab.experiment.resolver import Resolver

DATASET_NAME = pattern(r"[a-z0-9][a-z0-9-]{0,62}\Z")  # of experiments and of claims
RUNS_MAX = 10_000  # of one experiment, unless its author says that more are meant
MAXIMUM_WITH_UNTIL = 30


@dataclass(frozen=True, slots=True)
class Until:
    """When a point has been repeated enough: half the interval's width, relative to the value."""

    metric: str
    relative_interval: float
    declared: Declared = field(default_factory=dict, compare=False, repr=False)  # metrics that roles declare

    @property
    def path(self) -> MetricPath:
        """The metric. ValueError when the text names no metric."""
        return MetricPath.parse(self.metric, self.declared)


class Repeat(NamedTuple):
    """How often each point is run. `time_ns`: no further run begins after it; None: no such bound."""

    minimum: int = 3
    maximum: int = 3
    until: Until | None = None
    time_ns: int | None = None
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as the file holds it: its id, text, where the text stands, published rows beside it, and its title."""

    id: str
    text: str
    line: int
    column: int
    published: Mapping[str, Any] | None = None
    title: str = ""
    declared: Declared = field(default_factory=dict, compare=False, repr=False)  # metrics that roles declare

    def parsed(self) -> ParsedClaim:
        """The claim as analysis judges it."""
        from virtlab.analysis.claims import PublishedReference, parse_claim

        reference = PublishedReference.parse(self.published) if self.published is not None else None
        claim = parse_claim(
            self.text,
            line=self.line,
            column=self.column,
            published=reference,
            name=self.id,
            declared=self.declared,
        )
        return claim._replace(title=self.title)


@dataclass(frozen=True, slots=True)
class DesignPoint:
    """One combination of levels: factor -> level as the file writes it. `index` counts them in the file's order."""

    index: int
    levels: Mapping[str, str] = field(hash=False)

    def __str__(self) -> str:
        return ", ".join(f"{factor} {level}" for factor, level in self.levels.items()) or "the only point"


class Experiment:
    """What a file asks for. Everything in it was checked, for every design point, when it was loaded."""

    def __init__(
        self, *, name: str, title: str, text: str, seed: int, design: Design, repeat: Repeat,
        claims: tuple[Claim, ...], declared: Declared, resolver: Resolver,
    ) -> None:  # fmt: skip
        self.name = name
        self.title = title
        self.text = text
        self.seed = seed
        self.repeat = repeat
        self.claims = claims
        self.declared = declared  # metrics that roles have besides virtlab's own
        self.factors: dict[str, tuple[str, ...]] = {
            factor.name: tuple(factor.levels) for factor in design.factors.values()
        }
        self._design = design
        self._resolver = resolver
        self.pushback: Pushback | None = None  # of hosts that say nothing of it, once it is known
        self._points: list[DesignPoint] | None = None

    def points(self) -> list[DesignPoint]:
        """Every design point that the exclusions leave, first factor slowest."""
        if self._points is None:
            self._points = [
                DesignPoint(index, levels) for index, levels in enumerate(self._design.combinations())
            ]
        return self._points

    def study(self, point: DesignPoint) -> Study:
        """The world and the work of one design point."""
        return self._resolver.study(point.levels)

    def write(self, path: str | Path) -> Path:
        """Writes the file, over one that is there, and returns its path. MachineError when it cannot be written."""
        file = Path(path)
        try:
            put(file, self.text.encode())
        except OSError as error:
            raise MachineError(
                str(file), f"cannot be written ({error.strerror})", "name a file of yours"
            ) from None
        return file

    def role_workloads(self) -> dict[str, str]:
        """Role -> workload, as at the first point (a factor may change both)."""
        return {
            name: role.workload
            for point in self.points()[:1]
            for name, role in self.study(point).roles.items()
        }
