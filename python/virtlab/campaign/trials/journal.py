"""What a search's trials leave behind: one line each in a journal, on disk before the next trial begins.

The journal of a run that is under way lies in `journal/RUN.jsonl` of the dataset. When the run is committed its
lines become `artefacts/trials.jsonl` of the run and the journal goes; after an interruption, the next attempt reads
the journal and resumes from there. Its first line says what was searched; a journal of anything else is not used. A
line that was cut in half by a crash is the last one, and does not count. What is there is never shortened in place:
a journal whose end was cut off, or that is of something else, is replaced as a whole by one rename.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from virtlab.errors import DatasetError
from virtlab.folders import Folder, read_bounded
from virtlab.results.typed import first_mistake

CURE = "move it away and give the same command again: its trials are made again"
MAX_BYTES = 256 << 20
SCHEMA = "virtlab.trials/1"
ARTEFACT = "trials.jsonl"
FOLDER = "journal"


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One trial as kept. `value`: what the input really was, a whole number; `load`: what the search requested.

    `purpose`: warm-up, search, or the test of a benchmark; `part`: the load of such a test by name. `repeated`: a
    disturbed attempt that was made again and counts for nothing; `disturbed`: why it may not be trusted. `low` and
    `high` are the bounds after it, first goal.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    id: str
    purpose: str
    load: float
    value: int
    trial_s: Annotated[float, Field(ge=0)]
    loss_ratio: Annotated[float, Field(ge=0, le=1)]
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
    delays: list[Annotated[list[int], Field(min_length=2, max_length=2)]] | None = (
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

    dataset: Path
    name: str
    header: Mapping[str, Any]
    lines: list[TrialLine] = field(default_factory=list)

    @classmethod
    def open(cls, dataset: Path, run: str, header: Mapping[str, Any]) -> Journal:
        """The run's journal: what an earlier session left, when it searched for the same, else a new one."""
        journal = cls(dataset, f"{run}.jsonl", json.loads(json.dumps({"schema": SCHEMA, **header})))
        path = dataset / FOLDER / journal.name
        with Folder.open(dataset, FOLDER, make=True) as folder:
            kept, cut = _read(path)
            if kept and kept[0] == journal.header:
                journal.lines = [_parsed(path, number, line) for number, line in enumerate(kept[1:], 2)]
            if cut or not kept or kept[0] != journal.header:
                folder.write(journal.name, journal.text().encode(), durable=True)
        return journal

    def add(self, line: TrialLine) -> None:
        """Keeps one line; on return it survives a power loss."""
        self.lines.append(line)
        with Folder.open(self.dataset, FOLDER) as folder:
            folder.append(self.name, _line(asdict(line)).encode())

    def text(self) -> str:
        """Header and lines."""
        return _line(self.header) + "".join(_line(asdict(line)) for line in self.lines)

    def remove(self) -> None:
        """The run is committed."""
        with Folder.open(self.dataset, FOLDER) as folder:
            folder.remove(self.name)


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, sort_keys=True) + "\n"


def _read(path: Path) -> tuple[list[Any], bool]:
    """Whole lines as values, and whether the last one is cut off; none when there is no such file.

    DatasetError for a whole line that no journal has.
    """
    try:
        lines = read_bounded(path, MAX_BYTES).split(b"\n")
    except FileNotFoundError:
        return [], False
    except OSError as error:
        raise DatasetError(str(path), f"cannot be read ({error.strerror})", CURE) from error
    found = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{path}, line {number}", "is not a line of a journal", CURE) from error
    return found, lines[-1] != b""


def _parsed(path: Path, number: int, line: Any) -> TrialLine:
    try:
        return _LINE.validate_python(line)
    except ValidationError as error:
        raise DatasetError(
            f"{path}, line {number}", f"is not a trial ({first_mistake(error)})", CURE
        ) from error


_LINE = TypeAdapter(TrialLine)
