"""Tables of run-level values of known truth, and verdicts on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np

from virtlab.analysis import PublishedReference, RunTable, RunValue, Verdict, judge, parse_claim
from virtlab.metrics import MetricPath
from virtlab.units import level_number

PUBLISHED = Path(__file__).parents[3] / "published"
Truth = Callable[[Mapping[str, str]], float]


def table_of(
    factors: Mapping[str, list[str]],
    truth: Mapping[str, Truth],
    *,
    runs: int = 6,
    spread: float = 1.0,
    realisation: Callable[[Mapping[str, str], int], str] = lambda levels, run: "soft_switch",
    seed: int = 1,
) -> RunTable:
    """Normal run values around a truth, for each path, at every combination of levels."""
    generator = np.random.default_rng(seed)
    rows = []
    for index, combination in enumerate(product(*factors.values())):
        levels = dict(zip(factors, combination, strict=True))
        for run in range(runs):
            for text, mean in truth.items():
                path = MetricPath.parse(text)
                value = mean(levels) + spread * float(generator.normal())
                rows.append(
                    RunValue(
                        f"p{index}-r{run}",
                        index,
                        levels,
                        run,
                        realisation(levels, run),
                        path.role,
                        path.metric,
                        path.statistic,
                        value,
                        path.unit,
                        100,
                    )
                )
    return RunTable(tuple(rows))


def rule(text: str, table: RunTable, published: PublishedReference | None = None) -> Verdict:
    (verdict,) = judge([parse_claim(text, published=published)], table, published=PUBLISHED)
    return verdict


def number(levels: Mapping[str, str], factor: str) -> float:
    return level_number(levels[factor]) or 0.0
