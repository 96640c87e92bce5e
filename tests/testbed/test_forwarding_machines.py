"""Virtual machines that forward between namespaces: with para-virtual and emulated devices, at layer 3 and at layer
2.
"""

from __future__ import annotations

from pathlib import Path

import forwarding_world as forwarding
import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.experiment import load
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.image import find
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]
GUESTS = ["para", "emulated"]
FRAMES = 200  # of both flows


NO_OVS = pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))


def world(layer: str, vswitch: str = "linux_bridge") -> Plan:
    """Two machines side by side; the emulated device is e1000 where its driver's kernel is there."""
    emulated = "e1000" if find("generic") is not None else "virtio"
    models = dict(zip(GUESTS, ("virtio", emulated), strict=True))
    guests = {
        name: f"platform: qemu, vnic_model: {model}, forwarding: {layer}" for name, model in models.items()
    }
    return forwarding.plan(guests, rate_pps=FRAMES, duration_s=1, vswitch=vswitch)


def test_every_flow_goes_through_its_own_machine_at_layer_2_and_is_conserved() -> None:
    plan = world("layer2")
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        forwarding.check_flows(forwarding.play(session, FRAMES), GUESTS, FRAMES)


@pytest.mark.parametrize("vswitch", ["linux_bridge", pytest.param("ovs-netdev", marks=NO_OVS)])
def test_a_machine_routes_its_own_flow_and_as_before_when_it_was_reset(vswitch: str) -> None:
    """By its button: its kernel begins again, and it is told its network again."""
    plan = world("layer3", vswitch)
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        forwarding.check_flows(forwarding.play(session, FRAMES, "before"), GUESTS, FRAMES)
        forwarding.check_reset(session, GUESTS, FRAMES, "qemu")


ROUTED = """
version: 1
name: routed
hosts: {h1: {vswitch: linux_bridge}, h2: {vswitch: linux_bridge}}
routers: [r1]
router: {platform: qemu, licence: 2 Mbit/s}
link: {rate: 1 Gbit/s, realise: shaping}
links: {left: {ends: [h1, r1]}, right: {ends: [h2, r1]}}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1400 B ip_packet, interval: 100 ms, count: 5}
collect: {series: {}}
"""


def test_a_router_that_is_a_machine_routes_under_its_licence(tmp_path: Path) -> None:
    file = tmp_path / "routed.yaml"
    file.write_text(ROUTED)
    experiment = load(file)
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert plan.world.guests["r1"].platform == "qemu"
    assert Testbed().check(plan) == []
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        for number in range(3):  # an emulated processor that stands still may lose a reply
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            if sink.rows("probe", "rtt/1"):
                break
    assert sink.rows("probe", "rtt/1") > 0
