"""Guests behind one wire wait for each other: the queue that they share, in virtual time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.theory.simulated import Values, counters, simulated, values_of

from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.prediction.bound import echo_bound

FRAME_NS = 123_040  # 1500 B with header, checksum, preamble and gap at 100 Mbit/s
BURST = 65_000  # B of payload: 44 fragments
PERIOD_NS = 10_000_000


def shared(values: Values, pushback: str = "uplink") -> Values:
    """The world with two guests on each host, of which the second pair, c and d, loads the wire."""
    world = values["world"]
    for number, (old, new) in enumerate((("a", "c"), ("b", "d")), start=3):
        guest = json.loads(json.dumps(world["guests"][old]))
        guest["vnics"]["eth0"] |= {"mac": f"02:00:00:00:00:0{number}", "ip": [f"10.0.0.{number}/24"]}
        world["guests"][new] = guest
    for host in world["hosts"].values():
        host["pushback"] = pushback
    if pushback != "guest":
        for guest in world["guests"].values():
            guest["vnics"]["eth0"].pop("pushback_bit_per_s", None)
    return values


def loaded(values: Values, **load: Any) -> Values:
    values["roles"]["load"] = {
        "workload": "burst_load", "from": "c", "to": "d", "protocol": "udp", "burst_bytes": BURST, "streams": 1,
        "period_ns": PERIOD_NS, "direction": "one_way", "origin": "from", "phase": "fixed", "duration_ns": 10**12,
        **load,
    }  # fmt: skip
    measure, *rest = values["timeline"]
    measure["after"] = {"event": "load.started", "plus_ns": 0}
    values["timeline"] = [{"id": "load", "do": "start", "role": "load"}, measure, *rest]
    values["collect"]["packets"].append("load")
    return values


def echoes(values: Values) -> np.ndarray:
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    return kept.column("probe", "rtt/1", "rtt_ns")


@pytest.mark.slow
def test_a_probe_waits_behind_the_burst_of_its_neighbour() -> None:
    """A burst of n frames occupies the wire for n serialisations; a probe that comes u after it waits for the rest.

    So the longest of many that sweep over the period waits nearly as long as the whole burst takes, where with a queue
    of its own it meets ten frames at the most.
    """
    idle_ns = 4 * (FRAME_NS - 960)  # the gap behind it belongs to the next
    found = {
        pushback: echoes(
            loaded(
                shared(values_of(pushback=True, count=500, interval_ns=10_100_000), pushback),
                period_ns=PERIOD_NS,
            )
        )
        - idle_ns
        for pushback in ("uplink", "guest")
    }
    burst_ns = 44 * FRAME_NS
    assert 0.9 * burst_ns < found["uplink"].max() <= burst_ns
    assert found["guest"].max() <= 11 * FRAME_NS
    mean_ns = burst_ns**2 / 2 / PERIOD_NS  # of what is left of a burst at a random moment of the period
    assert found["uplink"].mean() == pytest.approx(mean_ns, rel=0.1)


def test_one_guest_alone_waits_in_a_shared_queue_as_in_its_own() -> None:
    def alone(pushback: str) -> np.ndarray:
        values = loaded(shared(values_of(pushback=True, count=200, interval_ns=10_100_000), pushback))
        values["roles"]["load"] |= {"from": "a", "to": "b"}
        return echoes(values)

    assert np.array_equal(alone("uplink"), alone("guest"))


def test_a_sender_without_an_end_is_held_back_and_loses_nothing() -> None:
    """As fast as possible is the rate of the wire, shared by two."""
    values = shared(values_of(pushback=True, count=20))
    stream = {
        "workload": "udp_stream", "payload_bytes": 1472, "duration_ns": 500_000_000, "arrivals": "constant",
    }  # fmt: skip
    values["roles"] |= {"one": stream | {"from": "a", "to": "b"}, "other": stream | {"from": "c", "to": "d"}}
    values["timeline"] = [
        {"id": "one", "do": "run", "role": "one"},
        {"id": "other", "do": "run", "role": "other", "after": {"event": "one.started"}},
        {
            "id": "drain",
            "do": "wait",
            "for_ns": 300_000_000,
            "after": {"all": ["one.finished", "other.finished"]},
        },
    ]
    values["windows"] = {}
    values["collect"]["packets"] = ["one", "other"]
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    end = counters(kept, "end")
    assert end["uplinks.h1.up", "drops"] == 0
    assert end["links.l0.ab", "drops"] == 0
    octets = 8 * 1538 * end["uplinks.h1.up", "packets"]
    # Half a second, and at its end what two sockets of 1 MiB hold: 455 frames each.
    assert octets == pytest.approx(100_000_000 * 0.5 + 8 * 1538 * 2 * 455, rel=0.02)
    assert end["guests.a.vnics.eth0", "sent_packets"] == pytest.approx(
        end["guests.c.vnics.eth0", "sent_packets"], rel=0.1
    )


def test_what_does_not_fit_is_counted_where_it_is_dropped() -> None:
    """Thirty streams of 65 kB at once are 1320 frames: ten go at once, a thousand wait, the rest is its senders'
    own.
    """
    values = loaded(
        shared(values_of(pushback=True, count=1)), burst_bytes=30 * BURST, streams=30, period_ns=10**9
    )
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    end = counters(kept, "end")
    assert end["uplinks.h1.up", "drops"] > 0
    assert end["links.l0.ab", "drops"] == 0
    sent = sum(end[f"guests.{guest}.vnics.eth0", "sent_packets"] for guest in ("a", "c"))
    waiting = end["uplinks.h1.up", "backlog_packets"]
    assert sent == end["uplinks.h1.up", "packets"] + end["uplinks.h1.up", "drops"] + waiting


def test_without_pushback_only_the_queue_of_the_link_is_there() -> None:
    values = loaded(shared(values_of(pushback=True, count=50, limit_packets=20), "none"))
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    end = counters(kept, "end")
    assert end["links.l0.ab", "drops"] > 0
    assert ("uplinks.h1.up", "drops") not in end


@pytest.mark.parametrize(("burst", "streams"), [("60 kB", 1), ("30 kB", 3)])
def test_no_round_trip_is_longer_than_its_bound(burst: str, streams: int) -> None:
    experiment = load_text(f"""
version: 1
name: bound
hosts: 2
host: {{guests: 2, pushback: uplink}}
topology: line
link: {{rate: 100 Mbit/s, queue: {{kind: fifo, limit: 1000 packets}}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10.1 ms, count: 400}}
  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: {burst}, period: 10 ms, streams: {streams},
         direction: one_way}}
""")
    plan = plan_run(experiment, experiment.points()[0], 0)
    longest_ns = echoes(json.loads(plan.canonical())).max()
    bound_ns = echo_bound(plan, "probe").ns
    assert longest_ns <= bound_ns <= 1.2 * longest_ns
