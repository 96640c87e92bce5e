"""Takes what one trial measures, of which a search keeps little: counters, what a condition or a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from virtlab.errors import MachineError
from virtlab.lazy import np
from virtlab.plan.backend import Columns, Event
from virtlab.results.record import Stream

SAMPLES_MAX_BYTES = 512 * 2**20
BESIDE = "benchmark"  # the action that a test plays besides the Plan's


@dataclass
class TrialSink:
    """Takes what one trial measures: counters always; samples whole when a condition asks for them, else as they
    come.
    """

    samples: bool
    role: str = ""
    take: Callable[[Columns], None] | None = None
    blocks: dict[Stream, list[dict[str, Any]]] = field(default_factory=dict)
    how: str = ""  # a reset was done, as the backend reports it
    _bytes: int = 0

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        """Holds rows in memory. MachineError when a trial makes more of them than a search can hold."""
        if self.take is not None and (stream, schema) == (self.role, "packet/1"):
            self.take(columns)
            return
        if schema != "counter/1" and not self.samples:
            return
        rows = {name: np.array(column) for name, column in columns.items()}
        self._bytes += sum(column.nbytes for column in rows.values())
        if self._bytes > SAMPLES_MAX_BYTES:
            raise MachineError(
                "search",
                f"a trial makes more than {SAMPLES_MAX_BYTES // 2**20} MiB of samples",
                "shorten the roles",
            )
        self.blocks.setdefault(Stream(stream, schema), []).append(rows)

    def event(self, event: Event) -> None:
        """Events of trials are not kept, but for how a reset was done."""
        if event.what == f"{BESIDE}.how":
            self.how = str(event.details.get("text", ""))

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """Artefacts of trials are not kept."""
