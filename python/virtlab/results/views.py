"""One DuckDB over a whole dataset: a view per kind of sample, each row with its run, point, factor levels and
status.

`runs` has one row per run (and attempt). `rtt`, `packet`, `sent`, `burst`, `interval`, `transaction`,
`series` and `counter` hold all samples of that schema. A factor is a column of its own name; one that would
hide another column is called `factor_NAME`. A kind of sample that no run has is an empty view, so a query
works on every dataset.
"""

# ruff: noqa: S608 - the SQL is built of quoted names and strings (`quoted`, `file_list`)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from virtlab.errors import DatasetError
from virtlab.lazy import duckdb
from virtlab.plan.blocks import BLOCKS, BlockSchema
from virtlab.results.parquet import (
    CURE,
    PARQUET_TYPES,
    SQL_TYPES,
    connect,
    file_list,
    is_older,
    quoted,
    rows_of,
    unreadable,
)
from virtlab.results.record import RunRecord

RUN_COLUMNS = {
    "run": "VARCHAR", "point": "INTEGER", "repetition": "INTEGER", "attempt": "INTEGER", "status": "VARCHAR",
    "seed": "BIGINT", "backend": "VARCHAR", "link_realisation": "VARCHAR", "plan_identity": "VARCHAR",
    "started": "VARCHAR", "total_ns": "BIGINT", "reasons": "VARCHAR",
}  # fmt: skip
SHARED = ("run", "point", "repetition", "attempt", "status", "link_realisation")


def factor_columns(records: Iterable[RunRecord]) -> dict[str, str]:
    """Factor -> its column."""
    taken = {name.lower() for name in RUN_COLUMNS} | {"stream", "folder"}
    taken |= {column for schema in BLOCKS.values() for column in schema.columns}
    factors = sorted({factor for record in records for factor in record.levels})
    return {factor: f"factor_{factor}" if factor.lower() in taken else factor for factor in factors}


def _run_row(record: RunRecord, factors: Sequence[str]) -> list[Any]:
    return [
        record.name, record.point, record.repetition, record.attempt, record.status, record.seed,
        record.backend, record.link_realisation, record.plan_identity, record.started,
        record.timings.get("total"), "; ".join(record.reasons),
        *(record.levels.get(factor) for factor in factors),
    ]  # fmt: skip


def _sample_view(schema_id: str, files: list[tuple[str, str, str]], columns: str) -> str:
    """SQL of the view over all files of a schema: (path, run, stream) each."""
    schema = BLOCKS[schema_id]
    name = quoted(schema_id.partition("/")[0])
    fields = ", ".join(
        f"CAST(s.{quoted(column)} AS {SQL_TYPES[dtype]}) AS {quoted(column)}"
        for column, dtype in schema.columns.items()
    )
    nothing = ", ".join(f"CAST(NULL AS {SQL_TYPES[d]}) AS {quoted(c)}" for c, d in schema.columns.items())
    rows = f"SELECT {nothing}, CAST(NULL AS VARCHAR) AS filename WHERE false"
    if files:
        source = rows_of((path for path, _, _ in files), "union_by_name = true", "filename = true")
        # The empty first part gives a column that every file lacks (all are older) its place and type.
        rows += f" UNION ALL BY NAME SELECT * FROM {source}"
    return (
        f"CREATE VIEW {name} AS SELECT {columns}, f.stream, {fields} FROM ({rows}) s"
        " JOIN sample_files f ON f.path = s.filename JOIN runs r ON r.run = f.run"
    )


def database(records: Sequence[RunRecord]) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory with the views; the caller closes it."""
    factors = factor_columns(records)
    db = connect()
    types = RUN_COLUMNS | dict.fromkeys(factors.values(), "VARCHAR")
    db.execute(f"CREATE TABLE runs ({', '.join(f'{quoted(name)} {kind}' for name, kind in types.items())})")
    db.execute("CREATE TABLE sample_files (path VARCHAR, run VARCHAR, stream VARCHAR)")
    rows = [_run_row(record, list(factors)) for record in records]
    if rows:
        db.executemany(f"INSERT INTO runs VALUES ({', '.join('?' * len(types))})", rows)
    files: dict[str, list[tuple[str, str, str]]] = {schema: [] for schema in BLOCKS}
    for record in records:
        for stream in record.streams():
            if stream.schema in files:
                path = str(record.folder / "samples" / stream.file_name)
                files[stream.schema].append((path, record.name, stream.stream))
    every = [entry for entries in files.values() for entry in entries]
    if every:
        db.executemany("INSERT INTO sample_files VALUES (?, ?, ?)", every)
    _check_rows(db, records, [path for path, _, _ in every])
    columns = ", ".join(f"r.{quoted(name)}" for name in (*SHARED, *factors.values()))
    for schema, entries in files.items():
        _check_columns(db, BLOCKS[schema], [path for path, _, _ in entries])
        db.execute(_sample_view(schema, entries, columns))
    return db


def _check_rows(db: duckdb.DuckDBPyConnection, records: Sequence[RunRecord], paths: Sequence[str]) -> None:
    """Every file has the rows that its run's record names. DatasetError when one has not."""
    if not paths:
        return
    told = {
        str(record.folder / "samples" / f"{name}.parquet"): rows
        for record in records
        for name, rows in record.rows.items()
    }
    query = f"SELECT file_name, num_rows FROM parquet_file_metadata({file_list(paths)})"
    for path, rows in db.execute(query).fetchall():
        if rows != told.get(path, rows):
            raise DatasetError(path, f"holds {rows} rows, run.json tells of {told[path]}", CURE)


def _check_columns(db: duckdb.DuckDBPyConnection, schema: BlockSchema, paths: Sequence[str]) -> None:
    """Every file has columns of that schema, of its types. DatasetError when one has not."""
    if not paths:
        return
    query = f"SELECT file_name, name, type FROM parquet_schema({file_list(paths)}) WHERE coalesce(num_children, 0) = 0"
    found: dict[str, dict[str, str]] = {path: {} for path in paths}
    for path, name, kind in db.execute(query).fetchall():
        found[path][name] = kind
    for path, columns in found.items():
        if not is_older(schema, columns):
            raise DatasetError(path, f"has other columns than samples of {schema.id}", CURE)
        for name, kind in columns.items():
            if kind != PARQUET_TYPES.get(schema.columns.get(name, ""), kind):
                raise DatasetError(path, f"column {name} is not of its type", CURE)


def unreadable_samples(records: Iterable[RunRecord], error: Exception) -> DatasetError:
    """What a query failed of: the first file that cannot be read by itself, else what DuckDB said."""
    for record in records:
        for stream in record.streams():
            try:
                record.samples(stream.stream, stream.schema)
            except DatasetError as found:
                return found
    return unreadable("the dataset", error)
