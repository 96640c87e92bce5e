"""Columnar blocks as columns of numpy arrays, checked against the schema they claim.

The sender of a block may be a hostile guest: every column of the schema is there once and of its type, and no
other; numbers are finite, whole ones less than 2^61 from zero, so that differences of them are numbers too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.errors import AgentError
from virtlab.lazy import NDArray, np
from virtlab.plan import BLOCKS

if TYPE_CHECKING:
    from virtlab.plan import BlockSchema

_DTYPES = {"i64": "<i8", "i32": "<i4", "f64": "<f8"}
LONGEST_NAME = 200


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
    """The columns of a block. AgentError if the bytes are no block of a known schema, or have values that it
    excludes.
    """
    from virtlab._native import decode_block

    try:
        text, ranges = decode_block(body)
    except ValueError as error:
        raise AgentError("agent protocol", f"a block cannot be read: {error}") from error
    head = json.loads(text)
    schema = BLOCKS.get(head["schema"])
    if schema is None:
        raise AgentError("agent protocol", f"a block of the unknown schema '{head['schema'][:LONGEST_NAME]}'")
    words = head.get("dictionary", {})
    _check_columns(schema, head["columns"], words)
    columns: dict[str, NDArray[Any]] = {}
    for column, (begin, _, measurable) in zip(head["columns"], ranges, strict=True):
        values: NDArray[Any] = np.frombuffer(
            body, dtype=_DTYPES[column["dtype"]], count=head["n"], offset=begin
        )
        name = column["name"]
        if not measurable:
            what = f"column '{name}' of {schema.id} has values beyond any measure"
            raise AgentError("agent protocol", what)
        if name in words:
            _check_codes(schema, name, values, words[name])
        columns[name] = np.array(words[name], dtype=object)[values] if name in words else values
    return Samples(head["stream"][:LONGEST_NAME], head["schema"], head["number"], columns)


def _check_columns(
    schema: BlockSchema, columns: list[dict[str, str]], words: Mapping[str, list[str]]
) -> None:
    """AgentError where its columns are not the schema's."""
    names = [column["name"] for column in columns]
    if missing := [name for name in schema.columns if name not in names]:
        what = f"a block of {schema.id} lacks the columns {', '.join(missing)}"
        raise AgentError("agent protocol", what)
    if len(names) != len(schema.columns):
        raise AgentError("agent protocol", f"a block of {schema.id} has columns that are not its schema's")
    for column in columns:
        wanted = schema.columns[column["name"]]
        named = column["name"] in words
        if named is not (wanted == "name") or column["dtype"] != ("i32" if named else wanted):
            what = f"column '{column['name']}' of {schema.id} holds {column['dtype']}, not {wanted}"
            raise AgentError("agent protocol", what)
    if any(len(word) > LONGEST_NAME for name in words for word in words[name]):
        raise AgentError(
            "agent protocol", f"a name in a block of {schema.id} has over {LONGEST_NAME} letters"
        )


def _check_codes(schema: BlockSchema, name: str, codes: NDArray[Any], words: list[str]) -> None:
    """AgentError where a code has no name."""
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(words):
        raise AgentError("agent protocol", f"column '{name}' of {schema.id} has codes without a name")
