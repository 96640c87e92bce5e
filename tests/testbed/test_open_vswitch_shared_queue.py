"""Behind an Open vSwitch in user space, what the queue that guests share has no room for is dropped there and
counted.
"""

from __future__ import annotations

import pytest
import testbed_world as worlds
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher
from tests.contract.test_shared_queue import counted

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(
        (worlds.missing() or ovs.missing()) is not None, reason=str(worlds.missing() or ovs.missing())
    ),
    pytest.mark.timeout(300),
]
FILE = """\
version: 1
name: shared
hosts: 2
host: {guests: 2, vswitch: ovs-netdev, pushback: uplink}
topology: {shape: line, switches: 1}
link: {rate: 20 Mbit/s, realise: soft_switch}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 50 ms, count: 20}
  stream: {workload: udp_stream, from: h1.g2, to: h2.g2, size: 1472 B payload, rate: 60 Mbit/s, duration: 1 s}
timing: {warmup: 100 ms, drain: 1500 ms}
collect: {counters: [vnics, links]}
"""


def test_tap_drops_and_wire_add_up_and_the_sender_is_not_held_back() -> None:
    """Three times the wire's rate for a second: 5,000 frames for 1,000 places and the 1,700 that the wire takes."""
    experiment = load_text(FILE)
    plan, kept = plan_run(experiment, experiment.points()[0], 0), Kept()
    with Testbed().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status in PLAYED, outcome.reasons
    dropped, sent = counted(kept, "uplinks.h1.up", "drops"), counted(kept, "uplinks.h1.up", "packets")
    assert dropped > 0
    assert counted(kept, "host:h1.up-tap", "received_packets") == sent + dropped
    assert counted(kept, "links.h1-s1.ab", "drops") == 0
    assert len(kept.column("probe", "rtt/1", "rtt_ns")) > 0
