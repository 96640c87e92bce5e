"""Numbers from the literature, from tables that lie beside a study; they are shown beside what was measured,
never in it.

A table is a CSV with columns `metric`, `unit`, `value`, `qualifier` and columns of conditions; an empty
condition means that the source does not restrict it. `unit_meant` corrects a unit that the source cannot mean.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from virtlab.analysis.claims.nouns import NAME_CURE, NO_NAME, PublishedReference, is_table_name
from virtlab.errors import ExperimentError
from virtlab.folders import read_bounded
from virtlab.lazy import csv
from virtlab.units import SCALES, did_you_mean

TABLE_MAX_BYTES = 4 << 20

_SPELLINGS = {
    "KB": "kB",
    "bytes": "B",
    "KB/s": "kB/s",
    "Mb/s": "Mbit/s",
    "Gb/s": "Gbit/s",
    "percent": "%",
    "req/s": "request/s",
    "tps": "1/s",
}
_PLAIN = {"exact": ""}
_OF_THE_VALUE = {"study", "location", "table", "metric", "unit", "value", "qualifier", "note", "unit_meant"}


@dataclass(frozen=True, slots=True)
class PublishedValue:
    """One published number as printed, with where it stands."""

    study: str
    location: str
    metric: str
    value: float
    unit: str
    qualifier: str
    level: str | None = None
    note: str = ""
    meant: str = ""  # the unit that the source must mean, where what it printed cannot be
    which: str = ""  # its cells in the columns of conditions in which the values beside it differ

    def in_unit(self, unit: str) -> float:
        """The value in a metric's unit. ValueError when the published unit is of another kind."""
        name = self.meant or _SPELLINGS.get(self.unit, self.unit)
        if name not in SCALES.get(unit, {}):
            raise ValueError(
                f"the published {self.metric} is in {self.unit}, not in {unit}; name another metric"
            )
        return self.value * SCALES[unit][name]

    def __str__(self) -> str:
        head, tail = self.around(self.which)
        return f"{head} {self.value:g} {tail}".strip()

    def around(self, which: str = "") -> tuple[str, str]:
        """What stands before the number, and behind it: the unit, and where it is printed."""
        meant = f", meant as {self.meant}" if self.meant else ""
        place = ", ".join(part for part in (self.study, self.location, which) if part)
        return _PLAIN.get(self.qualifier, self.qualifier), f"{self.unit}{meant} ({place})"

    def alike(self) -> tuple[str, ...]:
        """The columns by which values belong to one entry."""
        return self.study, self.location, self.unit, self.meant, self.qualifier


def together(values: Sequence[PublishedValue], most: int | None = None) -> str:
    """Values in words; what several share is said once. Of more than `most` only the range.

    >>> one = PublishedValue("a-study", "Table 3", "throughput", 93.46, "Mbit/s", "mean", which="FIFO")
    >>> from dataclasses import replace
    >>> other = replace(one, value=93.41, which="HFSC")
    >>> together([one]), together([one, other])
    ('mean 93.46 Mbit/s (a-study, Table 3, FIFO)', 'mean: FIFO 93.46, HFSC 93.41 Mbit/s (a-study, Table 3)')
    >>> together([one, other], most=1)
    'mean, 2 values from 93.41 to 93.46 Mbit/s (a-study, Table 3)'
    """
    groups: dict[tuple[str, ...], list[PublishedValue]] = {}
    for value in values:
        groups.setdefault(value.alike(), []).append(value)
    return "; ".join(_group(own, most) for own in groups.values())


def _group(values: Sequence[PublishedValue], most: int | None) -> str:
    if len(values) == 1:
        return str(values[0])
    head, tail = values[0].around()
    if most is not None and len(values) > most:
        numbers = [value.value for value in values]
        few = f"{head}, " if head else ""
        return f"{few}{len(values)} values from {min(numbers):g} to {max(numbers):g} {tail}"
    each = [f"{value.which} {value.value:g}".strip() for value in values]
    apart = "; " if any("," in one for one in each) else ", "
    return f"{f'{head}: ' if head else ''}{apart.join(each)} {tail}"


def read_table(folder: Path, name: str) -> tuple[dict[str, str], ...]:
    """Rows of a published table, every cell as text. ExperimentError if the name is not that of a file in the
    folder, or the file is not there or is no such table.
    """
    if not is_table_name(name):
        raise ExperimentError(f"published.{name}", NO_NAME, NAME_CURE)
    return _rows(folder / name)


@functools.lru_cache(maxsize=32)
def _rows(path: Path) -> tuple[dict[str, str], ...]:
    try:
        lines = io.StringIO(read_bounded(path, TABLE_MAX_BYTES).decode(), newline="")
        rows = tuple(dict(row) for row in csv.DictReader(lines, restval=""))
    except OSError as error:
        known = sorted(entry.name for entry in path.parent.glob("*.csv"))
        cure = did_you_mean(path.name, known) if known else f"put the table into {path.parent}"
        raise ExperimentError(str(path), f"no such published table ({error.strerror})", cure) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ExperimentError(
            str(path), f"is not a published table ({error})", "write it as CSV in UTF-8"
        ) from error
    if not rows or not {"metric", "value", "unit"} <= set(rows[0]) or any(None in row for row in rows):
        raise ExperimentError(
            str(path),
            "is not a published table",
            "it needs columns metric, value and unit, and no row more cells than columns",
        )
    return rows


def published_values(reference: PublishedReference, folder: Path | None) -> list[PublishedValue]:
    """The rows that a claim names, in the order of the table.

    ExperimentError when the table, metric, a column, or any such row is not there.
    """
    where = f"published.{reference.file}"
    if folder is None:
        raise ExperimentError(
            where, "no folder of published tables is known", "keep the study's published/ beside it"
        )
    rows = read_table(folder, reference.file)
    for column in (*reference.where, *([reference.level_column] if reference.level_column else [])):
        if column not in rows[0]:
            raise ExperimentError(where, f"'{column}' is not a column", did_you_mean(column, rows[0]))
    metrics = {row["metric"]: None for row in rows}
    if reference.metric not in metrics:
        raise ExperimentError(
            where, f"'{reference.metric}' is not a metric of it", did_you_mean(reference.metric, metrics)
        )
    found = [
        row
        for row in rows
        if row["metric"] == reference.metric
        and all(row[column] == cell for column, cell in reference.where.items())
    ]
    if not found:
        raise ExperimentError(
            where, f"no row of {reference.metric} fulfils 'where'", "correct the cells under 'where'"
        )
    differing = [column for column in conditions_of(found[0]) if len({row[column] for row in found}) > 1]
    return [_value(row, reference, where, differing) for row in found]


def conditions_of(row: Mapping[str, str]) -> list[str]:
    """Columns that say of what a value is, not what it is or where it is printed."""
    return [column for column in row if column not in _OF_THE_VALUE]


def _value(
    row: dict[str, str], reference: PublishedReference, where: str, differing: list[str]
) -> PublishedValue:
    try:
        number = float(row["value"])
    except ValueError:
        raise ExperimentError(
            where, f"the value '{row['value']}' is not a number", "name rows with numbers"
        ) from None
    level = row[reference.level_column] if reference.level_column else None
    return PublishedValue(
        row.get("study", ""), row.get("location") or row.get("table") or "", row["metric"], number, row["unit"],
        row.get("qualifier", ""), level, row.get("note", ""), row.get("unit_meant") or "",
        ", ".join(row[column] for column in differing if row[column]),
    )  # fmt: skip
