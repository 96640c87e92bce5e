"""Flows of `raw_stream` by way of guests that forward, on the real kernel: each has its share to the frame, goes
through its own guest, and what was sent arrives once or is lost.

A share's count is exact: flow f of F has a frame at every (k + f/F) / (share * rate) before the end. A stall of
the machine at the very end may leave frames unsent, which the sender counts.
"""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

import numpy as np
import pytest
import testbed_world as worlds

from virtlab.experiment import load
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

GUESTS = ("sut.vm1", "sut.vm2", "sut.vm3")
SHARES = (0.5, 0.3, 0.2)
RATE_PPS = 2000
DURATION_S = 0.4
TRIES = 4  # a switch that is a process, and a sender, may stand still on a loaded machine


NO_OVS = pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
KINDS = ["linux_bridge", pytest.param("ovs-netdev", marks=NO_OVS)]


def world(forwarding: str, folder: Path, frame_bytes: int, kind: str = "linux_bridge") -> Plan:
    file = folder / "flows.yaml"
    file.write_text(
        textwrap.dedent(f"""
            version: 1
            name: flows
            hosts:
              sut:
                vswitch: {kind}
                vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
                guests:
                  generator: {{vswitches: [br0], isolate: false}}
                  receiver: {{vswitches: [br1], isolate: false}}
                  vm: {{count: {len(GUESTS)}, vswitches: [br0, br1], forwarding: {forwarding}}}
            roles:
              load:
                workload: raw_stream
                from: sut.generator
                to: sut.receiver
                size: {frame_bytes} B frame
                rate: {RATE_PPS} packet/s
                duration: {round(DURATION_S * 1000)} ms
                via: [{", ".join(GUESTS)}]
                shares: [{", ".join(f"{100 * share:g} %" for share in SHARES)}]
            collect: {{counters: [vnics], series: {{}}}}
        """)
    )
    experiment = load(file)
    return plan_run(experiment, experiment.points()[0], 0)


def frames_of(flow: int) -> int:
    """Frames of a flow that are due before the end."""
    return math.ceil(DURATION_S * RATE_PPS * SHARES[flow] - flow / len(SHARES) - 1e-9)


@pytest.mark.parametrize("frame_bytes", [64, 1518])
@pytest.mark.parametrize("forwarding", ["layer3", "layer2"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_flow_has_its_share_through_its_own_guest_and_is_conserved(
    kind: str, forwarding: str, frame_bytes: int, tmp_path: Path
) -> None:
    plan = world(forwarding, tmp_path, frame_bytes, kind)
    assert plan.roles["load"].parameters["via"] == list(GUESTS)
    with Testbed().open(plan, worlds.Patient()) as session:
        for number in range(TRIES):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            if sink.rows("load", "packet/1") == sum(map(frames_of, range(len(GUESTS)))):
                break
    begin, end, stop = sink.counters("begin"), sink.counters("end"), sink.counters("stop")
    blocks = [columns for stream, schema, columns in sink.blocks if (stream, schema) == ("load", "packet/1")]
    packets = {name: np.concatenate([columns[name] for columns in blocks]) for name in blocks[0]}
    for flow, guest in enumerate(GUESTS):
        sent = stop["load/client", f"flow{flow}.sent_packets"]
        arrived = stop["load/server", f"flow{flow}.received_packets"]
        assert sent + stop["load/client", f"flow{flow}.unsent_packets"] <= frames_of(flow)
        assert sent == frames_of(flow) or outcome.status == "tainted" or frames_of(flow) - sent <= 50
        assert arrived <= sent
        assert stop["load/server", f"flow{flow}.duplicate_packets"] == 0
        seqs = packets["seq"][packets["flow"] == flow]
        assert seqs.size == np.unique(seqs).size == arrived
        assert seqs.size == 0 or int(seqs.max()) < sent
        through = sum(
            end[key] - begin.get(key, 0)
            for key in end
            if key[0] == f"guests.{guest}.vnics.eth0" and key[1] in {"received_packets", "rx_packets"}
        )
        assert arrived <= through
        assert sent - 1 <= through  # the counter of the kernel may be read while the last is on its way
    assert set(np.unique(packets["payload_bytes"])) == {frame_bytes}
    assert np.all(packets["received_ns"] >= packets["sent_ns"])
    total = sum(stop["load/server", f"flow{flow}.received_packets"] for flow in range(len(GUESTS)))
    assert total == stop["load/server", "received_packets"] > 0.9 * stop["load/client", "sent_packets"]
    # Nobody answers: the generator's own vNIC gets no frame of the flows' kind back.
    assert stop["load/server", "stranger_packets"] == 0


def test_forwarders_that_cannot_be_are_refused_with_the_reason(tmp_path: Path) -> None:
    plan = world("layer3", tmp_path, 64)

    def refused(**changed: object) -> str:
        values = {**plan.roles["load"].model_dump(by_alias=True), **changed}
        role = type(plan.roles["load"]).model_validate(values)
        found = Testbed().check(plan.model_copy(update={"roles": {"load": role}}))
        return "; ".join(refusal.reason for refusal in found)

    assert refused() == ""
    assert "no guest 'sut.vm9'" in refused(via=["sut.vm9"])
    assert "forwards nothing" in refused(via=["sut.receiver"]) or "no vNIC" in refused(via=["sut.receiver"])
