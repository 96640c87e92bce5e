"""One Plan on both arms: a TCP flow over a 100 Mbit/s soft switch has one goodput and queue in simulator and kernel.

A machine with other work slows the real arm down and never speeds it up, so the best of a few runs is compared. Of the
smoothed round trip the least of a run's 100 ms rows is compared: the window is held by the small queue at the vNIC, not
by loss, so it never falls, and every stall of the machine widens it (and with it the small queue) for good.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of, plan_of

from virtlab.plan import BLOCKS, Plan, Trial

TOLERANCE = 0.05
SRTT_RATIO = (0.8, 1.8)
TRIES = 8
MOST_BIT_PER_S = 1e8 * 1448 / 1538


def plan(congestion_control: str) -> Plan:
    values: dict[str, Any] = json.loads(plan_of().canonical())
    values["roles"]["probe"] = {
        "workload": "tcp_stream", "from": "a", "to": "b", "duration_ns": 2 * 10**9,
        "congestion_control": congestion_control,
    }  # fmt: skip
    return Plan.parse(json.dumps(values))


@dataclass(frozen=True, slots=True)
class Played:
    """What the receiver read from its first interval's beginning to its last one's end, and how the sender saw the
    path.
    """

    goodput_bit_per_s: float
    least_srtt_ns: int
    retransmits: int


def played(arm: str, congestion_control: str) -> Played | None:
    """One run; None when nothing was played."""
    chosen, kept = plan(congestion_control), Kept()
    with backend_of(arm).open(chosen, Watcher()) as session:
        outcome = session.run(Trial("t0", 7), kept)
    if outcome.status not in PLAYED:
        return None
    rows = {name: kept.column("probe", "interval/1", name) for name in BLOCKS["interval/1"].columns}
    read, sent = rows["received_bytes"] > 0, rows["sent_bytes"] > 0
    spent_ns = rows["end_ns"][read].max() - rows["begin_ns"][read].min()
    return Played(
        float(rows["received_bytes"].sum()) * 8e9 / float(spent_ns),
        int(rows["srtt_ns"][sent].min()),
        int(rows["retransmits"].sum()),
    )


@pytest.mark.parametrize("congestion_control", ["cubic", "newreno"])
def test_a_flow_has_the_same_goodput_and_queue_on_both_arms(congestion_control: str) -> None:
    simulated = played("simulator", congestion_control)
    assert simulated is not None
    assert simulated.goodput_bit_per_s == pytest.approx(MOST_BIT_PER_S, rel=0.01)
    assert simulated.retransmits == 0
    measured: list[Played] = []
    for _ in range(TRIES):
        if (one := played("testbed", congestion_control)) is None:
            continue
        measured.append(one)
        if _alike(simulated, measured):
            return
    if not measured:
        pytest.skip("this machine played no run to its end")
    pytest.fail(f"simulated {simulated}, measured {measured}")


def _alike(simulated: Played, measured: list[Played]) -> bool:
    goodput = max(one.goodput_bit_per_s for one in measured) / simulated.goodput_bit_per_s
    least, most = (ratio * simulated.least_srtt_ns for ratio in SRTT_RATIO)
    return (
        abs(goodput - 1) <= TOLERANCE
        and least <= min(one.least_srtt_ns for one in measured) <= most
        and min(one.retransmits for one in measured) == 0
    )
