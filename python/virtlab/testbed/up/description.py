"""What lies beside the socket of a kept world, checked as it is read: a full disk or a hand may have left half of
it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Description(BaseModel):
    """A world's guests by name: their namespaces, addresses, own leaders with their last channels, control groups, and
    processors where those are their own."""

    model_config = ConfigDict(strict=True, frozen=True)

    guests: dict[str, str]
    addresses: dict[str, tuple[str, ...]]
    source: str
    leaders: dict[str, tuple[int, int]] = {}
    groups: dict[str, list[str]] = {}
    processors: dict[str, list[int]] = {}
