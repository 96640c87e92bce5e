"""Containers that forward, at layer 3 and 2: every flow goes through its own, and one that was reset forwards again."""

from __future__ import annotations

import container_world as containers
import forwarding_world as forwarding
import pytest
import testbed_world as worlds

from virtlab.catalogue import PLATFORMS
from virtlab.plan import Action, Trial
from virtlab.plan.model import Trigger
from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing())),
    pytest.mark.timeout(300),
]
GUESTS = ["one", "two"]
FRAMES = 200  # of both flows
NO_OVS = pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
VSWITCHES = ["linux_bridge", pytest.param("ovs-netdev", marks=NO_OVS)]


def lost_of_flows(sink: worlds.MemorySink) -> list[int]:
    """Frames of each flow that were sent and did not arrive."""
    stop = sink.counters("stop")
    return [
        stop["load/client", f"flow{flow}.sent_packets"] - stop["load/server", f"flow{flow}.received_packets"]
        for flow in range(len(GUESTS))
    ]


@pytest.mark.parametrize("layer", ["layer3", "layer2"])
@pytest.mark.parametrize("vswitch", VSWITCHES)
def test_every_flow_goes_through_its_own_container_also_after_a_reset(vswitch: str, layer: str) -> None:
    """All vNICs of the first go down and up while it forwards: what was sent meanwhile is lost, and of its flow
    only.
    """
    guests = dict.fromkeys(GUESTS, f"platform: container, forwarding: {layer}")
    plan = forwarding.plan(guests, rate_pps=FRAMES, duration_s=1, vswitch=vswitch)
    gone = Action(
        id="gone", do="reset", guest="sut.one", for_ns=200_000_000,
        after=Trigger(event="load.started", plus_ns=300_000_000),
    )  # fmt: skip
    played = Trial("reset", 1, also=(gone,))
    assert Testbed().check(played.plan(plan)) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        forwarding.check_flows(forwarding.play(session, FRAMES), GUESTS, FRAMES)
        for _ in range(forwarding.TRIES):  # a sender that stands still meanwhile loses nothing
            during = worlds.MemorySink()
            outcome = session.run(played, during)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            lost = lost_of_flows(during)
            if lost[0] > lost[1]:
                break
        forwarding.check_flows(forwarding.play(session, FRAMES), GUESTS, FRAMES)
    reset = PLATFORMS["container"].reset
    assert reset is not None
    assert [event.details["text"] for event in during.events if event.what == "gone.how"] == [reset.how]
    assert lost[0] > lost[1]
