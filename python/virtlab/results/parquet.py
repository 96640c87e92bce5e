"""Columns to and from Parquet, by DuckDB straight from numpy.

A block's columns are cast to the types of their schema, so an empty file has the same types as a full one. A
column that an older file lacks comes back wholly masked: missing is not zero.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtlab.errors import AgentError, DatasetError
from virtlab.plan.blocks import BLOCKS, BlockSchema
from virtlab.results import small_parquet

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

SQL_TYPES = {"i64": "BIGINT", "i32": "INTEGER", "f64": "DOUBLE", "name": "VARCHAR"}
_local = threading.local()


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str | Path) -> str:
    """An SQL string."""
    return "'" + str(value).replace("'", "''") + "'"


def connect() -> duckdb.DuckDBPyConnection:
    """A new DuckDB in memory that fetches nothing from the network."""
    import duckdb

    return duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's DuckDB, kept because opening one costs more than a small query."""
    if not hasattr(_local, "connection"):
        _local.connection = connect()
        _local.connection.execute("SET threads = 1")
    return _local.connection  # type: ignore[no-any-return]


@functools.cache
def _dtypes() -> dict[str, Any]:
    import numpy as np

    return {"i64": np.int64, "i32": np.int32, "f64": np.float64, "name": np.object_}


def schema_of(schema: str, stream: str) -> BlockSchema:
    """The schema by its id. AgentError when there is none: a backend sent what virtlab does not know."""
    if schema not in BLOCKS:
        raise AgentError(
            stream, f"sent a block of unknown schema '{schema}'", "rebuild the agent: make agent"
        )
    return BLOCKS[schema]


def checked(stream: str, schema: BlockSchema, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The block's columns in order and of the schema's types, copied. AgentError when they do not fit it."""
    import numpy as np

    if set(columns) != set(schema.columns):
        wrong = ", ".join(sorted(set(columns) ^ set(schema.columns)))
        raise AgentError(stream, f"a block of {schema.id} has other columns than its schema ({wrong})")
    fitting: dict[str, NDArray[Any]] = {}
    for name, dtype in schema.columns.items():
        given = np.asarray(columns[name])
        wanted = _dtypes()[dtype]
        if given.ndim != 1:
            raise AgentError(stream, f"column {name} of {schema.id} is not one-dimensional")
        if dtype != "name" and given.size and not np.can_cast(given.dtype, wanted, casting="same_kind"):
            raise AgentError(stream, f"column {name} of {schema.id} holds {given.dtype}, not {dtype}")
        fitting[name] = given.astype(wanted, copy=True)
    if len({column.size for column in fitting.values()}) != 1:
        raise AgentError(stream, f"columns of a block of {schema.id} differ in length")
    return fitting


def memory_bytes(columns: Mapping[str, NDArray[Any]]) -> int:
    """About how much memory a block holds; a name counts as 64 B."""
    return sum(c.nbytes + (64 * c.size if c.dtype == object else 0) for c in columns.values())


def _copy(select: str, path: Path, compression: str = "zstd") -> None:
    connection().execute(f"COPY ({select}) TO {text(path)} (FORMAT parquet, COMPRESSION {compression})")


def write(
    path: Path,
    schema: BlockSchema,
    blocks: Sequence[Mapping[str, NDArray[Any]]],
    *,
    compression: str = "zstd",
) -> dict[str, NDArray[Any]]:
    """Writes blocks, in order, as one Parquet file; returns its columns."""
    import numpy as np

    merged = {name: np.concatenate([block[name] for block in blocks]) for name in schema.columns}
    if compression == "zstd" and 0 < len(next(iter(merged.values()))) <= small_parquet.MOST_ROWS:
        small_parquet.write(path, schema, merged)
        return merged
    fields = ", ".join(
        f"CAST({quoted(n)} AS {SQL_TYPES[d]}) AS {quoted(n)}" for n, d in schema.columns.items()
    )
    database = connection()
    database.register("virtlab_block", merged)
    try:
        _copy(f"SELECT {fields} FROM virtlab_block", path, compression)  # noqa: S608 - names come from BLOCKS
    finally:
        database.unregister("virtlab_block")
    return merged


def merge(parts: Sequence[Path], path: Path) -> None:
    """Joins Parquet files, in order, into one, without holding them in memory."""
    _copy(f"SELECT * FROM read_parquet([{', '.join(text(part) for part in parts)}])", path)  # noqa: S608


def empty(schema: BlockSchema) -> dict[str, NDArray[Any]]:
    """No rows of a schema."""
    import numpy as np

    return {name: np.empty(0, dtype=_dtypes()[dtype]) for name, dtype in schema.columns.items()}


def read(
    path: Path, schema: BlockSchema | None, where: str, wanted: Sequence[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Columns of a file in row order (`wanted`, or all); what the schema has and the file lacks is wholly
    masked.

    DatasetError when it is no readable Parquet file; KeyError when a wanted column is none of the schema.
    """
    import duckdb
    import numpy as np

    source = f"read_parquet({text(path)})"
    try:
        there = [row[0] for row in connection().execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]  # noqa: S608
        known = list(schema.columns) if schema is not None else []
        names = (
            list(wanted) if wanted is not None else [*known, *(name for name in there if name not in known)]
        )
        present = [name for name in names if name in there]
        if present:
            fields = ", ".join(quoted(name) for name in present)
            found = connection().execute(f"SELECT {fields} FROM {source}").fetchnumpy()  # noqa: S608
            size = len(found[present[0]])
        else:
            (size,) = connection().execute(f"SELECT count(*) FROM {source}").fetchall()[0]  # noqa: S608
    except duckdb.Error as error:
        raise DatasetError(
            where, f"the samples cannot be read ({str(error).splitlines()[0]})", CURE
        ) from error
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        if name in there:
            columns[name] = found[name]
        elif schema is not None:
            dtype = _dtypes()[schema.columns[name]]
            columns[name] = np.ma.array(np.zeros(size, dtype=dtype), mask=True)
    return columns


CURE = "move that run's folder away and give the same command again: it is measured again"
