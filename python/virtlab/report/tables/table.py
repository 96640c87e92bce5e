"""Tables as plain structures: heads, rows of cells with a class each. The text behind every plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Block = dict[str, Any]


def cell(text: str, kind: str = "", hint: str = "") -> Block:
    """One cell of a table; `kind` is a class: 'number', 'text', 'absent', 'differs'; `hint` shows on
    hovering.
    """
    return {"text": text, "kind": kind, "hint": hint}


def head(*columns: str, numbers: Sequence[str] = ()) -> list[Block]:
    """The heads of a table's columns."""
    return [{"text": column, "number": column in numbers} for column in columns]
