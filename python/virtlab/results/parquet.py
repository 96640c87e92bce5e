"""Columns to and from Parquet, by DuckDB straight from numpy.

A block's columns are cast to the types of their schema, so an empty file has the same types as a full one. A
column that an older file lacks comes back wholly masked: missing is not zero.

A file may be anybody's: a few megabytes can hold hundreds of millions of rows. So it is read no further than the rows
that the run's record tells of, these are refused where they would take more than half of the machine's memory, DuckDB
has that bound too, and it writes nothing of its own into the working folder.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from virtlab.databases import OwnDatabase
from virtlab.errors import AgentError, DatasetError, MachineError
from virtlab.lazy import NDArray, duckdb, np
from virtlab.plan.blocks import BLOCKS, BlockSchema
from virtlab.results import small_parquet
from virtlab.units import show_count

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

SQL_TYPES = {"i64": "BIGINT", "i32": "INTEGER", "f64": "DOUBLE", "name": "VARCHAR"}
PARQUET_TYPES = {"i64": "INT64", "i32": "INT32", "f64": "DOUBLE", "name": "BYTE_ARRAY"}
YOUNGER_MOST = 2  # columns that a file of an older virtlab may lack: those of `operation/1`
PATTERN = re.compile(r"[*?\[]")
_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_own = OwnDatabase()


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str | Path) -> str:
    """An SQL string."""
    return "'" + str(value).replace("'", "''") + "'"


def file_list(paths: Iterable[str | Path]) -> str:
    """An SQL list of files, whose names mean themselves: DuckDB takes some letters of a path for a pattern.

    >>> print(file_list(["a[1]*.parquet"]))
    ['a[[]1][*].parquet']
    """
    plain = (text(PATTERN.sub(r"[\g<0>]", str(path))) for path in paths)
    return f"[{', '.join(plain)}]"


def rows_of(paths: Iterable[str | Path], *options: str) -> str:
    """SQL of a table of what Parquet files hold, and of nothing that a folder's name says, as `rtt_ns=5` does to
    DuckDB.
    """
    return f"read_parquet({', '.join((file_list(paths), 'hive_partitioning = false', *options))})"


@functools.cache
def memory_most_bytes() -> int:
    """Half of what this process may have: of the machine, of its control group, of its own limit."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    if resource is not None:
        found += [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit > 0]
    for place in _GROUP_LIMITS:
        with suppress(OSError, ValueError):
            found.append(int(Path(place).read_text(encoding="ascii")))
    return min(found) // 2


def connect() -> duckdb.DuckDBPyConnection:
    """A new DuckDB in memory that fetches nothing from the network, and spills nothing into the working folder."""
    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "memory_limit": f"{memory_most_bytes()}B",
        "temp_directory": "",
    }
    return duckdb.connect(":memory:", config=config)


def _connect_plain() -> duckdb.DuckDBPyConnection:
    database = connect()
    database.execute("SET threads = 1")
    database.execute("SET disabled_optimizers = 'late_materialization'")  # a LIMIT costs as much as a file
    return database


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's DuckDB, for small queries."""
    return _own.get(_connect_plain)


@functools.cache
def _dtypes() -> dict[str, Any]:
    return {"i64": np.int64, "i32": np.int32, "f64": np.float64, "name": np.object_}


def schema_of(schema: str, stream: str) -> BlockSchema:
    """The schema by its id. AgentError for an unknown one: a backend sent what virtlab does not know."""
    if schema not in BLOCKS:
        raise AgentError(
            stream, f"sent a block of unknown schema '{schema}'", "rebuild the agent: make agent"
        )
    return BLOCKS[schema]


def checked(stream: str, schema: BlockSchema, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The block's columns in order and of the schema's types, copied. AgentError when they do not fit it."""
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
    merged = (
        {name: blocks[0][name] for name in schema.columns} if len(blocks) == 1 else _joined(schema, blocks)
    )
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


def _joined(schema: BlockSchema, blocks: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([block[name] for block in blocks]) for name in schema.columns}


def merge(parts: Sequence[Path], path: Path) -> None:
    """Joins Parquet files, in order, into one, without holding them in memory."""
    _copy(f"SELECT * FROM {rows_of(parts)}", path)  # noqa: S608


def empty(schema: BlockSchema) -> dict[str, NDArray[Any]]:
    """No rows of a schema."""
    return {name: np.empty(0, dtype=_dtypes()[dtype]) for name, dtype in schema.columns.items()}


def read(
    path: Path,
    schema: BlockSchema | None,
    where: str,
    wanted: Sequence[str] | None = None,
    *,
    rows: int | None = None,
) -> dict[str, NDArray[Any]]:
    """Columns of a file in row order (`wanted`, or all of the schema; without a schema all of the file); what the
    schema has and the file lacks is wholly masked. `rows`: how many the run's record has, where it says so.

    DatasetError when it is no readable Parquet file, or has other rows or types; MachineError when its rows do not fit
    into memory; KeyError if the schema lacks a wanted column.
    """
    source = rows_of([path])
    names = list(wanted if wanted is not None else schema.columns if schema is not None else ())
    types = {name: schema.columns[name] for name in names} if schema is not None else {}
    try:
        size = rows if rows is not None else _count(source)
        _refuse_too_many(where, size, len(names))
        try:
            found = _select(names, source, size)
        except duckdb.BinderException:  # an older file, that lacks a column
            described = connection().execute(f"DESCRIBE SELECT * FROM {source}").fetchall()  # noqa: S608
            there = {row[0] for row in described}
            if schema is not None and not is_older(schema, there):
                raise DatasetError(where, f"has other columns than samples of {schema.id}", CURE) from None
            found = _select([name for name in names if name in there], source, size)
    except failures() as error:
        raise unreadable(where, error) from error
    got = len(next(iter(found.values())))
    if got != size:
        count = "more" if got > size else f"{got}"
        raise DatasetError(where, f"holds {count} rows, run.json tells of {size}", CURE)
    if wrong := [name for name in found if name in types and not _is_of(found[name], types[name])]:
        raise DatasetError(where, f"column {wrong[0]} is not of its type", CURE)
    lacking = {name: _dtypes()[dtype] for name, dtype in types.items() if name not in found}
    masked = {name: np.ma.array(np.zeros(size, dtype=dtype), mask=True) for name, dtype in lacking.items()}
    return {name: found[name] if name in found else masked[name] for name in names or found}


def _select(names: Sequence[str], source: str, rows: int) -> dict[str, NDArray[Any]]:
    """Columns of one row more than there should be."""
    fields = ", ".join(quoted(name) for name in names) or "*"
    query = f"SELECT {fields} FROM {source} LIMIT {rows + 1}"  # noqa: S608 - quoted names, a quoted path
    found: dict[str, NDArray[Any]] = connection().execute(query).fetchnumpy()
    return found


def is_older(schema: BlockSchema, there: Container[str]) -> bool:
    """Whether a file has all columns of a schema but the last few: new ones are added at its end."""
    has = [name in there for name in schema.columns]
    return has == sorted(has, reverse=True) and has.count(False) <= YOUNGER_MOST


def _is_of(column: NDArray[Any], dtype: str) -> bool:
    """Whether a column of a file is what its schema says: of its type, and only a measured number can be missing."""
    if dtype != "f64" and np.ma.is_masked(column):
        return False
    texts = dtype != "name" or not column.size or isinstance(column[0], str)
    return bool(column.dtype == _dtypes()[dtype]) and texts


def _count(source: str) -> int:
    ((size,),) = connection().execute(f"SELECT count(*) FROM {source}").fetchall()  # noqa: S608 - a quoted path
    return int(size)


def _refuse_too_many(where: str, rows: int, columns: int) -> None:
    needed, most = rows * max(columns, 1) * 8, memory_most_bytes()
    if needed > most:
        took, half = f"{needed / 2**30:.3g} GiB", f"{most / 2**30:.3g} GiB"
        what = f"{show_count(rows)} rows take {took} of memory, and {half} is half of what there is"
        raise MachineError(
            where, what, "read the dataset on a larger machine, or move that run's folder away"
        )


@functools.cache
def failures() -> tuple[type[Exception], ...]:
    """What reading a broken file ends in: DuckDB's own, memory that there is not, and words of it that are no text."""
    return duckdb.Error, MemoryError, UnicodeDecodeError, RuntimeError


def unreadable(where: str, error: BaseException) -> DatasetError:
    """What DuckDB said of a file, in one line; its connection is not used again, which some errors leave useless."""
    _own.drop()
    said = (str(error) or type(error).__name__).splitlines()[0]
    return DatasetError(
        where, f"the samples cannot be read ({said.encode('unicode_escape').decode()[:200]})", CURE
    )


CURE = "move that run's folder away and give the same command again: it is measured again"
