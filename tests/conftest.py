"""What every test may lean on. Tests that build real worlds go one after the other, in one process of several: beside each
other they would measure each other."""

from __future__ import annotations

from pathlib import Path

import pytest

REAL = ("testbed", "parity", "contract")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One group of all that is real (`--dist loadgroup`)."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in REAL:
            item.add_marker(pytest.mark.xdist_group("machine"))
