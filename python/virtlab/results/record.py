"""One finished run as it stands on disk: what was asked (point, levels, repetition, seed), what was built,
how it ended.

`samples` reads lazily, so going through thousands of records costs their `run.json` only.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from virtlab.errors import DatasetError
from virtlab.folders import read_bounded
from virtlab.lazy import NDArray
from virtlab.plan.backend import Event, Mark, Outcome, Realised, RealisedObject, Status
from virtlab.plan.blocks import BLOCKS
from virtlab.plan.model import Plan, identity_of
from virtlab.results import parquet
from virtlab.results.typed import MAX_BYTES, RunFile, Time, first_mistake

SCHEMA = "virtlab.run/1"
_NAME = re.compile(r"p(\d{4,})-r(\d{2,})-a(\d+)\Z")


class RunKey(NamedTuple):
    """Which run: design point, repetition, attempt, each counted from 0.

    >>> RunKey(3, 2, 0).name
    'p0003-r02-a0'
    >>> RunKey.parse("p0003-r02-a0")
    RunKey(point=3, repetition=2, attempt=0)
    """

    point: int
    repetition: int
    attempt: int

    @property
    def name(self) -> str:
        """Its folder's name."""
        return f"p{self.point:04d}-r{self.repetition:02d}-a{self.attempt}"

    @classmethod
    def parse(cls, name: str) -> RunKey:
        """From a folder's name. ValueError for any other name."""
        match = _NAME.match(name)
        if not match:
            raise ValueError(f"'{name}' is not a run's name; write e.g. 'p0003-r02-a0'")
        return cls(*(int(group) for group in match.groups()))


class Stream(NamedTuple):
    """One file of samples: who sent them (a role or series source), and their schema."""

    stream: str
    schema: str

    @property
    def file_name(self) -> str:
        """`probe.rtt-1.parquet` for the stream probe of schema rtt/1."""
        return f"{self.stream}.{self.schema.replace('/', '-')}.parquet"

    @classmethod
    def of(cls, file_name: str) -> Stream:
        """From the file's name."""
        stem, _, schema = file_name.removesuffix(".parquet").rpartition(".")
        return cls(stem, "/".join(schema.rsplit("-", 1)))


@dataclass(frozen=True)
class RunRecord:
    """A run in a dataset.

    `levels` maps factor to level as the experiment file writes it. Times of `marks` and `windows` are ns on
    the run's clock. `timings` are ns: `build`, `run`, `store`, `total`. `conditions` are the machine's at the
    time. `blame` is "machine" where it failed for the machine's sake. `overrides` (ROLE.PARAMETER -> value) are
    those of the pass that was kept, where a search chose it.
    """

    folder: Path
    key: RunKey
    levels: Mapping[str, str]
    seed: int
    plan_identity: str
    backend: str
    status: Status
    reasons: tuple[str, ...] = ()
    marks: Mapping[str, Mark] = field(default_factory=dict)
    windows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    clocks: Mapping[str, Any] = field(default_factory=dict)
    censored: tuple[str, ...] = ()
    blame: Literal["", "machine"] = ""
    realised: Realised = field(default_factory=lambda: Realised({}))
    link_realisation: str = "none"
    timings: Mapping[str, int] = field(default_factory=dict)
    started: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`p0003-r02-a0`."""
        return self.key.name

    @property
    def point(self) -> int:
        """Index of the design point."""
        return self.key.point

    @property
    def repetition(self) -> int:
        """The number of the repetition of its design point."""
        return self.key.repetition

    @property
    def attempt(self) -> int:
        """The number of the attempt at that repetition."""
        return self.key.attempt

    @property
    def outcome(self) -> Outcome:
        """The outcome that the backend reported."""
        return Outcome(
            self.status, self.reasons, self.marks, self.windows, self.clocks, self.censored, self.blame
        )

    @cached_property
    def plan(self) -> Plan:
        """The Plan that was played. DatasetError when it cannot be read."""
        path = self.folder / "plan.json"
        try:
            text = read_bounded(path, MAX_BYTES)
            plan = Plan.parse(text)
        except (OSError, ValidationError) as error:
            what = first_mistake(error) if isinstance(error, ValidationError) else error.strerror
            raise DatasetError(str(path), f"is not a Plan ({what})", parquet.CURE) from error
        own = (identity_of(text), plan.seed, plan.repetition, plan.point)
        if own != (self.plan_identity, self.seed, self.repetition, self.levels):
            raise DatasetError(str(path), "is not the Plan that run.json names", parquet.CURE)
        return plan

    def streams(self) -> list[Stream]:
        """What samples there are, by name. DatasetError when the run's record has others."""
        try:
            with os.scandir(self.folder / "samples") as entries:
                files = [entry.name for entry in entries if entry.name.endswith(".parquet")]
        except (FileNotFoundError, NotADirectoryError):
            files = []
        for name in {name.removesuffix(".parquet") for name in files} ^ set(self.rows) if self.rows else ():
            what = (
                "the run's record tells of no such samples"
                if f"{name}.parquet" in files
                else "the samples are missing"
            )
            raise DatasetError(str(self.folder / "samples" / f"{name}.parquet"), what, parquet.CURE)
        return sorted(Stream.of(name) for name in files)

    def has(self, stream: str, schema: str) -> bool:
        """Whether the stream was kept at all; a kept stream can still be without rows."""
        name = Stream(stream, schema).file_name
        there = (self.folder / "samples" / name).is_file()
        if not there and name.removesuffix(".parquet") in self.rows:
            raise DatasetError(str(self.folder / "samples" / name), "the samples are missing", parquet.CURE)
        return there

    def samples(
        self, stream: str, schema: str, columns: Sequence[str] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Columns of a stream by name, in the order they were measured; no rows when it was not kept.

        Only the given `columns` are read when some are given.

        Integers are int64 or int32, names are objects. A column younger than the dataset is wholly masked.
        """
        if (fresh := self.fresh(stream, schema, columns)) is not None:
            return fresh
        name = Stream(stream, schema).file_name
        path, known = self.folder / "samples" / name, BLOCKS.get(schema)
        if not self.has(stream, schema):
            if known is None:
                raise DatasetError(str(path), f"there are no samples of schema '{schema}'", "name another")
            nothing = parquet.empty(known)
            return nothing if columns is None else {name: nothing[name] for name in columns}
        rows = self.rows.get(name.removesuffix(".parquet"))
        return parquet.read(path, known, str(path), columns, rows=rows)

    @property
    def sent_values(self) -> Mapping[str, float | None]:
        """Values that were sent along with the run, by path; they travel with the record."""
        found: Mapping[str, float | None] = self.__dict__.get("_sent_values", {})
        return found

    def tell(self, path: str, value: float | None) -> None:
        """Tells a value of the run along with it."""
        self.__dict__["_sent_values"] = {**self.sent_values, path: value}

    def hold(self, plan: Plan, samples: Mapping[Stream, dict[str, NDArray[Any]]], text: bytes) -> None:
        """Has the Plan and the samples at hand that were stored just now, and `run.json`, until `release`."""
        self.__dict__.update(plan=plan, _fresh=samples, file_digest=hashlib.sha256(text).digest())

    @cached_property
    def file_digest(self) -> bytes:
        """SHA-256 of `run.json` as it was read or stored."""
        return hashlib.sha256(read_bounded(self.folder / "run.json", MAX_BYTES)).digest()

    def release(self) -> None:
        """Lets go of what was held: a record that is sent or kept is small."""
        for name in ("plan", "_fresh"):
            self.__dict__.pop(name, None)

    def fresh(
        self, stream: str, schema: str, columns: Sequence[str] | None
    ) -> dict[str, NDArray[Any]] | None:
        """Columns of a stream that is held, as the file has them; None when it is not held."""
        held: Mapping[Stream, dict[str, NDArray[Any]]] = self.__dict__.get("_fresh", {})
        found = held.get(Stream(stream, schema))
        if found is None:
            return None
        return dict(found) if columns is None else {name: found[name] for name in columns}

    def log(self) -> Iterator[dict[str, Any]]:
        """The run's structured log, in order; each entry has `t` (UTC) or `t_ns`, `level` and `what`."""
        path = self.folder / "log.jsonl"
        if not path.is_file():
            return
        with path.open("rb") as file:
            while line := file.readline(LINE_MAX_BYTES):
                try:
                    yield _Entry.model_validate_json(line).model_dump(exclude_unset=True)
                except ValidationError as error:
                    what = f"has a line that no log has ({first_mistake(error)})"
                    raise DatasetError(str(path), what, parquet.CURE) from error

    def events(self) -> list[Event]:
        """Events of the run, in order of arrival."""
        return [
            Event(entry["t_ns"], entry["what"], entry.get("details", {}))
            for entry in self.log()
            if entry.get("level") == "event"
        ]

    def artefacts(self) -> list[Path]:
        """Files kept beside the samples."""
        folder = self.folder / "artefacts"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def as_json(self) -> dict[str, Any]:
        """What `run.json` holds."""
        return {
            "schema": SCHEMA,
            "run": self.name,
            "point": self.point,
            "levels": dict(self.levels),
            "repetition": self.repetition,
            "attempt": self.attempt,
            "seed": self.seed,
            "plan_identity": self.plan_identity,
            "backend": self.backend,
            "link_realisation": self.link_realisation,
            "status": self.status,
            "reasons": list(self.reasons),
            **({"blame": self.blame} if self.blame else {}),
            "marks": {
                name: {"t_ns": mark.t_ns, "bound_ns": mark.bound_ns} for name, mark in self.marks.items()
            },
            "windows": {name: list(window) for name, window in self.windows.items()},
            "clocks": dict(self.clocks),
            "censored": list(self.censored),
            "started": self.started,
            "timings": dict(self.timings),
            "conditions": dict(self.conditions),
            "rows": dict(self.rows),
            **({"overrides": dict(self.overrides)} if self.overrides else {}),
            "realised": {
                "objects": {
                    path: {
                        "intended": dict(thing.intended),
                        "applied": dict(thing.applied),
                        "read_back": dict(thing.read_back),
                        "by": thing.by,
                    }
                    for path, thing in self.realised.objects.items()
                },
                "versions": dict(self.realised.versions),
            },
        }

    @classmethod
    def load(cls, folder: Path) -> RunRecord:
        """From a run's folder. DatasetError when `run.json` is missing, broken or of another major."""
        path = folder / "run.json"
        try:
            text = read_bounded(path, MAX_BYTES)
            file = RunFile.model_validate_json(text)
        except (OSError, ValidationError) as error:
            what = first_mistake(error) if isinstance(error, ValidationError) else error.strerror
            raise DatasetError(str(path), f"is damaged ({what})", parquet.CURE) from error
        if file.schema_.rpartition("/")[2] != SCHEMA.rpartition("/")[2]:
            raise DatasetError(
                str(path), f"has schema {file.schema_[:80]}, this is virtlab for {SCHEMA}", NEWER
            )
        key = RunKey(file.point, file.repetition, file.attempt)
        if not file.run == key.name == folder.name:
            raise DatasetError(str(path), f"is of run {key.name}, not of the run that its folder names", MOVE)
        record = cls._of(folder, key, file)
        record.__dict__["file_digest"] = hashlib.sha256(text).digest()
        return record

    @classmethod
    def _of(cls, folder: Path, key: RunKey, file: RunFile) -> RunRecord:
        realised = file.realised
        return cls(
            folder=folder,
            key=key,
            levels=file.levels,
            seed=file.seed,
            plan_identity=file.plan_identity,
            backend=file.backend,
            status=file.status,
            reasons=file.reasons,
            marks={name: Mark(mark.t_ns, mark.bound_ns) for name, mark in file.marks.items()},
            windows=file.windows,
            clocks=file.clocks,
            censored=file.censored,
            blame=file.blame,
            realised=Realised(
                {
                    path: RealisedObject(thing.intended, thing.applied, thing.read_back, thing.by)
                    for path, thing in realised.objects.items()
                },
                realised.versions,
            ),
            link_realisation=file.link_realisation,
            timings=file.timings,
            started=file.started,
            conditions=file.conditions,
            rows=file.rows,
            overrides=file.overrides,
        )


MOVE = "move that folder away"


class _Entry(BaseModel):
    """A line of the log, as far as anything reads it."""

    model_config = ConfigDict(extra="allow")

    level: str
    what: str
    t_ns: Time = 0
    details: dict[str, Any] = {}

    @model_validator(mode="after")
    def _events_have_a_time(self) -> Self:
        if self.level == "event" and "t_ns" not in self.model_fields_set:
            raise ValueError("an event without t_ns")
        return self


LINE_MAX_BYTES = 16 << 20
NEWER = "install the virtlab that wrote it, or a newer one"
