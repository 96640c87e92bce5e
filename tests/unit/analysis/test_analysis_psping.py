"""psping to values: the warm-up does not count, what was never answered is loss, bandwidth is bytes per second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.analysis.values import Collector
from virtlab.analysis.workloads import psping


class Requests:
    """What the file of a workload is given, with rows that a test made up."""

    def __init__(self, rows: list[tuple[int, int, int, int]], **parameters: Any) -> None:
        names = ("seq", "sent_ns", "finished_ns", "payload_bytes")
        self._rows = {
            name: np.array([row[at] for row in rows], dtype=np.int64) for at, name in enumerate(names)
        }
        self._parameters = {"test": "latency", "protocol": "tcp", "warmup": 0} | parameters
        self.counters: dict[str, int] = {}
        self.out = Collector("r", 0, {}, 0, "none", "probe")

    def has(self, schema: str) -> bool:
        return schema == "request/1"

    def samples(self, _: str, __: str) -> dict[str, Any]:
        return self._rows

    def parameter(self, name: str) -> Any:
        return self._parameters.get(name)


def values(requests: Requests) -> dict[tuple[str, str], float | None]:
    psping.values(requests)  # type: ignore[arg-type]
    return {(value.metric, value.statistic): value.value for value in requests.out.values}


def test_the_warm_up_and_the_unanswered_are_no_samples() -> None:
    found = values(Requests([(-1, 0, 900, 32), (0, 1000, 1100, 32), (1, 2000, -1, 32), (2, 3000, 3300, 32)]))
    assert (found["rtt", "min"], found["rtt", "max"], found["rtt", "mean"]) == (100, 300, 200)
    assert found["loss", "ratio"] == pytest.approx(1 / 3)
    assert found["bandwidth", "mean"] is None
    assert found["connect_time", "mean"] is None


def test_a_tcp_ping_measures_the_connection() -> None:
    found = values(Requests([(0, 0, 70, 0), (1, 100, 190, 0)], test="ping"))
    assert (found["connect_time", "mean"], found["rtt", "mean"]) == (80, None)


@pytest.mark.slow
@given(gap_ns=st.integers(1000, 10**7), size=st.integers(1, 65_536), count=st.integers(22, 300))
def test_a_steady_bandwidth_is_its_rate_and_its_parts_surround_it(gap_ns: int, size: int, count: int) -> None:
    rows = [(k, k * gap_ns, (k + 3) * gap_ns, size) for k in range(count)]
    found = values(Requests(rows, test="bandwidth"))
    mean, low, high = (found["bandwidth", statistic] for statistic in ("mean", "min", "max"))
    assert mean == pytest.approx(size / (gap_ns / 1e9))
    assert low is not None
    assert high is not None
    assert low <= mean * (1 + 1e-9)
    assert high >= mean * (1 - 1e-9)
    assert found["transaction_time", "median"] == 3 * gap_ns
    assert found["rtt", "mean"] is None


def test_one_answer_is_no_bandwidth() -> None:
    found = values(Requests([(0, 0, 10, 8192)], test="bandwidth"))
    assert found["bandwidth", "mean"] is None
    assert found["bandwidth", "min"] is None
