"""A profile that was calibrated before guests shared the queue of their host's wire is fitted to another world."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.errors import ExperimentError
from virtlab.simulator.profile import Parameter, Profile, load_profile

COSTS = {"platform.namespace.crossing_ns": Parameter(900.0)}


def written(folder: Path, provenance: dict[str, str]) -> str:
    path = folder / "local.profile.toml"
    path.write_text(Profile("local", 2, COSTS, provenance=provenance).text(), encoding="utf-8")
    return str(path)


def test_a_calibration_of_before_is_refused_with_its_cure(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="before guests shared the queue") as caught:
        load_profile(written(tmp_path, {"created": "2026-11-22T10:00:00+00:00", "design": "quick"}))
    assert "virtlab calibrate" in caught.value.cure


@pytest.mark.parametrize(
    "provenance", [{}, {"kind": "assumed"}, {"design": "full", "pushback": "guest and uplink"}]
)
def test_a_later_calibration_and_assumed_costs_are_taken(tmp_path: Path, provenance: dict[str, str]) -> None:
    assert load_profile(written(tmp_path, provenance)).parameters == COSTS
