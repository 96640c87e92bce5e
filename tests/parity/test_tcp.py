"""One Plan on both arms: a TCP flow over a 100 Mbit/s soft switch reads the same goodput in the simulator and on the kernel.

A machine with other work slows the real arm down and never speeds it up, so the best of a few runs is compared.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of, plan_of

from virtlab.plan import Plan, Trial

TOLERANCE = 0.05
TRIES = 4
MOST_BIT_PER_S = 1e8 * 1448 / 1538


def plan(congestion_control: str) -> Plan:
    values: dict[str, Any] = json.loads(plan_of().canonical())
    values["roles"]["probe"] = {
        "workload": "tcp_stream", "from": "a", "to": "b", "duration_ns": 2 * 10**9,
        "congestion_control": congestion_control,
    }  # fmt: skip
    return Plan.parse(json.dumps(values))


def goodput_bit_per_s(arm: str, congestion_control: str) -> float | None:
    """What the receiver read from its first interval's beginning to its last one's end; None when nothing was played."""
    chosen, kept = plan(congestion_control), Kept()
    with backend_of(arm).open(chosen, Watcher()) as session:
        outcome = session.run(Trial("t0", 7), kept)
    if outcome.status not in PLAYED:
        return None
    received = kept.column("probe", "interval/1", "received_bytes")
    begin, end = (kept.column("probe", "interval/1", name)[received > 0] for name in ("begin_ns", "end_ns"))
    return float(received.sum()) * 8e9 / float(end.max() - begin.min())


@pytest.mark.xdist_group("testbed")
@pytest.mark.parametrize("congestion_control", ["cubic", "newreno"])
def test_a_flow_has_the_same_goodput_on_both_arms(congestion_control: str) -> None:
    simulated = goodput_bit_per_s("simulator", congestion_control)
    assert simulated == pytest.approx(MOST_BIT_PER_S, rel=0.01)
    assert simulated is not None
    measured = 0.0
    for _ in range(TRIES):
        measured = max(measured, goodput_bit_per_s("testbed", congestion_control) or 0.0)
        if measured > (1 - TOLERANCE) * simulated:
            break
    if measured == 0.0:
        pytest.skip("this machine played no run to its end")
    assert measured == pytest.approx(simulated, rel=TOLERANCE)
