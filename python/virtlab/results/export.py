"""Out of a dataset, into files that every other program reads: CSV with a header, a JSON array, or Parquet.

DuckDB streams rows from Parquet to the file, so an export of any size needs little memory. A value that is
missing is an empty field in CSV and null in JSON and Parquet, never zero. Without a path rows go to standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from virtlab.errors import ExperimentError
from virtlab.folders import Folder, is_open_already
from virtlab.lazy import duckdb, np
from virtlab.plan.blocks import BLOCKS
from virtlab.results.dataset import Dataset
from virtlab.results.parquet import connect, quoted, text

Format = Literal["csv", "json", "parquet"]
FORMATS: Mapping[str, str] = {
    "csv": "FORMAT csv, HEADER true",
    "json": "FORMAT json, ARRAY true",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
CHUNK_BYTES = 1 << 16
# ruff: noqa: S608 - the SQL is built of quoted names and strings


class StandardOutputError(OSError):
    """Standard output takes no more, for another reason than that its reader has seen enough."""


def kinds(dataset: Dataset, streams: Collection[str] = ()) -> list[str]:
    """Kinds of samples (`rtt`, `packet`, ...) that a dataset holds, of some streams or of all."""
    found = {
        entry.schema.partition("/")[0]
        for record in dataset.runs()
        for entry in record.streams()
        if entry.schema in BLOCKS and (not streams or entry.stream in streams)
    }
    return sorted(found)


def write_samples(
    dataset: Dataset,
    kind: str,
    path: Path | None,
    form: Format,
    *,
    streams: Collection[str] = (),
    status: str | None = "ok",
) -> None:
    """All samples of a kind with run, point and factor levels, of some streams or of all; `status` None: of every
    run.
    """
    known = [schema.partition("/")[0] for schema in BLOCKS]
    if kind not in known:
        raise ExperimentError("--kind", f"'{kind}' is not a kind of sample", f"use one of {', '.join(known)}")
    conditions = [f"stream IN ({', '.join(map(text, streams))})"] if streams else []
    conditions += [f"status = {text(status)}"] if status is not None else []
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    with dataset.database() as db:
        _copy(db, f"SELECT * FROM {quoted(kind)}{where}", path, form)


def write_runs(dataset: Dataset, path: Path | None, form: Format) -> None:
    """One row per run and attempt: point, levels, status, seed, realisation, time."""
    with dataset.database() as db:
        _copy(db, "SELECT * FROM runs ORDER BY run", path, form)


def write_rows(
    columns: Mapping[str, str], rows: Sequence[Sequence[Any]], path: Path | None, form: Format
) -> None:
    """Rows that were computed; `columns` maps name to SQL type."""
    with connect() as db:
        db.execute(
            f"CREATE TABLE t ({', '.join(f'{quoted(name)} {kind}' for name, kind in columns.items())})"
        )
        if rows:
            arrays = {
                f"c{index}": np.array([row[index] for row in rows], dtype=object)
                for index in range(len(columns))
            }
            masked = {
                name: np.ma.array(values, mask=[value is None for value in values])
                for name, values in arrays.items()
            }
            db.register("given", masked)
            db.execute(f"INSERT INTO t SELECT {', '.join(masked)} FROM given")
        _copy(db, "SELECT * FROM t", path, form)


def _copy(db: duckdb.DuckDBPyConnection, select: str, path: Path | None, form: Format) -> None:
    try:
        with placed(path) as place:
            db.execute(f"COPY ({select}) TO {text(place)} ({FORMATS[form]}, USE_TMP_FILE false)")
    except duckdb.IOException as error:
        if '"errno":"32"' in str(error):
            return  # the reader of a pipe has seen enough, as in `virtlab export ... | head`
        raise ExperimentError(
            str(path), f"cannot be written ({str(error).splitlines()[0]})", "name another file"
        ) from error


@contextmanager
def placed(path: Path | None) -> Iterator[str]:
    """The file to write for a path, or for standard output. ExperimentError where it cannot be written."""
    try:
        with _place(path) as place:
            yield place
    except (StandardOutputError, BrokenPipeError):
        raise
    except OSError as error:
        raise ExperimentError(
            str(path), f"cannot be written ({error.strerror})", "name another file"
        ) from error


@contextmanager
def _place(path: Path | None) -> Iterator[str]:
    """The file that DuckDB writes: one that takes the name given when it is whole, so no link of that name says where
    it goes; a pipe, a device or a descriptor that is named; or a pipe to standard output, which is not opened by its
    name: where it is a file that would empty it of what was said before.
    """
    if path is not None and is_open_already(path):
        yield str(path)
        return
    if path is not None:
        with Folder.open(path.parent) as folder, folder.writing(path.name) as file:
            yield f"/dev/fd/{file.fileno()}"
        return
    reading, writing = os.pipe()
    sys.stdout.flush()
    troubles: list[OSError] = []
    passing = Thread(target=_pass_on, args=(reading, troubles), name="virtlab-export")
    passing.start()
    try:
        yield f"/dev/fd/{writing}"
    finally:
        os.close(writing)
        passing.join()
        if troubles:
            raise StandardOutputError(troubles[0].errno, troubles[0].strerror, "standard output")


def _pass_on(reading: int, troubles: list[OSError]) -> None:
    """Bytes to standard output as they come; when that takes no more, the end of the pipe says so to the writer."""
    with os.fdopen(reading, "rb", buffering=0) as source:
        try:
            while chunk := source.read(CHUNK_BYTES):
                written = 0
                while written < len(chunk):
                    written += os.write(1, chunk[written:])
        except BrokenPipeError:
            return
        except OSError as error:
            troubles.append(error)
