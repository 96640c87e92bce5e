"""What disciplines do to marked flows, what random arrivals wait, and which frames a rule takes: known in closed
form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.theory.simulated import Values, counters, simulated, values_of

FRAME_NS = 123_040  # 1500 B of IP packet at 100 Mbit/s
RULES: dict[str, dict[str, Any]] = {
    "dscp": {"dscp": [46]},
    "protocol": {"protocol": 17},
    "source": {"source": "10.0.0.1/32"},
    "destination": {"destination": "10.0.0.2/32"},
    "destination port": {"protocol": 17, "destination_port": [1, 65535]},
    "source port": {"source_port": [1, 65535]},
    "all flows": {"flow": [0, 1]},
}


def with_queue(values: Values, queue: dict[str, Any]) -> Values:
    for link in values["world"]["links"].values():
        link["queue"] = {"ab": queue, "ba": queue}
    return values


def tcp(queue: dict[str, Any], **own: Any) -> dict[tuple[str, str], int]:
    """Counters after ten seconds of one flow with 20 ms of propagation."""
    values = with_queue(values_of(), queue)
    values["roles"]["probe"] = {
        "workload": "tcp_stream", "from": "a", "to": "b", "duration_ns": 10 * 10**9, **own,
    }  # fmt: skip
    for link in values["world"]["links"].values():
        link["propagation_ns"] = 5_000_000
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    sent = int(kept.column("probe", "interval/1", "received_bytes").sum())
    return {
        **counters(kept, "end"),
        ("probe", "received"): sent,
        ("probe", "retransmits"): int(kept.column("probe", "interval/1", "retransmits").sum()),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["codel", "fq_codel"])
def test_a_flow_that_speaks_ecn_is_marked_where_another_is_dropped(kind: str) -> None:
    queue = {"kind": kind, "parameters": {"ecn": True, "target_ns": 1_000_000, "interval_ns": 20_000_000}}
    marking, dropping = tcp(queue, ecn=True), tcp(queue)
    line = "links.l0.ab"
    assert marking[line, "marked_packets"] > 3
    assert marking[line, "drops"] == marking["probe", "retransmits"] == 0
    assert dropping[line, "marked_packets"] == 0
    assert dropping["probe", "retransmits"] >= dropping[line, "drops"] > 3
    for found in (marking, dropping):
        assert found["probe", "received"] * 8 / 10 > 0.8e8 * 1448 / 1538


@pytest.mark.slow
def test_a_queue_that_does_not_mark_drops_a_flow_that_speaks_ecn_too() -> None:
    found = tcp({"kind": "codel", "parameters": {"target_ns": 1_000_000}}, ecn=True)
    assert found["links.l0.ab", "marked_packets"] == 0 < found["links.l0.ab", "drops"]


@pytest.mark.slow
@pytest.mark.parametrize("utilisation", [0.5, 0.8])
def test_poisson_arrivals_wait_as_in_m_d_1(utilisation: float) -> None:
    values = values_of(limit_packets=10_000_000)
    rate = int(100_000_000 * 1500 / 1538 * utilisation)
    values["roles"]["probe"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "rate_bit_per_s": rate, "ip_packet_bytes": 1500,
        "arrivals": "poisson", "duration_ns": 20 * 10**9,
    }  # fmt: skip
    waits = []
    for seed in range(1, 6):
        outcome, kept = simulated(values, seed)
        assert outcome.status == "ok"
        delay = kept.column("probe", "packet/1", "received_ns") - kept.column("probe", "packet/1", "sent_ns")
        waits.append(float(np.mean(delay)) - 2 * (FRAME_NS - 960))  # two lines; the gap is behind the frame
    # Pollaczek-Khinchine for constant service: rho S / (2 (1 - rho)); behind the first line arrivals are spaced.
    expected = utilisation * FRAME_NS / (2 * (1 - utilisation))
    half = 4.604 * np.std(waits, ddof=1) / np.sqrt(len(waits))  # 99 % of Student's t with 4 degrees
    assert abs(np.mean(waits) - expected) <= max(half, 0.03 * expected)


def test_both_arms_draw_the_same_poisson_instants() -> None:
    values = values_of(interval_ns=1_000_000, count=200, arrivals="poisson")
    _, first = simulated(values, 7)
    _, again = simulated(values, 7)
    _, other = simulated(values, 8)
    instants = [kept.column("probe", "sent/1", "intended_ns").tolist() for kept in (first, again, other)]
    assert instants[0] == instants[1] != instants[2]
    gaps = np.diff(instants[0])
    assert 0.8e6 < gaps.mean() < 1.25e6
    assert 0.7 < gaps.std() / gaps.mean() < 1.3


def in_class(rule: dict[str, Any], role: dict[str, Any]) -> tuple[int, int]:
    """Frames of a role on the first line, and those of them that the rule takes."""
    queue = {
        "kind": "prio", "default": "rest", "match": [{"class": "picked", **rule}],
        "classes": {"picked": {"parameters": {"prio": 1}}, "rest": {"parameters": {"prio": 2}}},
    }  # fmt: skip
    values = with_queue(values_of(), queue)
    values["roles"]["probe"] = {"from": "a", "to": "b", **role}
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    found = counters(kept, "end")
    return found["links.l1.ab", "packets"], found["links.l1.ab.picked", "packets"]


@pytest.mark.parametrize("name", list(RULES))
def test_every_condition_takes_what_satisfies_it_and_nothing_else(name: str) -> None:
    echo = {
        "workload": "rtt",
        "protocol": "udp",
        "payload_bytes": 100,
        "interval_ns": 1_000_000,
        "count": 50,
        "dscp": 46,
    }
    values = values_of()
    own = values["world"]["guests"]["a"]["vnics"]
    address = next(iter(own.values()))["ip"][0].split("/")[0]
    far = next(iter(values["world"]["guests"]["b"]["vnics"].values()))["ip"][0].split("/")[0]
    rule = {
        key: (f"{address}/32" if key == "source" else f"{far}/32")
        if key in ("source", "destination")
        else value
        for key, value in RULES[name].items()
    }
    assert in_class(rule, echo) == (50, 50)
    if name != "all flows":
        frames = {"workload": "raw_stream", "frame_bytes": 100, "rate_pps": 1000, "duration_ns": 50_000_000}
        total, picked = in_class(rule, frames)
        assert total >= 49
        assert picked == 0, "frames without IP satisfy no condition on it"


@pytest.mark.parametrize("priority", [0, 5])
def test_a_tag_is_matched_by_its_priority(priority: int) -> None:
    frames = {"workload": "raw_stream", "frame_bytes": 100, "rate_pps": 1000, "duration_ns": 50_000_000}
    total, picked = in_class({"pcp": [5]}, {**frames, "priority": priority})
    assert total >= 49
    assert picked == (total if priority == 5 else 0)
    assert in_class({"pcp": [0]}, frames)[1] == 0, "a frame without a tag has no priority"


def test_code_points_of_tcp_choose_a_class() -> None:
    role = {"workload": "tcp_stream", "duration_ns": 10**9, "dscp": 10}
    total, picked = in_class({"dscp": [10]}, role)
    assert total == picked > 1000
