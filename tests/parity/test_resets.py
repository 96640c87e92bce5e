"""A router that is reset, on both arms: one gap, about as long as it was away, in a stream that it forwards.

A datagram a millisecond; the router's vNICs are down for 200 ms. The simulator loses exactly those of that time. A
machine needs a while to take links down and up, carrier included, and may stall, router or sender: so of a few runs one
has to lose as many, or up to 150 more.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of
from tests.theory.routed import routed

from virtlab.plan import Plan, Trial

TRIES = 8
DOWN_MS = 200
STREAM = {"workload": "udp_stream", "size": "500 B ip_packet", "rate": "4 Mbit/s", "duration": "800 ms"}


def plan() -> Plan:
    values = json.loads(routed({"probe": STREAM}).canonical())
    begun = next(action["id"] for action in values["timeline"] if action.get("role") == "probe")
    after = {"event": f"{begun}.started", "plus_ns": 200_000_000}
    values["timeline"].append(
        {"id": "cut", "do": "reset", "guest": "r1", "for_ns": DOWN_MS * 10**6, "after": after}
    )
    return Plan.parse(json.dumps(values))


def gap_ms(arm: str, chosen: Plan) -> int | None:
    """Datagrams that are missing, which all are in one gap; None when the run says nothing."""
    kept = Kept()
    backend = backend_of(arm)
    assert not backend.check(chosen)
    with backend.open(chosen, Watcher()) as session:
        if session.run(Trial("t0", 7), kept).status not in PLAYED:
            return None
    assert any(event.what == "cut.how" for event in kept.events), "each arm says what a reset is to it"
    seq = np.sort(kept.column("probe", "packet/1", "seq"))
    gaps = np.diff(seq) - 1
    return int(gaps.max()) if len(seq) and (gaps > 5).sum() == 1 else None


def test_what_a_reset_router_loses_is_what_was_sent_while_it_was_away() -> None:
    chosen = plan()
    simulated = gap_ms("simulator", chosen)
    assert simulated == DOWN_MS
    measured: list[int] = []
    for _ in range(TRIES):
        gap = gap_ms("testbed", chosen)
        measured += [] if gap is None else [gap]
        if gap is not None and DOWN_MS - 1 <= gap <= DOWN_MS + 150:
            return
    if not measured:
        pytest.skip("this machine played no run to its end")
    pytest.fail(f"datagrams lost in the runs: {measured}")
