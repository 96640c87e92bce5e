"""Worlds for tests of the simulator: two guests on a line of switches, and what is asked of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.contract.test_backend_contract import Kept, Watcher, plan_of

from virtlab.plan import Outcome, Plan, Trial
from virtlab.simulator import Simulator

Values = dict[str, Any]


def values_of(*, switches: int = 1, limit_packets: int = 1000, pushback: bool = False, **role: Any) -> Values:
    """The contract's Plan as values: `role` are parameters of its probe."""
    values: Values = json.loads(plan_of(switches=switches, **role).canonical())
    for guest in values["world"]["guests"].values():
        for vnic in guest["vnics"].values():
            if not pushback:
                del vnic["pushback_bit_per_s"]
    for link in values["world"]["links"].values():
        link["queue"] = {way: {"limit_packets": limit_packets} for way in ("ab", "ba")}
    values["collect"]["counters"] = ["links", "vnics"]
    values["limits"]["run_ns"] = 10**12
    return values


def beside(values: Values, load: Mapping[str, Any]) -> Values:
    """With a load that begins 50 ms before the probe and goes on."""
    values["roles"]["load"] = {"workload": "burst_load", "from": "a", "to": "b", **load}
    measure, *rest = values["timeline"]
    measure["after"] = {"event": "load.started", "plus_ns": 50_000_000}
    values["timeline"] = [{"id": "load", "do": "start", "role": "load"}, measure, *rest]
    values["collect"]["packets"].append("load")
    return values


def parsed(values: Values) -> Plan:
    """Values as a Plan."""
    return Plan.parse(json.dumps(values))


def simulated(values: Values, seed: int = 1) -> tuple[Outcome, Kept]:
    """One run."""
    kept = Kept()
    with Simulator().open(parsed(values), Watcher()) as session:
        return session.run(Trial("t0", seed), kept), kept


def counters(kept: Kept, mark: str) -> dict[tuple[str, str], int]:
    """Values of all counters at a mark."""
    (block,) = kept.blocks["counters", "counter/1"]
    rows = zip(block["mark"], block["entity"], block["counter"], block["value"], strict=True)
    return {(entity, counter): int(value) for at, entity, counter, value in rows if at == mark}
