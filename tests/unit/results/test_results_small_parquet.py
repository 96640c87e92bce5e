"""Small Parquet files are written without DuckDB, and read by it as if it had written them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from virtlab.plan.blocks import BLOCKS, BlockSchema
from virtlab.results import parquet, small_parquet

EXTREMES = {
    "i64": np.array([0, -1, 2**63 - 1, -(2**63)], dtype=np.int64),
    "i32": np.array([0, -1, 2**31 - 1, -(2**31)], dtype=np.int32),
    "f64": np.array([0.0, -0.5, 1e300, float("inf")]),
    "name": np.array(["", "a", "links.l1.ab/µs", "x" * 300], dtype=object),
}


def columns_of(schema: BlockSchema, repeats: int = 1) -> dict[str, np.ndarray]:
    return {name: np.tile(EXTREMES[dtype], repeats) for name, dtype in schema.columns.items()}


@pytest.mark.parametrize("schema", list(BLOCKS.values()), ids=list(BLOCKS))
def test_every_schema_is_read_as_duckdb_would_have_written_it(schema: BlockSchema, tmp_path: Path) -> None:
    columns = columns_of(schema, 60)
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    small_parquet.write(small, schema, columns)
    parquet.write(large, schema, [columns], compression="snappy")
    described = [
        [row[:2] for row in duckdb.sql(f"DESCRIBE SELECT * FROM read_parquet('{path}')").fetchall()]
        for path in (small, large)
    ]
    assert described[0] == described[1]
    for path in (small, large):
        found = parquet.read(path, schema, "test")
        for name, column in columns.items():
            assert found[name].dtype == column.dtype
            assert found[name].tolist() == column.tolist()


def test_more_columns_than_a_short_list_holds_are_read(tmp_path: Path) -> None:
    schema = BlockSchema("wide/1", {f"c{n}": "i64" for n in range(40)}, "many columns")
    columns = {name: np.arange(3, dtype=np.int64) + n for n, name in enumerate(schema.columns)}
    small_parquet.write(tmp_path / "wide.parquet", schema, columns)
    found = parquet.read(tmp_path / "wide.parquet", schema, "test")
    assert {name: column.tolist() for name, column in found.items()} == {
        name: column.tolist() for name, column in columns.items()
    }


def test_a_column_that_is_no_row_of_numbers_is_refused() -> None:
    schema = BlockSchema("odd/1", {"a": "i64", "b": "i64"}, "two columns")
    flat = np.arange(4, dtype=np.int64)
    assert small_parquet.encoded(schema, {"a": flat, "b": np.arange(8, dtype=np.int64)[::2]})
    with pytest.raises(ValueError, match="of one dimension"):
        small_parquet.encoded(schema, {"a": flat, "b": flat.reshape(2, 2)})
    with pytest.raises(ValueError, match=r"have \[4, 3\] rows"):
        small_parquet.encoded(schema, {"a": flat, "b": flat[:3]})
    with pytest.raises(TypeError, match="not compatible"):
        small_parquet.encoded(schema, {"a": flat, "b": flat.astype(np.int16)})


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    schema = BLOCKS["rtt/1"]
    for name in ("a", "b"):
        small_parquet.write(tmp_path / name, schema, columns_of(schema))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.slow
def test_few_rows_are_written_small_and_many_by_duckdb(tmp_path: Path) -> None:
    schema = BLOCKS["rtt/1"]
    for rows, by in ((4, b"virtlab"), (small_parquet.MOST_ROWS + 4, b"DuckDB")):
        path = tmp_path / f"{rows}.parquet"
        parquet.write(path, schema, [columns_of(schema, rows // 4)])
        assert by in path.read_bytes()[-2000:]
        assert len(parquet.read(path, schema, "test")["seq"]) == rows // 4 * 4
