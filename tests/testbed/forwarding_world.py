"""Guests that forward from a generator to a receiver, which are namespaces of one kernel: frames are counted by flow,
and their delay is by one clock. Flow i goes by way of the i-th guest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import testbed_world as worlds

from virtlab.catalogue import PLATFORMS
from virtlab.experiment import load_text
from virtlab.plan import Action, Plan, Session, Trial
from virtlab.plan.model import Trigger
from virtlab.planner import plan_run

RESET_AFTER_NS = 300_000_000
TRIES = 3  # an emulated processor that stands still may lose frames


def plan(
    guests: Mapping[str, str],
    *,
    rate_pps: int,
    duration_s: int,
    drain_s: int = 0,
    vswitch: str = "linux_bridge",
) -> Plan:
    """`guests`: what forwards, and what a file says of each; `vswitch`: what they stand on."""
    lines = "".join(f"      {name}: {{{words}, vswitches: [br0, br1]}}\n" for name, words in guests.items())
    experiment = load_text(f"""
version: 1
name: forwarding
hosts:
  sut:
    vswitch: {vswitch}
    vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
    guests:
      generator: {{vswitches: [br0], isolate: false}}
      receiver: {{vswitches: [br1], isolate: false}}
{lines}
roles:
  load:
    workload: raw_stream
    from: sut.generator
    to: sut.receiver
    size: 512 B frame
    rate: {rate_pps} packet/s
    duration: {duration_s} s
    via: [{", ".join(f"sut.{name}" for name in guests)}]
timing: {{drain: {max(drain_s, 1)} s}}
collect: {{counters: [vnics], series: {{}}}}
""")
    return plan_run(experiment, experiment.points()[0], 0)


def play(session: Session, frames: int, name: str = "t") -> worlds.MemorySink:
    """A trial in which all frames arrived, or the last of several."""
    for number in range(TRIES):
        sink = worlds.MemorySink()
        outcome = session.run(Trial(f"{name}{number}", number), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        if sink.rows("load", "packet/1") == frames:
            break
    return sink


def check_flows(sink: worlds.MemorySink, guests: list[str], frames: int) -> None:
    """Every flow went through its own guest, once, and in time."""
    begin, end, stop = sink.counters("begin"), sink.counters("end"), sink.counters("stop")
    blocks = [columns for stream, schema, columns in sink.blocks if (stream, schema) == ("load", "packet/1")]
    packets = {name: np.concatenate([columns[name] for columns in blocks]) for name in blocks[0]}
    for flow, guest in enumerate(guests):
        sent = stop["load/client", f"flow{flow}.sent_packets"]
        arrived = stop["load/server", f"flow{flow}.received_packets"]
        assert 0 < arrived <= sent <= frames // len(guests)
        assert stop["load/server", f"flow{flow}.duplicate_packets"] == 0
        seqs = packets["seq"][packets["flow"] == flow]
        assert seqs.size == np.unique(seqs).size == arrived
        name = f"guests.sut.{guest}.vnics.eth0", "received_packets"
        assert end[name] - begin.get(name, 0) >= arrived
    # One clock at both ends, and a kernel with an emulated processor between them.
    assert np.all(packets["received_ns"] > packets["sent_ns"])
    assert stop["load/server", "stranger_packets"] == 0


def check_reset(session: Session, guests: list[str], frames: int, platform: str) -> worlds.MemorySink:
    """The first guest is reset while it forwards: frames are lost, it boots, and forwards again as before.

    How long that takes is its own affair. Returns what the trial with the reset told.
    """
    reset = PLATFORMS[platform].reset
    assert reset is not None
    gone = Action(
        id="gone",
        do="reset",
        guest=f"sut.{guests[0]}",
        after=Trigger(event="load.started", plus_ns=RESET_AFTER_NS),
    )
    during = worlds.MemorySink()
    outcome = session.run(Trial("reset", 1, also=(gone,)), during)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert outcome.marks["gone.done"].t_ns > outcome.marks["gone.started"].t_ns
    stop = during.counters("stop")
    assert stop["load/server", "flow0.received_packets"] < stop["load/client", "flow0.sent_packets"]
    assert [event.details["text"] for event in during.events if event.what == "gone.how"] == [reset.how]
    assert reset.boots
    ends = {entity for entity, _ in during.counters("end")}
    assert f"guests.sut.{guests[0]}.vnics.eth0" not in ends, "what its kernel counted is gone"
    assert f"guests.sut.{guests[1]}.vnics.eth0" in ends
    check_flows(play(session, frames), guests, frames)
    return during
