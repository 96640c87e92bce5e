"""A trial as a record in memory: what it measured, without a place on disk.

Analysis reads it as it reads a run. Of a search's trials only the outcome is kept (`artefacts/trials.jsonl` of their
run); their samples live here until their metric is taken, and are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.lazy import NDArray, np
from virtlab.plan.backend import Outcome
from virtlab.plan.blocks import BLOCKS
from virtlab.plan.model import Plan
from virtlab.results import parquet
from virtlab.results.record import RunKey, RunRecord, Stream

Blocks = Mapping[Stream, Sequence[Mapping[str, "NDArray[Any]"]]]


@dataclass(frozen=True)
class TrialRecord(RunRecord):
    """One trial; `blocks` are its samples."""

    blocks: Blocks = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, outcome: Outcome, blocks: Blocks, overrides: Mapping[str, Any]) -> TrialRecord:
        """The trial of a Plan that ended so; `overrides` are ROLE.PARAMETER -> value."""
        record = cls(
            folder=Path("trial"), key=RunKey(0, 0, 0), levels=dict(plan.point), seed=plan.seed, plan_identity="",
            backend="", status=outcome.status, reasons=outcome.reasons, marks=outcome.marks, windows=outcome.windows,
            clocks=outcome.clocks, censored=outcome.censored, overrides=dict(overrides), blocks=blocks,
        )  # fmt: skip
        record.__dict__["plan"] = plan  # where the cached property of a run on disk would put it
        return record

    def streams(self) -> list[Stream]:
        """The streams that have samples, by name."""
        return sorted(self.blocks)

    def has(self, stream: str, schema: str) -> bool:
        """Whether the stream was kept at all."""
        return Stream(stream, schema) in self.blocks

    def samples(
        self, stream: str, schema: str, columns: Sequence[str] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Columns of a stream by name, in the order they were measured."""
        parts = self.blocks.get(Stream(stream, schema), ())
        if not parts:
            nothing = parquet.empty(BLOCKS[schema])
            return nothing if columns is None else {name: nothing[name] for name in columns}
        names = list(parts[0]) if columns is None else columns
        return {name: np.concatenate([part[name] for part in parts]) for name in names}
