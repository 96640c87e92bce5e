"""What `python -m tools.alarms` counts over recorded runs, on runs whose truth is known: drawn at random, with
drift.
"""

from __future__ import annotations

import numpy as np
import pytest
from tools.alarms import ALARMS_MOST, FOUND_LEAST, LEVELS, QUANTITY, block, judged, length

from virtlab.changes import Baseline, Measured, Quantity

RUNS = 200


def recorded(more: float, noise: float = 0.01, seed: int = 1, runs: int = RUNS) -> Baseline:
    """Runs of both levels; the second is larger by a share. Noise of neighbours comes and goes for both together."""
    random = np.random.default_rng(seed)
    drift = 4e6 * (1 + 0.002 * np.sin(np.arange(runs) / 30))
    values = {
        level: drift * (1 + at * more) * (1 + noise * np.abs(random.standard_normal(runs)))
        for at, level in enumerate(LEVELS)
    }
    measured = [
        Measured(levels={"propagation": level}, links="", values=found.tolist())
        for level, found in values.items()
    ]
    quantity = Quantity(path=QUANTITY, unit="ns", better="lower", measured=measured)
    return Baseline(
        schema="virtlab.baseline/1", name="alarms", created="2026-01-01T00:00:00Z", backend="testbed",
        experiment_sha256="0" * 64, runs=2 * runs, facts={}, quantities=[quantity],
    )  # fmt: skip


@pytest.mark.slow
def test_equal_runs_hardly_alarm_and_a_twentieth_more_is_found() -> None:
    tally = judged(recorded(0.05), 8)
    equal, unequal = (
        tally.share(tally.equal, "worse", "better", "different"),
        tally.share(tally.unequal, "worse"),
    )
    assert equal["pairs"] == 2 * unequal["pairs"] == 2 * (RUNS - 16 + 1)
    assert equal["share"] <= ALARMS_MOST
    assert unequal["share"] >= FOUND_LEAST


@pytest.mark.slow
def test_a_difference_that_is_not_there_is_not_found_and_a_jump_between_blocks_alarms() -> None:
    none = judged(recorded(0.0, seed=2), 8)
    assert none.share(none.unequal, "worse")["share"] <= ALARMS_MOST
    jumping = recorded(0.0, noise=0.001, runs=40)
    for each in jumping.quantities[0].measured:
        each.values[20:] = [1.2 * value for value in each.values[20:]]
    tally = judged(jumping, 20)
    assert tally.equal == {"worse": 2}


def test_a_pair_that_asks_for_more_than_was_recorded_counts_as_not_found() -> None:
    tally = judged(recorded(0.05, noise=0.5, runs=8), 4)
    assert tally.unequal == {"more runs than were recorded": 1}
    assert tally.share(tally.unequal, "worse")["share"] == 0


def test_blocks_are_the_runs_of_one_level_in_their_order() -> None:
    source = recorded(0.05, runs=6)
    assert length(source) == 6
    part = block(source, LEVELS[1], 2, 3)
    assert part.quantities[0].measured[0].values == source.quantities[0].measured[1].values[2:5]
