"""Schemas of sample blocks: the columns that agents send, datasets keep and analysis reads.

`blocks.json` holds them; `crates/virtlab-wire/build.rs` makes the row types of agent and simulator of it.

Instants are ns on the sender's CLOCK_MONOTONIC_RAW unless a column says otherwise; kernel stamps are converted by the
agent. A lost packet has no row. A schema's version rises when a column changes its meaning; new columns may be added
at the end, so an older dataset stays readable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from pydantic_core import from_json  # loaded at every start, which the standard reader is not

Dtype = Literal["i64", "i32", "f64", "name"]
ARMED, STARTED, STOPPED = "arm", "start", "stop"  # marks at which a role's own counters are read
BEGIN, END = "begin", "end"  # marks of a run


class BlockSchema(NamedTuple):
    """Columns of one kind of sample, in order: name -> dtype ('name' is a dictionary code on the wire, text on disk).

    `disk_bytes`: what a row takes in a Parquet file, about; 0 where there are few rows.
    """

    id: str
    columns: dict[str, Dtype]
    meaning: str
    disk_bytes: int = 0


def _schemas(path: Path) -> dict[str, BlockSchema]:
    schemas = {}
    for name, told in from_json(path.read_bytes()).items():
        columns = dict(column.split(": ") for column in told["columns"])
        schemas[name] = BlockSchema(name, columns, told["meaning"], told.get("disk_bytes", 0))
    return schemas


BLOCKS: dict[str, BlockSchema] = _schemas(Path(__file__).with_name("blocks.json"))
