"""What TCP does on a link is known: the simulator's flows must fill it, share it, queue in front of it, and answer in
time.

A full segment carries 1448 B of payload in 1538 octet times: 94.148 of 100 Mbit/s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept
from tests.theory.simulated import counters, simulated, values_of

from virtlab.plan import Outcome

MOST_BIT_PER_S = 1e8 * 1448 / 1538
FULL_FRAME_NS = 123_040
BASE_RTT_NS = 488_320  # of 1500 B there and back over one switch


def played(
    workload: str = "tcp_stream",
    *,
    seconds: int = 10,
    propagation_ns: int = 0,
    queue: dict[str, Any] | None = None,
    seed: int = 1,
    beside: bool = False,
    pushback: bool = False,
    **own: Any,
) -> tuple[Outcome, Kept]:
    """A role over one switch; `beside`: an echo of 100 B every 10 ms through the same queue, after 2 s."""
    values = values_of(switches=1, limit_packets=100, pushback=pushback)
    values["roles"]["probe"] = {
        "workload": workload, "from": "a", "to": "b", "duration_ns": seconds * 10**9, **own,
    }  # fmt: skip
    for link in values["world"]["links"].values():
        link["propagation_ns"] = propagation_ns
        if queue is not None:
            link["queue"] = {"ab": queue, "ba": queue}
    if beside:
        values["roles"]["echo"] = {
            "workload": "rtt", "from": "a", "to": "b", "ip_packet_bytes": 100, "interval_ns": 10_000_000, "count": 700,
        }  # fmt: skip
        first = values["timeline"][0]["id"]
        after = {"event": f"{first}.started", "plus_ns": 2 * 10**9}
        values["timeline"].append({"id": "echoes", "do": "run", "role": "echo", "after": after})
        values["collect"]["packets"].append("echo")
    return simulated(values, seed)


def goodput_bit_per_s(kept: Kept, from_s: float = 1.0, to_s: float = 10.0) -> float:
    """Bytes read in whole intervals inside, over their time."""
    rows = {
        name: kept.column("probe", "interval/1", name) for name in ("end_ns", "begin_ns", "received_bytes")
    }
    epoch = rows["begin_ns"].min()
    inside = (rows["begin_ns"] - epoch >= from_s * 1e9) & (rows["end_ns"] - epoch <= to_s * 1e9)
    inside &= rows["received_bytes"] > 0
    span_ns = rows["end_ns"][inside].max() - rows["begin_ns"][inside].min()
    return float(rows["received_bytes"][inside].sum()) * 8e9 / float(span_ns)


@pytest.mark.slow
@pytest.mark.parametrize("congestion_control", ["cubic", "newreno"])
@pytest.mark.parametrize("pushback", [False, True])
def test_a_flow_fills_a_link_with_its_payload(congestion_control: str, pushback: bool) -> None:
    outcome, kept = played(congestion_control=congestion_control, pushback=pushback)
    assert outcome.status == "ok", outcome.reasons
    assert goodput_bit_per_s(kept) == pytest.approx(MOST_BIT_PER_S, rel=0.002)
    retransmits = int(kept.column("probe", "interval/1", "retransmits").sum())
    drops = sum(value for (_, name), value in counters(kept, "end").items() if name == "drops")
    assert (retransmits == drops == 0) if pushback else (retransmits >= drops > 0)


def test_what_the_receiver_read_is_what_was_sent_less_what_is_under_way() -> None:
    _, kept = played(seconds=3)
    sent = int(kept.column("probe", "interval/1", "sent_bytes").sum())
    received = int(kept.column("probe", "interval/1", "received_bytes").sum())
    at_stop = counters(kept, "stop")
    assert at_stop["probe/client", "sent_bytes"] == sent
    assert at_stop["probe/server", "received_bytes"] == received
    assert 0 < sent - received < 4 << 20


@pytest.mark.slow
def test_equal_seeds_give_equal_rows() -> None:
    tables = [played(seconds=2, streams=3)[1].blocks for _ in range(2)]
    for first, second in zip(*(blocks["probe", "interval/1"] for blocks in tables), strict=True):
        assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_flows_share_a_link() -> None:
    _, kept = played(streams=4, seconds=20)
    flow = kept.column("probe", "interval/1", "flow")
    received = kept.column("probe", "interval/1", "received_bytes")
    shares = np.array([received[flow == each].sum() for each in range(4)], float)
    assert shares.sum() * 8 / 20 == pytest.approx(MOST_BIT_PER_S, rel=0.01)
    assert shares.sum() ** 2 / (4 * (shares**2).sum()) > 0.8


def echo_rtt_ms(queue: dict[str, Any], **own: Any) -> float:
    """Mean round trip of small echoes beside one flow."""
    outcome, kept = played(queue=queue, beside=True, **own)
    assert outcome.status == "ok", outcome.reasons
    return float(kept.column("echo", "rtt/1", "rtt_ns").mean()) / 1e6


@pytest.mark.slow
def test_a_fifos_limit_bounds_the_round_trip_beside_a_flow() -> None:
    for limit in (50, 100):
        rtt_ms = echo_rtt_ms({"limit_packets": limit})
        assert 0.5 * limit * FULL_FRAME_NS / 1e6 < rtt_ms < (limit + 3) * FULL_FRAME_NS / 1e6


@pytest.mark.slow
def test_fair_and_controlled_queues_are_shorter_for_others_in_the_published_order() -> None:
    """Measured on a kernel: FIFO 13.6 ms > CoDel 10.5 > SFQ 4.5 >= FQ-CoDel 4.4, with that machine's own 4 ms in each.

    The simulated platform costs nothing, so its figures lie below and the order stays.
    """
    fifo = echo_rtt_ms({"limit_packets": 100})
    codel, sfq, fq_codel = (echo_rtt_ms({"kind": kind}) for kind in ("codel", "sfq", "fq_codel"))
    assert fifo > codel > sfq >= fq_codel - 0.05
    assert fq_codel < 1.0
    assert codel < 6.0


def test_a_transaction_takes_a_round_trip() -> None:
    _, kept = played("tcp_rr", seconds=2, request_bytes=1448, response_bytes=1448)
    taken = kept.column("probe", "transaction/1", "finished_ns") - kept.column(
        "probe", "transaction/1", "started_ns"
    )
    # The first answers wait behind acknowledgements of their own; then each rides on an answer.
    assert set(taken[20:]) == {BASE_RTT_NS}
    assert taken.max() <= BASE_RTT_NS + 4 * 10_000
    rate = len(taken) / 2
    assert rate == pytest.approx(1e9 / BASE_RTT_NS, rel=0.001)


def test_a_small_receive_buffer_is_a_window_per_round_trip() -> None:
    _, kept = played(receive_buffer_bytes=20_000, propagation_ns=5_000_000)
    whole = 20_000 // 1448 * 1448
    rtt_s = 2 * (2 * 5e-3) + BASE_RTT_NS / 1e9
    assert whole * 8 / rtt_s * 0.8 < goodput_bit_per_s(kept) < 20_000 * 8 / (rtt_s - BASE_RTT_NS / 1e9)


@pytest.mark.slow
def test_newrenos_window_swings_between_half_and_whole() -> None:
    _, kept = played(congestion_control="newreno", seconds=60, propagation_ns=2_500_000)
    window = kept.column("probe", "interval/1", "cwnd_packets")
    window = window[window > 0][100:]
    top = int(window.max())
    in_the_pipe = (4 * 2_500_000 + BASE_RTT_NS) / FULL_FRAME_NS
    assert 0.9 * (100 + in_the_pipe) < top < 1.1 * (102 + in_the_pipe)
    assert float(window.mean()) / top == pytest.approx(0.75, abs=0.05)
