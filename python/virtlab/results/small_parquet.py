"""A small Parquet file without a database: what a simulated run keeps is a few thousand rows, and asking DuckDB to
write them takes longer than playing many a run.

The bytes are made by the crate `virtlab-wire` (`parquet.rs`): one row group, one page per column, no column can be
absent, whole numbers as packed differences, names by a dictionary. Types are those that DuckDB gives the same columns.
DuckDB reads every file that is written here, and tests have it do so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from virtlab.lazy import NDArray, np
from virtlab.plan.blocks import BlockSchema

MOST_ROWS = 50_000


def write(path: Path, schema: BlockSchema, columns: Mapping[str, NDArray[Any]]) -> None:
    """Writes columns of a schema's types as one file."""
    path.write_bytes(encoded(schema, columns))


def encoded(schema: BlockSchema, columns: Mapping[str, NDArray[Any]]) -> bytes:
    """The file's bytes."""
    from virtlab._native import small_parquet

    def given(name: str, dtype: str) -> NDArray[Any] | list[str]:
        if dtype == "name":
            return [str(value) for value in columns[name].tolist()]
        return np.ascontiguousarray(columns[name])

    found: bytes = small_parquet([(name, given(name, dtype)) for name, dtype in schema.columns.items()])
    return found
