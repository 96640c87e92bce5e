"""Poisson arrivals are the same instants on both arms: one seed, one stream, drawn by the same code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "testbed"))
import testbed_world as worlds

from virtlab.plan import Plan, Trial
from virtlab.simulator import Simulator
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))


def offsets_ns(backend: Any, plan: Plan) -> list[int]:
    """Intended instants of a role's requests, from its first on."""
    sink = worlds.MemorySink()
    with backend.open(plan, worlds.Patient()) as session:
        assert session.run(Trial("t0", 5), sink).status in {"ok", "tainted"}
    columns = next(columns for _, schema, columns in sink.blocks if schema == "sent/1")
    intended = np.sort(np.asarray(columns["intended_ns"]))
    return [int(offset) for offset in intended - intended[0]]


def test_an_echo_of_random_intervals_goes_at_the_same_instants_on_both_arms() -> None:
    plan = worlds.echo_plan(worlds.bridged(), count=60)
    values = plan.model_dump(by_alias=True, exclude_defaults=True)
    values["roles"]["probe"] |= {"arrivals": "poisson", "interval_ns": 4_000_000}
    made = Plan.model_validate(values)
    measured, simulated = offsets_ns(Testbed(), made), offsets_ns(Simulator(), made)
    assert len(measured) == 60
    assert measured == simulated
    gaps = np.diff(measured)
    assert 0.5 < gaps.std() / gaps.mean() < 1.6, "exponential gaps vary as much as they last"
