"""What a group of figures yields where this machine cannot measure it."""

from __future__ import annotations

from typing import Any


def skipped(group: str, why: str) -> dict[str, Any]:
    """A figure without a value, and the reason."""
    return {
        "name": f"{group}.skipped", "value": None, "unit": "", "ratio": None, "peer": why, "goal": None,
    }  # fmt: skip
