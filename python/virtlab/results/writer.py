"""Writes one run: blocks are held in bounded memory, spilled to part files beyond it, joined when the run is
committed.

Nothing of the run is in the dataset until `commit`: everything lies in `runs/.partial-...`, is made durable
there, and appears by one rename. A writer that is left without commit takes its folder with it; one that was
killed leaves a `.partial-` folder that the next writer of the dataset sweeps.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from virtlab.errors import AgentError, MachineError
from virtlab.lazy import NDArray
from virtlab.plan.backend import Columns, Event, Outcome, Realised
from virtlab.plan.model import Plan
from virtlab.results import files, parquet
from virtlab.results.group import Group
from virtlab.results.record import RunKey, RunRecord, Stream

if TYPE_CHECKING:
    from pathlib import Path


MEMORY_BYTES = 64 * 2**20
PARTIAL = ".partial-"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,127}\Z")


class OverLimitError(MachineError):
    """A run would keep more than its file allows: `limits: {disk: ...}`."""


def _file_name(name: str, noun: str) -> str:
    """A name that came from a backend, fit to be a file's: what a guest sends never leaves its folder."""
    if not _FILE_NAME.match(name):
        raise AgentError(name[:80], f"is not a valid name for {noun}", "use letters, digits and _ . : @ + -")
    return name


def made_aside(runs: Path, name: str) -> Path:
    """A new folder for the files of a run until it is whole. No one can have put a link there: its name is random, and
    it did not exist."""
    path = runs / f"{PARTIAL}{name}-{os.getpid()}-{secrets.token_hex(8)}"
    path.mkdir(parents=True)
    return path


class RunWriter:
    """The Sink of one run (`virtlab.plan.Sink`), and its commit. A context manager."""

    def __init__(
        self, runs: Path, record: RunRecord, plan: Plan, *, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._runs = runs
        self._record = record
        self._partial = made_aside(runs, record.name)
        self._memory_bytes = memory_bytes
        self._held: dict[Stream, list[dict[str, NDArray[Any]]]] = {}
        self._held_bytes = 0
        self._parts: dict[Stream, list[Path]] = {}
        self._rows: dict[Stream, int] = {}
        self._plan = plan
        self._stored: dict[Stream, dict[str, NDArray[Any]]] = {}
        self._started_ns = time.monotonic_ns()
        self._done = False
        self.holds = False  # whether the record has Plan and samples at hand
        self.group: Group | None = None  # with which the run is committed, if not alone
        self.overrides: dict[str, Any] = {}  # of the pass that is kept, where a search chose them
        (self._partial / "samples").mkdir()
        (self._partial / "plan.json").write_text(plan.canonical() + "\n", encoding="utf-8")
        self._log = (self._partial / "log.jsonl").open("w", encoding="utf-8")

    @property
    def key(self) -> RunKey:
        """The key of the run."""
        return self._record.key

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        """Takes rows of one schema; the caller may reuse its arrays.

        AgentError when they do not fit the schema.
        """
        _file_name(stream, "a stream")
        block = parquet.checked(stream, parquet.schema_of(schema, stream), columns)
        key = Stream(stream, schema)
        self._held.setdefault(key, []).append(block)
        self._rows[key] = self._rows.get(key, 0) + len(next(iter(block.values())))
        self._held_bytes += parquet.memory_bytes(block)
        if self._held_bytes > self._memory_bytes:
            self._spill()

    def event(self, event: Event) -> None:
        """Keeps one event in the log."""
        self._entry(
            {"level": "event", "t_ns": event.t_ns, "what": event.what, "details": dict(event.details)}
        )

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """Keeps a file, chunk by chunk; a second one of the same name gets a number."""
        folder = self._partial / "artefacts"
        folder.mkdir(exist_ok=True)
        path = folder / _file_name(name, "an artefact")
        number = 1
        while path.exists():
            number += 1
            path = folder / f"{name}.{number}"
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)

    def log(self, level: str, text: str, **details: Any) -> None:
        """Adds a line to the run's structured log."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        self._entry({"level": level, "t": now, "what": text, **({"details": details} if details else {})})

    def _entry(self, entry: Mapping[str, Any]) -> None:
        self._log.write(files.one_line(entry) + "\n")

    def _spill(self) -> None:
        spool = self._partial / "spool"
        spool.mkdir(exist_ok=True)
        for key, blocks in self._held.items():
            parts = self._parts.setdefault(key, [])
            path = spool / f"{key.file_name}.{len(parts):05d}"
            schema = parquet.schema_of(key.schema, key.stream)
            parquet.write(path, schema, blocks, compression="uncompressed")  # compressed once, when joined
            parts.append(path)
        self._held.clear()
        self._held_bytes = 0

    def _store_samples(self) -> None:
        if self._parts:
            self._spill()
        for key, blocks in self._held.items():
            schema = parquet.schema_of(key.schema, key.stream)
            self._stored[key] = parquet.write(self._partial / "samples" / key.file_name, schema, blocks)
        for key, parts in self._parts.items():
            parquet.merge(parts, self._partial / "samples" / key.file_name)
        files.remove_tree(self._partial / "spool")
        self._held.clear()

    def commit(
        self, outcome: Outcome, realised: Realised, timings: Mapping[str, int] | None = None
    ) -> RunRecord:
        """Makes the run durable and part of the dataset; on return it survives a power loss, unless it is one of a
        `group`.

        Where `holds` is set the record has what is still in memory of its samples at hand, until `release` is called.
        OverLimitError when the run would keep more than its Plan allows; nothing of it is in the dataset then.
        """
        storing_ns = time.monotonic_ns()
        self._store_samples()
        self._log.close()
        self._keep_to_limit()
        now_ns = time.monotonic_ns()
        record = replace(
            self._record,
            folder=self._runs / self._record.name,
            status=outcome.status,
            reasons=tuple(outcome.reasons),
            marks=outcome.marks,
            windows=outcome.windows,
            clocks=outcome.clocks,
            censored=tuple(outcome.censored),
            blame=outcome.blame,
            overrides=dict(self.overrides),
            realised=realised,
            link_realisation=realised.link_realisation(),
            timings={**(timings or {}), "store": now_ns - storing_ns, "total": now_ns - self._started_ns},
            rows={key.file_name.removesuffix(".parquet"): rows for key, rows in sorted(self._rows.items())},
        )
        text = files.as_json_by_line(record.as_json()).encode()
        (self._partial / "run.json").write_bytes(text)
        if self.group is None:
            files.move_in([(self._partial, record.folder)])
        else:
            self.group.add(self._partial, record.folder)
        self._done = True
        if self.holds:
            record.hold(self._plan, self._stored, text)
        return record

    def _keep_to_limit(self) -> None:
        limit = self._plan.limits.disk_bytes
        if limit is None:
            return
        files_kept = [*self._partial.glob("samples/*"), *self._partial.glob("artefacts/*")]
        kept = sum(path.stat().st_size for path in files_kept)
        if kept > limit:
            what = f"the run would keep {kept} B of samples and artefacts, and the file allows {limit} B"
            raise OverLimitError("limits.disk", what, "allow more, or keep less with 'collect'")

    def abandon(self) -> None:
        """Drops the run; harmless after commit."""
        if not self._done:
            with contextlib.suppress(OSError):  # a full disk: what was to be written goes anyway
                self._log.close()
            files.remove_tree(self._partial)
            self._done = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()
