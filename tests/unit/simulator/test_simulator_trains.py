"""Fragments that are played together are what frame by frame makes of them: the same samples and counters, to the byte.

A world in which a guest is reset is played by events, every frame of it. So a bystander is reset after all is over, and
nothing else may differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from virtlab._native import Simulation

from virtlab.experiment import load
from virtlab.planner import plan_run
from virtlab.planner.queues.ports import all_ports, with_port_links
from virtlab.simulator.lower import lower
from virtlab.simulator.session import ordered_once

FILE = Path(__file__).parents[3] / "experiments" / "switched-network" / "full.yaml"


def world(switches: int, guests: int, streams: int, load_bytes: int, **changes: Any) -> dict[str, Any]:
    """The study's world at one point, with fewer probes, as the core is given it."""
    experiment = load(FILE)
    levels = {"switches": str(switches), "guests": str(guests), "streams": str(streams), "load": "30 kB"}
    point = next(point for point in experiment.points() if dict(point.levels) == levels)
    plan = with_port_links(plan_run(experiment, point, 0), all_ports)
    lowered: dict[str, Any] = json.loads(json.dumps({**lower(ordered_once(plan), 3), "costs": None}))
    for role in lowered["roles"]:
        own = role["parameters"]
        if role["workload"] == "rtt":
            own.update(count=60, interval_ns=changes.get("probe_ns", 20_300_000))
        else:
            own.update(burst_bytes=load_bytes, origin=changes.get("origin", "from"))
    for link in lowered["fabric"]["links"].values():
        for queue in link["queue"].values():
            queue["limit_packets"] = changes.get("limit", 100)
        link["rate_bit_per_s"] = changes.get("rate", link["rate_bit_per_s"])
    for vnic in lowered["vnics"]:
        vnic["pushback_bit_per_s"] = changes.get("pushback", vnic["pushback_bit_per_s"])
    return lowered


def by_events(lowered: dict[str, Any]) -> dict[str, Any]:
    """The same world with a bystander that is reset once all roles have finished."""
    bystander = {"forwards": False, "addresses": ["10.9.9.9"], "routes": []}
    last = lowered["timeline"][-1]["id"]
    reset = {
        "id": "late",
        "do": "reset",
        "after": {"events": [f"{last}.done"], "any": False, "plus_ns": 0},
        "guest": len(lowered["guests"]),
    }
    return {
        **lowered,
        "guests": [*lowered["guests"], bystander],
        "timeline": [*lowered["timeline"], reset],
    }


def played(lowered: dict[str, Any]) -> tuple[dict[str, Any], int]:
    tables, events, reasons = ended(lowered)
    assert not reasons
    return tables, events


def ended(lowered: dict[str, Any]) -> tuple[dict[str, Any], int, list[str]]:
    """Samples and counters, the events played, and why the pass failed, if it did."""
    simulation = Simulation(json.dumps(lowered))
    while not simulation.play(1_000_000):
        pass
    found = simulation.outcome()
    tables = {
        f"{stream} {schema}": {name: list(column) for name, column in columns.items()}
        for stream, schema, columns in found["tables"]
    }
    return tables, found["events"], found["reasons"]


@pytest.mark.parametrize(
    ("point", "changes"),
    [
        ((1, 1, 1, 65_000), {}),
        ((2, 2, 3, 85_000), {}),
        ((2, 2, 3, 14_000), {"probe_ns": 313_000}),  # probes come between fragments
        ((1, 2, 2, 60_000), {"probe_ns": 90_000, "origin": "both"}),
        ((2, 1, 3, 60_000), {"limit": 6, "origin": "both"}),  # some are refused
        ((1, 2, 2, 40_000), {"rate": 33_000_000, "limit": 20}),
        ((2, 2, 3, 190_000), {"origin": "both", "probe_ns": 1_000_000}),  # sockets wait for room
        ((1, 2, 3, 50_000), {"pushback": None, "limit": 8}),  # all come at once
    ],
    ids=["one", "three", "between", "both", "refused", "slow", "room", "at once"],
)
def test_a_train_is_what_events_make_of_its_frames(
    point: tuple[int, int, int, int], changes: dict[str, Any]
) -> None:
    lowered = world(*point, **changes)
    together, few = played(lowered)
    apart, many = played(by_events(lowered))
    assert few < many
    for stream in together:
        for name, column in together[stream].items():
            assert column == apart[stream][name], f"{stream}: {name}"
