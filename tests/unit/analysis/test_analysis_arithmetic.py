"""Jitter, order, rates and sizes as arithmetic: array forms against packet by packet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.analysis.rates import rate_per_s
from virtlab.analysis.sequence import arrivals
from virtlab.analysis.values import Collector, statistics_of
from virtlab.analysis.variation import ipdv, jitter_rfc3550
from virtlab.analysis.workloads.udp_stream import frames_bytes

SECOND = 1_000_000_000


def step_by_step_jitter(delays: list[int]) -> list[float]:
    """iperf3, iperf_udp_recv, line by line."""
    jitter, previous, found = 0.0, None, []
    for transit in delays:
        previous = transit if previous is None else previous
        d = abs(transit - previous)
        previous = transit
        jitter += (d - jitter) / 16.0
        found.append(jitter)
    return found


@pytest.mark.slow
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=3000))
def test_smoothed_jitter_is_iperfs_step_by_step(delays: list[int]) -> None:
    np.testing.assert_allclose(
        jitter_rfc3550(np.array(delays)), step_by_step_jitter(delays), rtol=1e-9, atol=1e-3
    )


def test_smoothed_jitter_forgets_over_long_streams() -> None:
    delays = np.random.default_rng(1).integers(0, 10**7, 20_000)
    assert jitter_rfc3550(delays)[-1] == pytest.approx(step_by_step_jitter(delays.tolist())[-1], rel=1e-9)


def naive_order(seqs: list[int]) -> tuple[int, int, int]:
    seen: set[int] = set()
    duplicates = reordered = 0
    largest = -1
    for seq in seqs:
        if seq in seen:
            duplicates += 1
        elif seq < largest:
            reordered += 1
        seen.add(seq)
        largest = max(largest, seq)
    return len(seen), duplicates, reordered


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 15)), max_size=60))
def test_order_of_several_flows_is_judged_as_packet_by_packet(packets: list[tuple[int, int]]) -> None:
    flow = np.array([f for f, _ in packets], dtype=np.int32)
    seq = np.array([s for _, s in packets], dtype=np.int64)
    found = arrivals(seq, flow)
    each = [naive_order([s for f, s in packets if f == which]) for which in range(3)]
    assert (found.distinct, found.duplicates, found.reordered) == tuple(
        sum(column) for column in zip(*each, strict=True)
    )
    assert int(found.first.sum()) == found.distinct


def test_ipdv_skips_over_what_was_lost_and_does_not_mix_flows() -> None:
    delay = np.array([10, 50, 13, 52, 20])
    seq, flow = np.array([0, 0, 1, 1, 3]), np.array([0, 1, 0, 1, 0])
    assert sorted(ipdv(delay, seq, flow).tolist()) == [2, 3]


def test_a_rate_opens_with_its_first_packet() -> None:
    assert rate_per_s(np.array([0, 10, 20]) * 1_000_000, np.array([5, 7, 9])) == pytest.approx(16 / 0.02)
    assert rate_per_s(np.array([7]), 1) is None


@pytest.mark.slow
@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=300))
def test_statistics_keep_their_order(values: list[int]) -> None:
    found = statistics_of(np.array(values), ["min", "median", "max", "mean", "mdev", "sd", "range"])
    low, middle, high, mean = (found[key] for key in ("min", "median", "max", "mean"))
    assert low is not None
    assert middle is not None
    assert high is not None
    assert mean is not None
    assert low <= middle <= high
    assert low - 1e-3 <= mean <= high + 1e-3
    assert found["range"] == pytest.approx(high - low)
    mdev, sd = found["mdev"], found["sd"]
    assert mdev is not None
    assert sd is not None
    assert mdev == pytest.approx(math.sqrt(len(values) - 1) / math.sqrt(len(values)) * sd)


@pytest.mark.parametrize(
    ("payload", "mtu", "version", "frames"),
    [
        (1472, 1500, 4, 1518),
        (10, 1500, 4, 64),
        (65_000, 1500, 4, None),
        (1452, 1500, 6, 1518),
        (1453, 1500, 6, None),
    ],
)
def test_frames_of_a_datagram_are_counted_to_the_byte(
    payload: int, mtu: int, version: int, frames: int | None
) -> None:
    if frames is not None:
        assert frames_bytes(payload, mtu, version) == frames
        return
    header = 20 if version == 4 else 48
    room = (mtu - header) // 8 * 8
    rest, total = payload + 8, 0
    while rest:
        part = min(rest, room)
        total += max(64, part + header + 18)
        rest -= part
    assert frames_bytes(payload, mtu, version) == total


# -- streams


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), max_size=40, unique=True))
def test_ipdv_of_any_order_is_that_of_consecutive_numbers(packets: list[tuple[int, int]]) -> None:
    flow = np.array([f for f, _ in packets], dtype=np.int32)
    seq = np.array([s for _, s in packets], dtype=np.int64)
    delay = seq * 7 % 5 + flow * 100
    of = dict(zip(packets, delay.tolist(), strict=True))
    expected = sorted(abs(of[f, s] - of[f, s - 1]) for f, s in packets if (f, s - 1) in of)
    assert sorted(ipdv(delay, seq, flow).tolist()) == expected


EVERY = ["min", "max", "range", "mean", "median", "sd", "mdev"]


@pytest.mark.filterwarnings("error")
def test_a_masked_sample_is_missing_from_every_statistic() -> None:
    some = np.ma.array([1, 2, 3, 6, 9], mask=[False, True, False, True, False])
    assert statistics_of(some, EVERY) == statistics_of(np.array([1, 3, 9]), EVERY)
    assert set(statistics_of(np.ma.array([0, 0], mask=True), EVERY).values()) == {None}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("samples", [np.array([1.0, np.inf, 3.0]), np.array([1e308, -1e308, 1e308])])
def test_a_statistic_of_samples_that_are_not_finite_is_undefined_and_warns_of_nothing(samples: Any) -> None:
    collector = Collector("p0000-r00-a0", 0, {}, 0, "none", "probe")
    collector.distribution("rtt", samples)
    of = {value.statistic: value.value for value in collector.values}
    assert of["sd"] is None


def test_a_distribution_counts_the_samples_that_are_there() -> None:
    collector = Collector("p0000-r00-a0", 0, {}, 0, "none", "probe")
    collector.distribution("rtt", np.ma.array([1, 2, 3], mask=[False, True, False]))
    assert {value.samples for value in collector.values} == {2}
