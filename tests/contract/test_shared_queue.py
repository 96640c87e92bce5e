"""Guests of one host wait for each other in front of its wire: one body, played on both arms.

On each of two hosts stand a guest that is measured and one that loads the wire with bursts. What is asserted is what no
noise changes: how long the longest of many probes waited at least, and what was counted.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import LINK_BIT_PER_S, PLAYED, Kept, backend_of, plan_of, played

from virtlab.plan import Backend, Plan, Session

BURST_BYTES = 60_000
BURST_NS = 41 * 123_040  # full frames of 1538 B of wire
WIRE_NS = 4 * 122_080


def plan(pushback: str, **load: Any) -> Plan:
    """Probes of a while c loads the same wire; both hosts have the same pushback."""
    values = json.loads(plan_of(count=100, interval_ns=7_300_000).canonical())
    world = values["world"]
    for number, (old, new) in enumerate((("a", "c"), ("b", "d")), start=3):
        guest = json.loads(json.dumps(world["guests"][old]))
        guest["vnics"]["eth0"] |= {"mac": f"02:00:00:00:00:0{number}", "ip": [f"10.0.0.{number}/24"]}
        world["guests"][new] = guest
    world["hosts"] = {name: {} if pushback == "guest" else {"pushback": pushback} for name in world["hosts"]}
    if pushback != "guest":
        for guest in world["guests"].values():
            del guest["vnics"]["eth0"]["pushback_bit_per_s"]
    values["roles"]["load"] = {
        "workload": "burst_load", "from": "c", "to": "d", "protocol": "udp", "burst_bytes": BURST_BYTES, "streams": 1,
        "period_ns": 10_000_000, "direction": "one_way", "origin": "from", "phase": "fixed", "duration_ns": 10**11,
        **load,
    }  # fmt: skip
    measure, *rest = values["timeline"]
    measure["after"] = {"event": "load.started", "plus_ns": 50_000_000}
    values["timeline"] = [
        {"id": "load", "do": "start", "role": "load"},
        measure,
        {"id": "end", "do": "stop", "role": "load", "after": {"event": "measure.finished"}},
        *rest,
    ]
    values["collect"] = {"packets": ["probe", "load"], "counters": ["links", "vnics"]}
    return Plan.parse(json.dumps(values))


@pytest.fixture(scope="module", params=("simulator", "testbed"))
def backend(request: pytest.FixtureRequest) -> Backend:
    return backend_of(request.param)


def counted(kept: Kept, entity: str, counter: str) -> int:
    """Over the run."""
    rows = [
        (int(at), int(value))
        for block in kept.blocks["counters", "counter/1"]
        for at, each, name, value in zip(
            block["t_ns"], block["entity"], block["counter"], block["value"], strict=True
        )
        if (each, name) == (entity, counter)
    ]
    assert rows, f"{entity} has no {counter}"
    return max(rows)[1] - min(rows)[1]


def waits(kept: Kept) -> np.ndarray:
    """Of the probes, beyond their own time on the wire."""
    return kept.column("probe", "rtt/1", "rtt_ns") - WIRE_NS


def test_a_probe_waits_behind_its_neighbours_burst_in_the_queue_that_they_share(backend: Backend) -> None:
    outcome, kept = played(backend, plan("uplink"))
    assert outcome.status in PLAYED, outcome.reasons
    assert len(waits(kept)) >= 95
    # Probes sweep over the period, so one of a hundred comes soon after the burst and waits for nearly all of it.
    assert waits(kept).max() > 0.8 * BURST_NS
    assert waits(kept).mean() > 0.15 * BURST_NS
    assert counted(kept, "uplinks.h1.up", "packets") > 41 * 50
    assert counted(kept, "uplinks.h1.up", "drops") == 0
    assert counted(kept, "links.l0.ab", "drops") == 0


def test_with_a_queue_of_its_own_no_guest_waits_for_more_than_ten_frames_of_another(backend: Backend) -> None:
    outcome, kept = played(backend, plan("guest"))
    assert outcome.status in PLAYED, outcome.reasons
    # Ten frames and the one on the wire; a busy machine may add as much again to half of the probes.
    assert np.median(waits(kept)) < 2 * 11 * 123_040


def test_as_fast_as_possible_is_the_wires_rate_for_who_shares_it(backend: Backend) -> None:
    """A stream without a rate loses next to nothing: its socket is held back by the queue in front of the wire."""
    values = json.loads(plan("uplink").canonical())
    values["roles"] = {
        "stream": {
            "workload": "udp_stream", "from": "c", "to": "d", "payload_bytes": 1472, "duration_ns": 1_000_000_000,
            "arrivals": "constant",
        }
    }  # fmt: skip
    values["timeline"] = [
        {"id": "stream", "do": "run", "role": "stream"},
        {"id": "drain", "do": "wait", "for_ns": 500_000_000, "after": {"event": "stream.finished"}},
    ]
    values["windows"] = {"measured": {"from": "stream.started", "to": "stream.finished"}}
    values["collect"]["packets"] = ["stream"]
    outcome, kept = played(backend, Plan.parse(json.dumps(values)))
    assert outcome.status in PLAYED, outcome.reasons
    assert counted(kept, "uplinks.h1.up", "drops") == 0
    octets = 1538 * counted(kept, "uplinks.h1.up", "packets")
    most = LINK_BIT_PER_S / 8 * 1.5
    assert 0.9 * LINK_BIT_PER_S / 8 < octets < most


def test_what_has_no_room_is_dropped_there_and_counted_apart_from_the_way(backend: Backend) -> None:
    """Forty sockets with 65 kB each are held back by none of them: 1760 frames come for a thousand places."""
    burst = {"burst_bytes": 40 * 65_000, "streams": 40, "period_ns": 1_000_000_000}
    outcome, kept = played(backend, plan("uplink", **burst))
    assert outcome.status in PLAYED, outcome.reasons
    assert counted(kept, "uplinks.h1.up", "drops") > 0
    assert counted(kept, "links.l0.ab", "drops") == 0


def opened(backend: Backend, asked: Plan) -> Session:
    from tests.contract.test_backend_contract import Watcher

    return backend.open(asked, Watcher())


def test_the_shared_queue_is_told_as_it_was_realised(backend: Backend) -> None:
    with opened(backend, plan("uplink")) as session:
        told = {name for name in session.realised.objects if name.startswith("uplinks.")}
        assert told == {"uplinks.h1.up", "uplinks.h2.up"}
        thing = session.realised.objects["uplinks.h1.up"]
        assert thing.intended == {"pushback": "uplink", "host": "h1", "link": "l0"}
        assert "1000" in json.dumps(thing.read_back)
    with opened(backend, plan("guest")) as session:
        assert not [name for name in session.realised.objects if name.startswith("uplinks.")]
