"""A link that is slowed in mid-run holds each frame longer from then on, and has its rate again in the next trial."""

from __future__ import annotations

import numpy as np
import pytest
import testbed_world as worlds
from migration_world import slowed

from virtlab.catalogue.kinds import SLOWEST_BIT_PER_S
from virtlab.plan import Trial
from virtlab.testbed import Testbed

S = 1_000_000_000
IP_BYTES, OCTETS = 1400, 1400 + 38
RATE_BIT_PER_S, SLOW_BIT_PER_S = 100_000_000, 1_000_000
AFTER_NS = 400_000_000


@pytest.mark.parametrize("pushback", ["uplink", "none"])
@pytest.mark.parametrize("realise", ["soft_switch", "shaping"])
@pytest.mark.parametrize("rate_bit_per_s", [SLOW_BIT_PER_S, SLOWEST_BIT_PER_S])
def test_a_slowed_link_holds_frames_longer_and_the_next_trial_begins_with_its_rate(
    realise: str, pushback: str, rate_bit_per_s: int
) -> None:
    world = worlds.star(2)
    for link in world["links"].values():
        link["rate_bit_per_s"], link["realise"] = RATE_BIT_PER_S, realise
    for host in world["hosts"].values():
        host["pushback"] = pushback
    plan = worlds.echo_plan(
        world,
        roles={
            "probe": {
                "workload": "rtt", "from": "g1", "to": "g2", "protocol": "icmp", "ip_packet_bytes": IP_BYTES,
                "interval_ns": 10_000_000, "count": 120, "timeout_ns": S // 4,
            }
        },
    )  # fmt: skip
    plan = slowed(plan, "l0", rate_bit_per_s, {"event": "measure.started", "plus_ns": AFTER_NS})
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        for number in range(2):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", 1 + number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            rows = [columns for _, schema, columns in sink.blocks if schema == "rtt/1"]
            sent, rtt = (np.concatenate([each[name] for each in rows]) for name in ("sent_ns", "rtt_ns"))
            slow_ns = outcome.marks["slow.done"].t_ns
            assert slow_ns - outcome.marks["measure.started"].t_ns >= AFTER_NS
            before, after = rtt[sent < slow_ns - 20_000_000], rtt[sent > slow_ns + 100_000_000]
            assert before.size > 10
            assert np.median(before) < OCTETS * 8 * S / SLOW_BIT_PER_S / 2
            if rate_bit_per_s == SLOWEST_BIT_PER_S:
                assert after.size < 10, "hardly any is answered in time"
                continue
            assert after.size > 10
            # More is sent than it carries, so frames wait; a token bucket lets the first ones through at once.
            held_ns = OCTETS * 8 * S / SLOW_BIT_PER_S
            assert np.median(after) > held_ns
            if realise == "soft_switch":
                assert after.min() > 2 * held_ns
