"""A copy over a link that others begin to use in mid-move, in its rounds and in its pause, has their rest from then on."""

from __future__ import annotations

import pytest
from tests.unit.simulator.test_simulator_moves import S, answered, planned, played

MEMORY_BYTES = 256e6
LINE_BYTE_PER_S = 100e6 / 8 * 1448 / 1538  # what TCP carries of 100 Mbit/s
SLOWED_AFTER_S = 5
STREAM = "  stream: {workload: udp_stream, from: h3.g1, to: h2.g1, size: 1472 B payload, rate: 100 Mbit/s, duration: 100 s}"
BEGINS = f"timeline:\n  - {{id: slowed, do: start, role: stream, after: go.started + {SLOWED_AFTER_S} s}}\n"


@pytest.mark.parametrize("mode", ["pre_copy", "hot"])
def test_a_link_that_is_slowed_in_mid_move_delays_rounds_and_pause_by_what_it_lacks(mode: str) -> None:
    move = f"mode: {mode}, over: network, timeout: 100 s"
    plan = planned(move, more=STREAM, swap={"timeline:\n": BEGINS})
    outcome, sink = played(plan)
    (total_ns,), (pause_ns,) = sink.moved("migration_time"), sink.moved("pause")
    left_bytes = MEMORY_BYTES - LINE_BYTE_PER_S * SLOWED_AFTER_S
    assert total_ns / S == pytest.approx(SLOWED_AFTER_S + left_bytes / (LINE_BYTE_PER_S / 2), rel=0.05)
    if mode == "hot":
        assert pause_ns == pytest.approx(total_ns, rel=0.001)
    else:
        assert pause_ns < 0.4 * S, "what is left fits the downtime limit at the rate that there is then"
    _, arrived = answered(sink)
    assert not ((arrived > sink.at("go.paused")) & (arrived < sink.at("go.resumed"))).any()
    assert (arrived > outcome.marks["go.finished"].t_ns).sum() > 100, "clients find it at the other host"
