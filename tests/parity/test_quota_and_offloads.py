"""A CPU quota and segments that go together, on both arms: what they look like, not how fast a machine is.

A guest with a share q of a processor that sends as fast as it can pauses once each period of 100 ms, for about 1 - q of
it, wherever its sending costs a process its time. A TCP stream over a virtual switch with offloads goes in frames of
many segments, up to 45 of 1448 B; without them in frames that fit the MTU.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of, plan_of

from virtlab.plan import Backend, Plan, Trial
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Parameter, Profile

TRIES = 8
PERIOD_NS = 100_000_000
QUOTA = 0.05  # so little that other work on the machine leaves it as much
HEADERS_BYTES = 14 + 20 + 32
COSTS = Profile(
    "parity",
    2,
    {
        name: Parameter(ns)
        for name, ns in {
            "platform.namespace.send_ns": 5000.0,
            "platform.namespace.message_ns": 500.0,
            "vswitch.linux_bridge.packet_ns": 500.0,
        }.items()
    },
)


def on_one_bridge(role: dict[str, Any], **guest: Any) -> Plan:
    """Both guests on one virtual switch, with no links."""
    values = json.loads(plan_of(count=5).canonical())
    world = values["world"]
    world["guests"]["b"]["host"] = world["guests"]["a"]["host"]
    world["guests"]["a"] |= guest
    for each in world["guests"].values():
        vnic = each["vnics"]["eth0"]
        vnic.pop("pushback_bit_per_s", None)
        vnic |= {"vswitch": world["guests"]["a"]["vnics"]["eth0"]["vswitch"]}
        if "offloads" in role:
            vnic["offloads"] = role["offloads"]
    kept = world["guests"]["a"]["vnics"]["eth0"]["vswitch"]
    world["vswitches"] = {kept: {**world["vswitches"][kept], "uplinks": []}}
    world["hosts"] = {world["guests"]["a"]["host"]: {"at": "local"}}
    world["links"], world["switches"] = {}, {}
    own = {key: value for key, value in role.items() if key != "offloads"}
    values["roles"]["probe"] = {"from": "a", "to": "b", **own}
    values["collect"]["counters"] = ["vnics"]
    values["because"] = {}
    return Plan.parse(json.dumps(values))


def arms() -> dict[str, Backend]:
    return {"simulator": Simulator(COSTS), "testbed": backend_of("testbed")}


def played(backend: Backend, chosen: Plan) -> Kept | None:
    kept = Kept()
    assert not backend.check(chosen), backend.check(chosen)
    with backend.open(chosen, Watcher()) as session:
        return kept if session.run(Trial("t0", 7), kept).status in PLAYED else None


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups can only be made by root here")
def test_a_guest_that_sends_as_fast_as_it_can_pauses_once_each_period() -> None:
    flood = {"workload": "udp_stream", "payload_bytes": 100, "duration_ns": 12 * PERIOD_NS}
    for arm, backend in arms().items():
        for _ in range(TRIES):
            kept = played(backend, on_one_bridge(flood, cpu_quota_ratio=QUOTA))
            if kept is None:
                continue
            sent = np.sort(np.asarray(kept.column("probe", "packet/1", "sent_ns")))
            pauses = np.diff(sent)
            throttled = pauses[pauses > (1 - QUOTA) * PERIOD_NS / 3]
            begins = sent[:-1][pauses > (1 - QUOTA) * PERIOD_NS / 3]
            # What else runs on the machine breaks a run of the guest into pieces, or makes it miss a period: seldom
            # all.
            if 8 <= len(throttled) <= 13 and abs(np.median(np.diff(begins)) - PERIOD_NS) < 0.15 * PERIOD_NS:
                assert np.median(throttled) <= PERIOD_NS, arm
                break
        else:
            pytest.fail(f"{arm}: no run in which it paused once each period")


@pytest.mark.parametrize(
    ("offloads", "least", "most"), [("off", 1000, 1514), ("default", 10_000, 45 * 1448 + HEADERS_BYTES)]
)
def test_a_stream_crosses_a_virtual_switch_in_frames_of_many_segments_where_they_may_go_together(
    offloads: str, least: int, most: int
) -> None:
    stream = {"workload": "tcp_stream", "duration_ns": 500_000_000, "offloads": offloads}
    for arm, backend in arms().items():
        kept = next(
            (kept for _ in range(TRIES) if (kept := played(backend, on_one_bridge(stream))) is not None), None
        )
        if kept is None:
            pytest.skip("this machine played no run to its end")
        read = {
            (mark, counter): int(value)
            for block in kept.blocks["counters", "counter/1"]
            for mark, entity, counter, value in zip(
                *(block[name] for name in ("mark", "entity", "counter", "value")), strict=True
            )
            if entity == "guests.a.vnics.eth0"
        }
        packets, octets = (
            read["end", name] - read.get(("begin", name), 0) for name in ("sent_packets", "sent_bytes")
        )
        assert least < octets / packets <= most, arm
