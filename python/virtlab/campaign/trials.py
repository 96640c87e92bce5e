"""What a search's trials leave behind: one line each in a journal, on disk before the next trial begins.

The journal of a run that is under way lies in `journal/RUN.jsonl` of the dataset. When the run is committed its
lines become `artefacts/trials.jsonl` of the run and the journal goes; when it was cut off, the next attempt is told
what the journal holds and goes on from there. Its first line says what was searched; a journal of anything else is
not used. A line that was cut in half by a crash is the last one, and does not count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "virtlab.trials/1"
ARTEFACT = "trials.jsonl"
FOLDER = "journal"


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One trial as kept. `value`: what the input really was, a whole number; `load`: what the search asked for.

    `purpose`: warm-up, search, or the test of a benchmark; `part`: the load of such a test by name. `repeated`: a
    disturbed attempt that was made again and counts for nothing; `disturbed`: why it may not be trusted. `low` and
    `high` are the bounds after it, first goal.
    """

    id: str
    purpose: str
    load: float
    value: int
    trial_s: float
    loss_ratio: float
    sent: int | None = None
    received: int | None = None
    unsent: int | None = None
    receiver_drops: int | None = None
    repeated: bool = False
    disturbed: str = ""
    measured: float | None = None  # the metric of an `until`; of a test the delay, recovery or reset, ns
    low: float | None = None
    high: float | None = None
    part: str = ""
    flows_ns: list[float | None] | None = None  # delay of each flow of a latency trial
    delays: list[list[int]] | None = (
        None  # of a latency trial's frames: pairs of bin and count (`delay_counts`)
    )
    note: str = ""  # why a test has nothing measured; of a reset that was, how it was done

    @property
    def lost(self) -> int:
        """Frames of the whole stream that did not come through the device, or could not be sent in time."""
        arrived = (self.received or 0) + (self.receiver_drops or 0)
        return max(0, (self.sent or 0) - arrived) + (self.unsent or 0)


@dataclass
class Journal:
    """The lines of one run, kept as they come."""

    path: Path
    header: Mapping[str, Any]
    lines: list[TrialLine] = field(default_factory=list)

    @classmethod
    def open(cls, dataset: Path, run: str, header: Mapping[str, Any]) -> Journal:
        """The run's journal: what an earlier session left, when it searched for the same, else a new one."""
        path = dataset / FOLDER / f"{run}.jsonl"
        path.parent.mkdir(exist_ok=True)
        whole = {"schema": SCHEMA, **header}
        journal = cls(path, json.loads(json.dumps(whole)))
        kept = _read(path)
        if kept and kept[0] == journal.header:
            journal.lines = [TrialLine(**line) for line in kept[1:]]
        journal._write(journal.text(), mode="w")
        return journal

    def add(self, line: TrialLine) -> None:
        """Keeps one line; on return it survives a power loss."""
        self.lines.append(line)
        self._write(_line(asdict(line)), mode="a")

    def text(self) -> str:
        """Header and lines."""
        return _line(self.header) + "".join(_line(asdict(line)) for line in self.lines)

    def remove(self) -> None:
        """The run is committed."""
        self.path.unlink(missing_ok=True)

    def _write(self, text: str, *, mode: str) -> None:
        with self.path.open(mode, encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, sort_keys=True) + "\n"


def _read(path: Path) -> list[Any]:
    """Whole lines as values; none when there is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return []
    found = []
    for line in text.splitlines(keepends=True):
        try:
            found.append(json.loads(line) if line.endswith("\n") else None)
        except ValueError:
            break
    return found if None not in found else found[: found.index(None)]
