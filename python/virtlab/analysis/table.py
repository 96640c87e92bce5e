"""All run-level values of a dataset, and the ways to ask for them.

Only runs that ended well are in the table; tainted and failed ones were repeated. Results of different link
realisations stay apart: ask `realisations`, and take one part with `only`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from virtlab.analysis.claims.levels import ordered
from virtlab.analysis.shares import Shares, shares_of
from virtlab.analysis.values import RunValue
from virtlab.analysis.values_file import values_of
from virtlab.metrics import MetricPath
from virtlab.results.dataset import Dataset
from virtlab.results.record import RunRecord

Levels = tuple[tuple[str, str], ...]  # a design point: (factor, level) sorted by factor


@dataclass(frozen=True)
class RunTable:
    """Rows of run-level values. `planned_looks` are the sizes at which a sequential campaign looked (empty:
    it did not). `worlds` are simulated runs by name with what was played: equal texts are one and the same world.
    `shares`: what `cpu_share` of guests is of, by design point."""

    rows: tuple[RunValue, ...]
    planned_looks: tuple[int, ...] = ()
    declared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    worlds: Mapping[str, str] = field(default_factory=dict)
    shares: Shares = field(default_factory=dict)

    def __iter__(self) -> Iterator[RunValue]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def runs(self) -> dict[str, RunValue]:
        """Run name -> one of its rows (for its point, levels, repetition and realisation)."""
        return {row.run: row for row in self.rows}

    @cached_property
    def factors(self) -> dict[str, list[str]]:
        """Factor -> its levels in the data: from low to high when they are quantities, else as declared or
        met."""
        met: dict[str, list[str]] = {}
        for row in sorted(self.runs.values(), key=lambda row: (row.point, row.repetition)):
            for factor, level in row.levels.items():
                levels = met.setdefault(factor, [])
                if level not in levels:
                    levels.append(level)
        for factor, levels in met.items():
            declared = [str(level) for level in self.declared.get(factor, ()) if str(level) in levels]
            met[factor] = ordered(levels) or [*declared, *(x for x in levels if x not in declared)]
        return met

    @cached_property
    def stopped_early(self) -> bool:
        """Whether a sequential campaign ended some design point before its last planned size."""
        made: dict[int, int] = {}
        for row in self.runs.values():
            made[row.point] = made.get(row.point, 0) + 1
        return len(self.planned_looks) > 1 and any(count < self.planned_looks[-1] for count in made.values())

    @cached_property
    def realisations(self) -> list[str]:
        """The link realisations that occur."""
        return sorted({row.realisation for row in self.runs.values()})

    def only(self, *, realisation: str) -> RunTable:
        """The part with one link realisation."""
        rows = tuple(row for row in self.rows if row.realisation == realisation)
        return RunTable(rows, self.planned_looks, self.declared, self.worlds, self.shares)

    @cached_property
    def mixed_points(self) -> list[Levels]:
        """Design points that were measured over more than one link realisation; their values must not be
        pooled."""
        seen: dict[Levels, set[str]] = {}
        for row in self.runs.values():
            seen.setdefault(point_of(row.levels), set()).add(row.realisation)
        return sorted(point for point, used in seen.items() if len(used) > 1)

    @cached_property
    def _by_path(self) -> dict[MetricPath, dict[str, RunValue]]:
        found: dict[MetricPath, dict[str, RunValue]] = {}
        for row in self.rows:
            found.setdefault(row.path, {})[row.run] = row
        return found

    def paths(self) -> list[MetricPath]:
        """Every path that at least one run has a value for."""
        return sorted(
            path
            for path, rows in self._by_path.items()
            if any(row.value is not None for row in rows.values())
        )

    def of(self, path: MetricPath) -> dict[str, RunValue]:
        """Run -> its row for a path, absent values included; empty when no run measured it."""
        return self._by_path.get(path, {})

    def values(self, path: MetricPath, levels: Mapping[str, str] | None = None) -> list[float]:
        """Values of a path over the runs of the design points that have these levels; absent ones are left
        out."""
        wanted = dict(levels or {})
        return [
            row.value
            for row in self.of(path).values()
            if row.value is not None
            and all(row.levels.get(factor) == level for factor, level in wanted.items())
        ]

    def cells(self, path: MetricPath) -> dict[Levels, list[float]]:
        """Design point -> values of a path over its runs."""
        found: dict[Levels, list[float]] = {}
        for row in self.of(path).values():
            if row.value is not None:
                found.setdefault(point_of(row.levels), []).append(row.value)
        return found


def point_of(levels: Mapping[str, str]) -> Levels:
    """A design point as something to compare and sort by."""
    return tuple(sorted((factor, str(level)) for factor, level in levels.items()))


def table_of(rows: Iterable[RunValue]) -> RunTable:
    """A table of given rows."""
    return RunTable(tuple(rows))


def run_values(dataset: Dataset) -> RunTable:
    """Run-level values of every run of a dataset that ended well. One run is in memory at a time."""
    rows: list[RunValue] = []
    records = dataset.runs("ok")
    for record in records:
        rows += values_of(record)
    return RunTable(tuple(rows), worlds=worlds_of(records), shares=shares_of(records, rows))


def worlds_of(records: Iterable[RunRecord]) -> dict[str, str]:
    """What was played in each simulated run, by name; measured runs have none."""
    return {record.name: str(record.clocks["world"]) for record in records if "world" in record.clocks}
