"""The combined delay of strong and weak flows: by hand, and absent where a flow is silent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from virtlab.analysis.workloads import split


class Kept:
    """Takes what is added."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.missing: dict[str, str] = {}

    def add(self, metric: str, statistic: str, value: float, samples: int) -> None:
        assert samples
        self.values[f"{metric}.{statistic}"] = value

    def absent(self, metric: str, reason: str) -> None:
        self.missing[metric] = reason


def combined(delays_ns: list[list[int]], shares: list[float] | None, bound_ns: float | None = 0.0) -> Kept:
    """What is made of delays by flow."""
    flows = [flow for flow, delays in enumerate(delays_ns) for _ in delays]
    delay = np.array([one for delays in delays_ns for one in delays], dtype=np.int64)
    sent = np.arange(delay.size, dtype=np.int64) * 1000
    packets: dict[str, Any] = {
        "flow": np.array(flows, dtype=np.int32),
        "seq": np.arange(delay.size),
        "sent_ns": sent,
        "received_ns": sent + delay,
    }
    parameters: dict[str, Any] = {"flows": len(delays_ns)} | ({"shares": shares} if shares else {})
    out = Kept()
    context: Any = SimpleNamespace(role=SimpleNamespace(parameters=parameters), out=out)
    split.values(context, packets, bound_ns)
    return out


def test_weak_and_strong_flows_are_weighed_by_their_part_of_the_load() -> None:
    # L = 0.1 x mean(300, 500) + 0.9 x mean(100, 200), each flow's own mean first.
    out = combined([[100, 100, 100], [150, 250], [300], [500]], [0.45, 0.45, 0.05, 0.05])
    assert out.values == {"split_owd.mean": pytest.approx(0.1 * 400 + 0.9 * 150)}


def test_equal_shares_give_the_plain_mean_over_flows() -> None:
    assert combined([[100], [200, 400]], None).values == {"split_owd.mean": pytest.approx(200)}


def test_a_silent_flow_or_two_clocks_leave_it_absent() -> None:
    assert combined([[100], []], [0.99, 0.01]).missing == {"split_owd": "nothing arrived of 1 of 2 flows"}
    assert "different clocks" in combined([[100], [100]], None, bound_ns=None).missing["split_owd"]


def test_one_flow_and_shares_of_more_than_two_sizes_have_none() -> None:
    assert combined([[100]], None).values == {}
    assert combined([[1], [2], [3]], [0.5, 0.3, 0.2]).values == {}
