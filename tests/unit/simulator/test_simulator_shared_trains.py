"""Messages of several guests that go through one shared queue without events are what events make of them, to the
byte.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.simulator.test_simulator_trains import by_events, ended

from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.planner.queues.ports import all_ports, with_port_links
from virtlab.simulator.lower import lower
from virtlab.simulator.session import ordered_once

FEW = settings(max_examples=settings.default.max_examples * 3 // 5)
ENDS = ["h1.g1", "h1.g2", "h1.g3", "h2.g1", "h2.g2", "h2.g3"]
LIMIT_NS = 400_000_000  # a connection that has lost much is cut off there
FRAME = 1480  # payload of a full fragment, so that the last one is as long as the others


@st.composite
def roles(draw: st.DrawFn) -> dict[str, Any]:
    """A few roles between guests of two hosts, which begin at once and send for as long."""
    made: dict[str, Any] = {}
    for number in range(draw(st.integers(2, 4))):
        source, target = draw(st.permutations(ENDS))[:2]
        ends = {"from": source, "to": target}
        kind = draw(
            st.sampled_from(["burst_load", "burst_load", "rtt", "udp_stream", "tcp_stream", "raw_stream"])
        )
        frames, odd = draw(st.integers(1, 120)), draw(st.sampled_from([-8, -700, 1, 600]))
        if kind == "burst_load":
            streams = draw(st.integers(1, 3))
            own = {
                "burst": f"{min(frames * FRAME + odd, streams * 65_000)} B", "streams": streams,
                "period": draw(st.sampled_from(["10 ms", "7 ms", "1.2304 ms"])),
                "direction": draw(st.sampled_from(["request_reply", "one_way"])),
                "origin": draw(st.sampled_from(["from", "both"])),
                "phase": draw(st.sampled_from(["fixed", "random"])),
            }  # fmt: skip
        elif kind == "rtt":
            size = min(FRAME * frames + odd, 60_000)
            protocol, interval = (
                draw(st.sampled_from(["icmp", "udp"])),
                draw(st.sampled_from(["0.1 ms", "1 ms", "3.7 ms"])),
            )
            own = {"size": f"{size} B payload", "protocol": protocol, "interval": interval}
            own["count"] = draw(st.integers(5, 60))
        elif kind == "udp_stream":
            own = {"size": f"{min(FRAME * (frames % 9 + 1) + odd, 60_000)} B payload", "duration": "60 ms"}
            if draw(st.booleans()):
                own["rate"] = draw(st.sampled_from(["20 Mbit/s", "90 Mbit/s"]))
        elif kind == "raw_stream":
            own = {
                "size": "1518 B frame",
                "rate": "4 kpacket/s",
                "duration": "60 ms",
                "flows": draw(st.integers(1, 2)),
            }
        else:
            own = {"duration": "60 ms"}
        made[f"r{number}"] = {"workload": kind, **ends, **own}
    return made


def world(
    own: dict[str, Any], switches: int, limit: int, shared: int, seed: int, rate: str = "100 Mbit/s"
) -> dict[str, Any]:
    """The world as the core is given it, with room for so many frames in each shared queue."""
    experiment = load_text(
        json.dumps(
            {
                "version": 1, "name": "shared", "seed": seed, "hosts": 2, "host": {"guests": 3, "pushback": "uplink"},
                "topology": {"shape": "line", "switches": switches},
                "link": {"rate": rate, "queue": {"kind": "fifo", "limit": f"{limit} packets"}},
                "roles": own, "collect": {"counters": ["vnics", "links"]}, "repeat": 1,
            }
        )
    )  # fmt: skip
    plan = with_port_links(plan_run(experiment, experiment.points()[0], 0), all_ports)
    lowered: dict[str, Any] = json.loads(json.dumps({**lower(ordered_once(plan), 3), "costs": None}))
    for uplink in lowered["uplinks"]:
        uplink["limit_packets"] = shared
    lowered["limit_ns"] = LIMIT_NS
    return lowered


@pytest.mark.slow
@FEW
@given(
    own=roles(),
    switches=st.integers(1, 2),
    limit=st.sampled_from([1000, 1000, 30]),
    shared=st.sampled_from([1000, 1000, 40, 15]),
    seed=st.integers(0, 2**32),
)
def test_guests_that_share_a_queue_are_played_as_by_events(
    own: dict[str, Any], switches: int, limit: int, shared: int, seed: int
) -> None:
    lowered = world(own, switches, limit, shared, seed)
    together, few, reasons = ended(lowered)
    apart, many, others = ended(by_events(lowered))
    assert few <= many
    assert (together, reasons) == (apart, others)
