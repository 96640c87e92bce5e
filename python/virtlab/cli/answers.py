"""How answers from simulation are printed: as JSON for programs, or as lines that begin by saying so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from virtlab.terminal import json_text, say

Answer = TypeVar("Answer")


def tell(
    answers: Sequence[Answer],
    profile: str,
    *,
    as_json: bool,
    json_of: Callable[[Answer], dict[str, Any]],
    lines_of: Callable[[Answer], Sequence[str]],
) -> None:
    """Prints all answers; `profile` is the identity of the costs that they rest on."""
    if as_json:
        values = {"profile": profile, "answers": [json_of(each) for each in answers]}
        say(json_text(values, indent=2, allow_nan=False))
        return
    say(f"simulated with profile {profile}; not measured")
    for each in answers:
        say("\n".join(lines_of(each)))
