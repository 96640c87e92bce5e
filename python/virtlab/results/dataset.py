"""A dataset: the folder of one experiment's results, as ARCHITECTURE.md lays it out.

Many may read it, one process writes it (a lock on `.lock`). Runs appear in it whole or not at all, so reading
needs no lock and a crash leaves nothing half-done that could be taken for a result.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from virtlab import open_files
from virtlab.errors import DatasetError, MachineError
from virtlab.folders import Folder, only_files_and_folders, read_bounded
from virtlab.lazy import NDArray, duckdb
from virtlab.plan.backend import Status
from virtlab.plan.model import Plan
from virtlab.results import files, provenance
from virtlab.results.lock import FileLock, Holder
from virtlab.results.manifest import MINOR, Manifest
from virtlab.results.parquet import failures
from virtlab.results.record import MOVE, NEWER, RunKey, RunRecord
from virtlab.results.typed import MAX_BYTES
from virtlab.results.views import database, unreadable_samples
from virtlab.results.writer import MEMORY_BYTES, PARTIAL, RunWriter, made_aside

_OWN = frozenset({".lock", "experiment.yaml", "runs", "report"})


def now() -> str:
    """This instant, UTC, ISO 8601 to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def digest(experiment_text: str) -> str:
    """Hex SHA-256 of an experiment file."""
    return hashlib.sha256(experiment_text.encode()).hexdigest()


class Dataset:
    """A dataset on disk: `create` or `open` it. A context manager; leaving it gives up the writer's lock."""

    def __init__(self, path: Path, manifest: Manifest, lock: FileLock | None) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock
        self._records: dict[str, RunRecord] = {}
        self._assists = False

    @classmethod
    def create(
        cls,
        path: Path | str,
        experiment_text: str,
        *,
        name: str,
        seed: int = 0,
        backend: str = "testbed",
        fingerprint: Mapping[str, str] | None = None,
        anonymise: bool = False,
        made_elsewhere: Mapping[str, str] | None = None,
    ) -> Self:
        """A new dataset, open for writing. `made_elsewhere`: what is known of where its runs were made, not this
        machine.

        DatasetError when the folder holds anything that is not half of one.
        """
        path = Path(path)
        if (path / "manifest.json").exists():
            raise DatasetError(str(path), "is a dataset already", "open it, or name another folder")
        if path.is_dir():
            only_files_and_folders(path)
        if path.exists() and not (path.is_dir() and all(_is_ours(entry) for entry in path.iterdir())):
            raise DatasetError(
                str(path), "is in the way: it holds other things than a dataset", "name another folder"
            )
        try:
            (path / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in files.NO_ROOM:
                raise
            raise DatasetError(
                str(path), f"cannot be created ({error.strerror})", "name another folder"
            ) from error
        lock = _locked(path, name)
        try:
            files.write_durably(path / "experiment.yaml", experiment_text)
            manifest = Manifest(
                name=name,
                created=now(),
                backend=backend,
                seed=seed,
                experiment_sha256=digest(experiment_text),
                machine=provenance.machine(anonymous=anonymise) if made_elsewhere is None else made_elsewhere,
                conditions=provenance.conditions(anonymous=anonymise) if made_elsewhere is None else {},
                versions=provenance.versions(),
                fingerprint=provenance.without_names(fingerprint or {}, anonymous=anonymise),
                anonymous=anonymise,
            )
            files.write_durably(path / "manifest.json", files.as_json(manifest.as_json()))
            files.flush_folder(path.absolute().parent)
        except BaseException:
            lock.release()
            raise
        return cls(path, manifest, lock)

    @classmethod
    def open(cls, path: Path | str, *, writing: bool = False) -> Self:
        """An existing dataset; for writing, it is locked and leftovers of killed runs are swept.

        DatasetError when it is no dataset, damaged, of a newer schema, holds a link, pipe, socket or device, or
        (writing) when another process holds it.
        """
        path = Path(path)
        if not path.is_dir():
            raise DatasetError(
                str(path), "is not a dataset: there is no such folder", "name the folder of a dataset"
            )
        only_files_and_folders(path)
        manifest = Manifest.load(path / "manifest.json")
        if not writing:
            return cls(path, manifest, None)
        if manifest.minor > MINOR:
            raise DatasetError(
                str(path), f"was written by a newer virtlab (minor schema {manifest.minor})", NEWER
            )
        lock = _locked(path, manifest.name)
        (path / "runs").mkdir(exist_ok=True)
        for leftover in (path / "runs").glob(f"{PARTIAL}*"):
            files.remove_tree(leftover)
        for leftover in path.glob(".*.partial-*"):
            files.remove_tree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
        return cls(path, manifest, lock)

    @classmethod
    def assist(cls, path: Path | str) -> Self:
        """A dataset that another process has open for writing, to add runs to on its behalf.

        An assistant was started by that process, makes no run that another one makes, and ends with it.
        """
        dataset = cls(Path(path), Manifest.load(Path(path) / "manifest.json"), None)
        dataset._assists = True
        return dataset

    @staticmethod
    def is_one(path: Path | str) -> bool:
        """Whether the folder is a dataset, damaged or not."""
        return (Path(path) / "manifest.json").exists()

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return self.manifest.name

    @property
    def experiment_text(self) -> str:
        """The experiment file as it was at creation. DatasetError when it was changed since."""
        path = self.path / "experiment.yaml"
        try:
            text = read_bounded(path, MAX_BYTES).decode()
        except (OSError, ValueError) as error:
            raise DatasetError(
                str(path), "cannot be read", "restore it from a copy, or name a new dataset"
            ) from error
        if digest(text) != self.manifest.experiment_sha256:
            raise DatasetError(
                str(path), "was changed inside the dataset", "restore it, or name a new dataset"
            )
        return text

    @contextmanager
    def folder(self, *below: str, make: bool = False) -> Iterator[Folder]:
        """A folder of the dataset, opened without following a link."""
        with Folder.open(self.path, *below, make=make) as folder:
            yield folder

    @property
    def report_folder(self) -> Path:
        """The folder of the report."""
        return self.path / "report"

    def begin_run(
        self,
        key: RunKey,
        plan: Plan,
        *,
        backend: str | None = None,
        memory_bytes: int = MEMORY_BYTES,
    ) -> RunWriter:
        """A writer for one run; it becomes part of the dataset when committed."""
        assert self._lock is not None or self._assists, (
            "a dataset is written only by who opened it for writing"
        )
        if (self.path / "runs" / key.name).exists():
            raise DatasetError(
                str(self.path / "runs" / key.name), "is there already", "a run is never overwritten"
            )
        record = RunRecord(
            folder=self.path / "runs" / key.name,
            key=key,
            levels=dict(plan.point),
            seed=plan.seed,
            plan_identity=plan.identity(),
            backend=backend or self.manifest.backend,
            status="failed",
            started=now(),
            conditions=provenance.conditions(anonymous=self.manifest.anonymous)
            if self.manifest.conditions
            else {},
        )
        return RunWriter(self.path / "runs", record, plan, memory_bytes=memory_bytes)

    def salvage(self, key: RunKey) -> RunRecord | None:
        """The run of a lost writer: made durable if it is in the dataset, else what is left of it is swept."""
        folder = self.path / "runs" / key.name
        if not folder.is_dir():
            for leftover in folder.parent.glob(f"{PARTIAL}{key.name}-*"):
                files.remove_tree(leftover)
            return None
        files.flush_folder(folder.parent)
        return RunRecord.load(folder)

    def take(self, key: RunKey, content: Mapping[str, bytes]) -> RunRecord:
        """Takes in a run that was made elsewhere, by its files' names; whole and durable, or not at all."""
        partial = made_aside(self.path / "runs", key.name)
        try:
            for name, text in content.items():
                path = partial / name
                if not path.resolve().is_relative_to(partial.resolve()):
                    raise DatasetError(str(path), "lies outside its run", "see who sent it")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
            files.move_in([(partial, self.path / "runs" / key.name)])
        except BaseException:
            files.remove_tree(partial)
            raise
        return RunRecord.load(self.path / "runs" / key.name)

    def note(self, record: RunRecord) -> None:
        """Takes note of a run that a worker has committed, so that it need not be read."""
        self._records[record.name] = record

    def runs(
        self, status: Status | Iterable[Status] | None = None, *, point: int | None = None
    ) -> list[RunRecord]:
        """Finished runs by point, repetition, attempt; only those of the given status or statuses, or of one point.

        DatasetError when one is damaged.
        """
        known = len(self._records)
        wanted = {status} if isinstance(status, str) else None if status is None else set(status)
        records = []
        of = "" if point is None else RunKey(point, 0, 0).name.partition("-")[0] + "-"
        for name in self._run_names():
            if not name.startswith(of):
                continue
            if name not in self._records:
                self._records[name] = RunRecord.load(self.path / "runs" / name)
            record = self._records[name]
            if wanted is None or record.status in wanted:
                records.append(record)
        if len(self._records) != known:
            _independent(self._records.values())
        return sorted(records, key=lambda record: record.key)

    def _run_names(self) -> list[str]:
        folder = self.path / "runs"
        if not folder.is_dir():
            return []
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name not in self._records:
                    if name.startswith("."):
                        continue
                    if not _is_run(name):
                        raise DatasetError(entry.path, "does not belong in a dataset", "move it away")
                found.append(name)
        return found

    def run(self, name: str) -> RunRecord:
        """One run by its name. DatasetError if it does not exist."""
        if not (self.path / "runs" / name).is_dir():
            raise DatasetError(
                str(self.path), f"has no run '{name}'", "`virtlab export --what runs` lists them"
            )
        return RunRecord.load(self.path / "runs" / name)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB with views `runs`, `rtt`, `packet`, `sent`, `burst`, `interval`, `transaction`, `series`,
        `counter`.
        """
        return database(self.runs())

    @contextmanager
    def database(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """`connect` for a while. DatasetError when samples that it asks for cannot be read."""
        records = self.runs()
        open_files.allow(open_files.OWN + sum(len(record.rows or record.streams()) for record in records))
        try:
            with database(records) as db:
                yield db
        except failures() as error:
            if open_files.ran_out(error):
                what = f"reading {len(records)} runs together opens more files than are allowed"
                raise MachineError(str(self.path), what, open_files.cure()) from error
            raise unreadable_samples(records, error) from error

    def query(self, sql: str, parameters: list[Any] | None = None) -> dict[str, NDArray[Any]]:
        """Columns of the answer to a query over `connect`'s views. DatasetError when DuckDB refuses it."""
        with self.database() as db:
            try:
                answer: dict[str, NDArray[Any]] = db.execute(sql, parameters or []).fetchnumpy()
            except (
                duckdb.ProgrammingError,
                duckdb.BinderException,
                duckdb.ParserException,
                duckdb.CatalogException,
            ) as error:
                raise DatasetError(
                    str(self.path), str(error).splitlines()[0], "see docs/reference/dataset.md"
                ) from error
        return answer

    def close(self) -> None:
        """Gives the writer's lock back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_run(name: str) -> bool:
    try:
        return RunKey.parse(name).name == name
    except ValueError:
        return False


def _independent(records: Iterable[RunRecord]) -> None:
    """Runs are independent only if each was planned and drawn for itself: DatasetError when one is a copy of
    another.
    """
    seen: dict[object, RunRecord] = {}
    for record in sorted(records, key=lambda each: each.key):
        place = record.point, record.repetition
        for what, sign in (("the Plan", record.plan_identity), ("the seed", record.seed)):
            other = seen.setdefault((what, sign), record)
            if (other.point, other.repetition) != place:
                raise DatasetError(
                    str(record.folder), f"has {what} of {other.name}: a copy is no independent run", MOVE
                )
        if record.status == "ok" and (other := seen.setdefault(place, record)) is not record:
            what = f"is a second good attempt at the repetition that {other.name} made"
            raise DatasetError(str(record.folder), what, MOVE)


def _is_ours(entry: Path) -> bool:
    """Part of a dataset whose creation was cut short: it has no runs yet."""
    if entry.name == "runs":
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name in _OWN or ".partial-" in entry.name


def _locked(path: Path, name: str) -> FileLock:
    lock = FileLock(path / ".lock")
    try:
        held = lock.acquire(Holder(os.getpid(), name, now()))
    except OSError as error:
        raise DatasetError(
            str(path), f"cannot be written ({error.strerror or error})", "name another dataset"
        ) from error
    if not held:
        raise DatasetError(
            str(path),
            f"is being written by {lock.holder() or 'another process'}",
            "wait for it, or name another dataset",
        )
    return lock
