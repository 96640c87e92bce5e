"""Virtual machines that forward between namespaces: with para-virtual and emulated devices, at layer 3 and at layer 2.

Generator and receiver are namespaces of one kernel, so frames are counted by flow and their delay by one clock.
"""

from __future__ import annotations

from pathlib import Path

import machine_world as machines
import numpy as np
import pytest
import testbed_world as worlds

from virtlab.experiment import load
from virtlab.plan import Action, Plan, Trial
from virtlab.plan.model import Trigger
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.image import find
from virtlab.testbed.resetting import BY_BUTTON

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]
GUESTS = ("sut.para", "sut.emulated")
FRAMES = 200  # of both flows
FILE = """
version: 1
name: machines
hosts:
  sut:
    vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
    guests:
      generator: {{vswitches: [br0], isolate: false}}
      receiver: {{vswitches: [br1], isolate: false}}
      para: {{platform: qemu, vnic_model: virtio, vswitches: [br0, br1], forwarding: {forwarding}}}
      emulated: {{platform: qemu, vnic_model: {emulated}, vswitches: [br0, br1], forwarding: {forwarding}}}
roles:
  load:
    workload: raw_stream
    from: sut.generator
    to: sut.receiver
    size: 512 B frame
    rate: 200 packet/s
    duration: 1 s
    via: [sut.para, sut.emulated]
collect: {{counters: [vnics], series: {{}}}}
"""


def world(forwarding: str, folder: Path) -> Plan:
    """Two machines side by side; the emulated device is e1000 where its driver's kernel is there."""
    emulated = "e1000" if find("generic") is not None else "virtio"
    file = folder / "machines.yaml"
    file.write_text(FILE.format(forwarding=forwarding, emulated=emulated))
    experiment = load(file)
    return plan_run(experiment, experiment.points()[0], 0)


@pytest.mark.parametrize("forwarding", ["layer3", "layer2"])
def test_every_flow_goes_through_its_own_machine_and_is_conserved(forwarding: str, tmp_path: Path) -> None:
    plan = world(forwarding, tmp_path)
    assert Testbed().check(plan) == []
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        for number in range(3):  # an emulated processor that stands still may lose frames
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            if sink.rows("load", "packet/1") == FRAMES:
                break
    begin, end, stop = sink.counters("begin"), sink.counters("end"), sink.counters("stop")
    blocks = [columns for stream, schema, columns in sink.blocks if (stream, schema) == ("load", "packet/1")]
    packets = {name: np.concatenate([columns[name] for columns in blocks]) for name in blocks[0]}
    for flow, guest in enumerate(GUESTS):
        sent = stop["load/client", f"flow{flow}.sent_packets"]
        arrived = stop["load/server", f"flow{flow}.received_packets"]
        assert 0 < arrived <= sent <= FRAMES // 2
        assert stop["load/server", f"flow{flow}.duplicate_packets"] == 0
        seqs = packets["seq"][packets["flow"] == flow]
        assert seqs.size == np.unique(seqs).size == arrived
        through = end[f"guests.{guest}.vnics.eth0", "received_packets"] - begin.get(
            (f"guests.{guest}.vnics.eth0", "received_packets"), 0
        )
        assert through >= arrived
    # One clock at both ends, and a kernel with an emulated processor between them.
    assert np.all(packets["received_ns"] > packets["sent_ns"])
    assert stop["load/server", "stranger_packets"] == 0


def test_a_machine_that_was_reset_boots_again_and_forwards_as_before(tmp_path: Path) -> None:
    """By its button: its kernel begins again, and it is told its network again. How long that takes is its own affair."""
    plan = world("layer3", tmp_path)
    gone = Action(
        id="gone", do="reset", guest="sut.para", after=Trigger(event="load.started", plus_ns=300_000_000)
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        for number in range(3):  # an emulated processor that stands still may lose frames
            during, after = worlds.MemorySink(), worlds.MemorySink()
            outcome = session.run(Trial(f"r{number}", number, also=(gone,)), during)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert outcome.marks["gone.done"].t_ns > outcome.marks["gone.started"].t_ns
            outcome = session.run(Trial(f"a{number}", number), after)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            if after.rows("load", "packet/1") == FRAMES:
                break
    stop = during.counters("stop")
    assert stop["load/server", "flow0.received_packets"] < stop["load/client", "flow0.sent_packets"]
    assert [event.details["text"] for event in during.events if event.what == "gone.how"] == [BY_BUTTON]
    assert "guests.sut.para.vnics.eth0" not in {entity for entity, _ in during.counters("end")}
    again = after.counters("stop")
    for flow in range(2):
        assert 0 < again["load/server", f"flow{flow}.received_packets"] <= FRAMES // 2
    begin, end = after.counters("begin"), after.counters("end")
    name = "guests.sut.para.vnics.eth0", "received_packets"
    assert end[name] - begin.get(name, 0) >= again["load/server", "flow0.received_packets"]


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
