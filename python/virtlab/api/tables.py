"""Rows with columns, which every library of data frames takes as Arrow: `polars.DataFrame(table)`,
`pyarrow.table(table)`.

DuckDB holds the rows and speaks Arrow's stream interface, so no Arrow library is needed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.lazy import duckdb, np

SHOWN = 20


class Table:
    """Rows that were computed or read; `columns` are their names, `rows()` plain tuples."""

    def __init__(self, database: duckdb.DuckDBPyConnection, query: str) -> None:
        self._database = database  # kept open as long as the table is
        self._query = query

    @classmethod
    def of(cls, columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> Table:
        """From plain rows; `columns` maps name to SQL type. An absent value is None."""
        from virtlab.results.parquet import connect, quoted

        database = connect()
        types = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        database.execute(f"CREATE TABLE rows ({types})")
        if rows:
            arrays = {}
            for index in range(len(columns)):
                values = [row[index] for row in rows]
                filled = np.array(values, dtype=object)
                arrays[f"c{index}"] = np.ma.array(filled, mask=[value is None for value in values])
            database.register("given", arrays)
            database.execute(f"INSERT INTO rows SELECT {', '.join(arrays)} FROM given")  # noqa: S608 - our own names
            database.unregister("given")
        return cls(database, "SELECT * FROM rows")

    def _relation(self) -> Any:
        return self._database.cursor().sql(self._query)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's stream of the rows."""
        return self._relation().__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._relation().columns)

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows as tuples."""
        found: list[tuple[Any, ...]] = self._relation().fetchall()
        return found

    def __len__(self) -> int:
        (count,) = self._database.cursor().execute(f"SELECT count(*) FROM ({self._query})").fetchone() or (0,)  # noqa: S608
        return int(count)

    def where(self, **equal: Any) -> Table:
        """The rows whose columns have these values: `values.where(role="probe", metric="loss")`."""
        from virtlab.results.parquet import quoted, text

        conditions = " AND ".join(f"{quoted(name)} = {text(str(value))}" for name, value in equal.items())
        return Table(self._database, f"SELECT * FROM ({self._query}) WHERE {conditions}") if equal else self  # noqa: S608

    def _repr_html_(self) -> str:
        from markupsafe import escape

        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        shown = self._relation().limit(SHOWN).fetchall()
        body = "".join(
            "<tr>"
            + "".join(f"<td>{'' if value is None else escape(str(value))}</td>" for value in row)
            + "</tr>"
            for row in shown
        )
        more = len(self) - len(shown)
        note = f"<p>{more} more rows</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"
