"""Columnar blocks as columns of numpy arrays, checked against the schema they claim.

A column that the schema does not know is kept (a newer agent may send more); one that is missing is an error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.errors import AgentError
from virtlab.plan import BLOCKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DTYPES = {"i64": "<i8", "i32": "<i4", "f64": "<f8"}


@dataclass(frozen=True, slots=True)
class Samples:
    """A decoded block: its stream, schema, number within these, and columns (names as object arrays)."""

    stream: str
    schema: str
    number: int
    columns: dict[str, NDArray[Any]]

    @property
    def rows(self) -> int:
        """Rows of every column."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def decode_samples(body: bytes) -> Samples:
    """The columns of a block. AgentError when the bytes are no block of a known schema."""
    import numpy as np

    from virtlab._native import decode_block

    try:
        text, ranges = decode_block(body)
    except ValueError as error:
        raise AgentError("agent protocol", f"a block cannot be read: {error}") from error
    head = json.loads(text)
    schema = BLOCKS.get(head["schema"])
    if schema is None:
        raise AgentError("agent protocol", f"a block of the unknown schema '{head['schema']}'")
    columns: dict[str, NDArray[Any]] = {}
    for column, (begin, end) in zip(head["columns"], ranges, strict=True):
        values: NDArray[Any] = np.frombuffer(
            body, dtype=_DTYPES[column["dtype"]], count=head["n"], offset=begin
        )
        name = column["name"]
        if (words := head.get("dictionary", {}).get(name)) is not None:
            if len(values) and not 0 <= int(values.min()) <= int(values.max()) < len(words):
                raise AgentError(
                    "agent protocol", f"column '{name}' of {head['schema']} has codes without a name"
                )
            values = np.array(words, dtype=object)[values]
        elif values.nbytes != end - begin:
            raise AgentError("agent protocol", f"column '{name}' of {head['schema']} has a wrong length")
        columns[name] = values
    missing = [name for name in schema.columns if name not in columns]
    if missing:
        raise AgentError(
            "agent protocol", f"a block of {head['schema']} lacks the columns {', '.join(missing)}"
        )
    return Samples(head["stream"], head["schema"], head["number"], columns)
