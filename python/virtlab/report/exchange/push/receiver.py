"""What a kind of receiver is: a file, or a program at an address that takes one request per batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from virtlab.report.exchange.push.numbers import Number


def _nothing(_: bytes) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Receiver:
    """How numbers are written for it; `refused` reads from a good answer what was not taken."""

    name: str
    place: Literal["FILE", "URL"]
    encoded: Callable[[Sequence[Number]], bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    refused: Callable[[bytes], str] = _nothing

    @property
    def variable(self) -> str:
        """The environment variable that holds its Authorization header."""
        return f"VIRTLAB_{self.name.upper().replace('-', '_')}_AUTHORIZATION"
