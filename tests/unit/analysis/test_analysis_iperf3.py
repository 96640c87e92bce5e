"""Streams measured by iperf3: what it counted is taken, what it does not tell is absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.analysis.test_analysis_values import (
    RTT,
    SECOND,
    START,
    UDP,
    counters,
    plan_with,
    reason_of,
    record_of,
    replies,
    values_of,
)

IPERF3 = UDP | {"meter": "iperf3"}


def intervals(*, sent_bytes: int, received_bytes: int, count: int = 10) -> dict[str, Any]:
    """Rows of the sender, then of the receiver, 100 ms each."""
    at = START + np.tile(np.arange(count), 2) * SECOND // 10
    zero = np.zeros(count, np.int64)
    return {
        "flow": np.zeros(2 * count, np.int32),
        "begin_ns": at,
        "end_ns": at + SECOND // 10,
        "received_bytes": np.concatenate([zero, zero + received_bytes]),
        "sent_bytes": np.concatenate([zero + sent_bytes, zero]),
        "retransmits": np.zeros(2 * count, np.int64),
        "srtt_ns": np.zeros(2 * count, np.int64),
        "cwnd_packets": np.zeros(2 * count, np.int64),
    }


def told(**values: int) -> dict[tuple[str, str], dict[str, Any]]:
    """A run in which 100 datagrams per interval were sent, 90 arrived, and these were counted."""
    return {
        ("r", "interval/1"): intervals(sent_bytes=100 * 1472, received_bytes=90 * 1472),
        ("c", "counter/1"): counters("r/client", **values),
    }


def test_loss_and_goodput_come_from_what_iperf3_counted(tmp_path: Path) -> None:
    blocks = told(sent_packets=1000, received_packets=900, jitter_rfc3550_ns=12_000)
    found = values_of(record_of(tmp_path, plan_with(IPERF3), blocks))
    assert found["loss.ratio"] == pytest.approx(0.1)
    assert found["goodput.mean"] == pytest.approx(900 * 1472 * 8)
    assert found["throughput.mean"] == pytest.approx(900 * 1518 * 8)
    assert found["packet_rate.mean"] == pytest.approx(900)
    assert found["achieved_load.mean"] == pytest.approx(1000 * 1472 * 8)
    assert found["lost_rate.mean"] == pytest.approx(100 * 1472 * 8)
    assert found["jitter_rfc3550.final"] == 12_000
    assert found["jitter_rfc3550.mean"] is None


@pytest.mark.slow
def test_what_iperf3_does_not_tell_is_absent_and_never_zero(tmp_path: Path) -> None:
    record = record_of(tmp_path, plan_with(IPERF3), told(sent_packets=1000))
    found = values_of(record)
    assert reason_of(record, "r.loss.ratio") == "iperf3's receiver told nothing"
    assert reason_of(record, "r.owd.mean") == "iperf3 tells nothing of single packets"
    assert found["reordering.count"] is None
    assert found["lost_rate.mean"] is None


def test_without_any_word_of_iperf3_nothing_has_a_value(tmp_path: Path) -> None:
    found = values_of(record_of(tmp_path, plan_with(IPERF3), {}))
    assert found["loss.ratio"] is None
    assert found["goodput.mean"] is None


def test_every_metric_of_packets_is_there_for_iperf3_too(tmp_path: Path) -> None:
    own = values_of(record_of(tmp_path, plan_with(UDP), {}))
    (tmp_path / "other").mkdir()
    assert set(values_of(record_of(tmp_path / "other", plan_with(IPERF3), {}))) == set(own)


def test_duplicates_that_ping_counted_are_no_zero(tmp_path: Path) -> None:
    blocks = {
        ("r", "rtt/1"): replies(list(range(10)), [100] * 10),
        ("c", "counter/1"): counters("r/client", sent_packets=10, duplicate_packets=2),
    }
    found = values_of(record_of(tmp_path, plan_with(RTT | {"meter": "ping"}), blocks))
    assert found["duplicates.count"] == 2
    assert found["loss.ratio"] == 0
