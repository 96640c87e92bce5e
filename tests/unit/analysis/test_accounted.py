"""Which share of the variance each factor of a full design accounts for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from virtlab.analysis import RunTable, RunValue, table_of
from virtlab.analysis.effects.accounted import RUNS, TOGETHER, accounted
from virtlab.metrics import MetricPath

PATH = MetricPath.parse("load.operation_rate.mean")
FACTORS = {"lookup": ("hash", "ring", "all"), "cache": ("no", "yes")}


def measured(rate: Callable[[int, int, int], float], runs: int = 3) -> RunTable:
    """Runs at every combination, whose values depend on the levels' places and on the run."""
    rows = []
    for (a, lookup), (b, cache) in product(*(enumerate(levels) for levels in FACTORS.values())):
        for run in range(runs):
            levels = {"lookup": lookup, "cache": cache}
            rows.append(
                RunValue(
                    run=f"p{a}{b}-r{run}", point=2 * a + b, levels=levels, repetition=run, realisation="shaping", unit="1/s",
                    role=PATH.role, metric=PATH.metric, statistic=PATH.statistic, value=rate(a, b, run),
                )
            )  # fmt: skip
    return table_of(rows)


def shares(table: RunTable) -> dict[str, float]:
    return {one.source: one.share for one in accounted(table, FACTORS)}


def test_what_one_factor_does_alone_is_its_own_share() -> None:
    assert shares(measured(lambda a, b, run: 10.0 * b)) == pytest.approx(
        {"lookup": 0.0, "cache": 1.0, TOGETHER: 0.0, RUNS: 0.0}
    )


def test_sums_are_shared_by_their_variances() -> None:
    """3 a + 4 b: variances of the levels' means are 9 * 2/3 and 16 * 1/4."""
    found = shares(measured(lambda a, b, run: 3.0 * a + 4.0 * b))
    assert found == pytest.approx({"lookup": 0.6, "cache": 0.4, TOGETHER: 0.0, RUNS: 0.0})


def test_what_neither_does_alone_is_done_together() -> None:
    found = shares(measured(lambda a, b, run: (a - 1.0) * (b - 0.5)))
    assert found == pytest.approx({"lookup": 0.0, "cache": 0.0, TOGETHER: 1.0, RUNS: 0.0})


def test_what_differs_between_runs_is_theirs_and_widens_the_intervals() -> None:
    random = np.random.default_rng(7)
    quiet = measured(lambda a, b, run: 3.0 * a + 4.0 * b)
    noisy = measured(lambda a, b, run: 3.0 * a + 4.0 * b + float(random.normal()), runs=10)
    narrow, wide = ({one.source: one for one in accounted(table, FACTORS)} for table in (quiet, noisy))
    assert narrow["lookup"].low == narrow["lookup"].high
    assert wide["lookup"].low < wide["lookup"].share < wide["lookup"].high
    assert 0.0 < wide[RUNS].low < wide[RUNS].share < wide[RUNS].high
    assert sum(one.share for one in wide.values()) == pytest.approx(1.0)


def test_a_design_with_a_gap_or_a_single_run_has_no_shares() -> None:
    whole = measured(lambda a, b, run: a + b)
    assert accounted(whole, FACTORS)
    assert not accounted(measured(lambda a, b, run: a + b, runs=1), FACTORS)
    assert not accounted(whole, {**FACTORS, "cache": ("no", "yes", "both")})
    assert not accounted(whole, {"cache": ("no", "yes")})
