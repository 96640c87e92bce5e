"""Links and ports of the laboratory machine's kernel: what a limit bounds, and what counters of a queue say."""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds

from virtlab.plan import Plan, Realised, Trial
from virtlab.testbed.lab import LabVm
from virtlab.testbed.lab.rules import LAB_VM

pytestmark = [
    pytest.mark.skipif(LAB_VM.lacking() is not None, reason=str(LAB_VM.lacking())),
    pytest.mark.timeout(600),
]
COUNT = 20
CABLE_NS = 250_000_000
WAITING_MAX = 50
FRAMES = 1000


def played(lab: LabVm, plan: Plan) -> tuple[worlds.MemorySink, Realised]:
    """One trial."""
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        return sink, session.realised


def long_cables(propagation_ns: int, limit_packets: int, rate_bit_per_s: int) -> dict[str, Any]:
    queue = {"kind": "fifo", "limit_packets": limit_packets}
    return worlds.bridged(
        switches=1,
        propagation_ns=propagation_ns,
        rate_bit_per_s=rate_bit_per_s,
        queue={"ab": queue, "ba": queue},
    )


def flooded(world: dict[str, Any], rate_pps: int) -> Plan:
    """Frames of 200 B for two seconds, and enough time behind for all of them to arrive."""
    stream = {
        "workload": "raw_stream", "from": "a", "to": "b", "frame_bytes": 200, "rate_pps": rate_pps,
        "duration_ns": FRAMES * 10**9 // rate_pps,
    }  # fmt: skip
    return worlds.echo_plan(
        world,
        roles={"probe": stream},
        timeline=[
            {"id": "measure", "do": "run", "role": "probe"},
            {"id": "drain", "do": "wait", "for_ns": 4 * CABLE_NS, "after": {"event": "measure.finished"}},
        ],
        collect={"counters": ["links"], "series": [{"source": "qdisc", "every_ns": 10_000_000}]},
    )


def changes(sink: worlds.MemorySink, line: str) -> dict[str, int]:
    """What a run added to counters of a link's direction, each of which all netems tell."""
    begin, end = sink.counters("begin"), sink.counters("end")
    assert end[line, "backlog_packets"] == 0
    assert (line, "backlog_max_packets") not in end, "how many waited at one moment is not known"
    return {
        name: end[line, name] - begin[line, name] for name in ("packets", "bytes", "drops", "residence_ns")
    }


def test_more_frames_are_in_a_long_cable_than_may_wait_and_none_of_them_is_told_as_waiting(
    lab: LabVm,
) -> None:
    """125 frames at a time in each of two cables: if they took the room of 50 that may wait, three of five would be
    lost.
    """
    for _ in range(
        3
    ):  # an emulated processor that stands still sends what is due at once, which may not wait
        sink, realised = played(lab, flooded(long_cables(CABLE_NS, WAITING_MAX, 10_000_000), 500))
        if min(changes(sink, line)["packets"] for line in ("links.l0.ab", "links.l1.ab")) >= FRAMES * 4 // 5:
            break
    assert realised.link_realisation() == "netem"
    for facts in realised.objects["links.l0"].read_back.values():
        stages = {each["handle"]: each for each in facts["qdiscs"]}
        assert [stages[handle]["kind"] for handle in ("1:", "10:")] == ["netem", "netem"]
        assert (stages["1:"]["delay_ns"], stages["10:"]["limit_packets"]) == (CABLE_NS, WAITING_MAX + 1)
    came = FRAMES * 11 // 10  # and some of others
    for line in ("links.l0.ab", "links.l1.ab"):
        seen = changes(sink, line)
        assert seen["packets"] >= FRAMES * 4 // 5, line
        assert seen["packets"] + seen["drops"] <= came, line
        assert seen["residence_ns"] < seen["packets"] * CABLE_NS // 2, line
        came = seen["packets"]


def test_what_finds_the_queue_in_front_of_a_long_cable_full_is_dropped_and_counted(lab: LabVm) -> None:
    """Twice what the wire takes: the queue is soon full, and nobody waits for longer than that takes to send."""
    rate_bit_per_s, waiting_max = 1_000_000, 20
    sink, _ = played(lab, flooded(long_cables(CABLE_NS, waiting_max, rate_bit_per_s), 1000))
    first, second = changes(sink, "links.l0.ab"), changes(sink, "links.l1.ab")
    assert first["drops"] > 0
    few = FRAMES // 10  # of others than the sender
    assert FRAMES * 4 // 5 <= first["packets"] + first["drops"] <= FRAMES + few
    assert abs(second["packets"] + second["drops"] - first["packets"]) <= few, (
        "what passes the one comes to the other"
    )
    frame_ns = 220 * 8 * 10**9 // rate_bit_per_s
    # What propagates is in no wait, dropped or carried: else it were more than a cable's time.
    assert first["residence_ns"] <= first["packets"] * (waiting_max * frame_ns + CABLE_NS // 2)


def test_a_frame_takes_its_time_on_each_wire_and_in_each_cable(lab: LabVm) -> None:
    cable_ns, rate_bit_per_s = 20_000_000, 100_000_000
    plan = worlds.echo_plan(long_cables(cable_ns, COUNT, rate_bit_per_s), count=COUNT)
    size = plan.roles["probe"].parameters["ip_packet_bytes"]
    frame_ns = (size + 38) * 8 * 10
    sink, _ = played(lab, plan)
    columns = next(columns for _, schema, columns in sink.blocks if schema == "rtt/1")
    assert len(columns["rtt_ns"]) == COUNT, "no more are under way than may wait"
    # Two links there, two back: a timer of the kernel never fires early.
    assert min(columns["rtt_ns"]) >= 4 * (frame_ns + cable_ns)


@pytest.mark.parametrize("vswitch", ["linux_bridge", "ovs-kernel"])
def test_what_passes_an_hfsc_is_counted_whoever_set_it_up(lab: LabVm, vswitch: str) -> None:
    if (why := lab.capabilities().vswitches[vswitch]) is not None:
        pytest.skip(why)
    rates = {"rt_m2_bit_per_s": 15_000_000, "ls_m2_bit_per_s": 15_000_000, "ul_m2_bit_per_s": 20_000_000}
    queue = {
        "kind": "hfsc", "by": "kernel", "default": "rest", "classes": {"rest": {"parameters": rates}},
    }  # fmt: skip
    world = worlds.one_host(2)
    world["vswitches"]["h.br"] |= {"kind": vswitch}
    world["guests"]["g2"]["vnics"]["eth0"]["queue"] = queue
    sink, realised = played(lab, worlds.echo_plan(world, source="g1", target="g2", count=COUNT))
    port = realised.objects["guests.g2.vnics.eth0"].read_back["port"]
    top = "1:" if vswitch == "ovs-kernel" else "10:"
    assert [each["kind"] for each in port["qdiscs"] if each["handle"] == top] == ["hfsc", "hfsc"]
    begin, end = sink.counters("begin"), sink.counters("end")
    for line in ("links.g2.eth0.ab", "links.g2.eth0.ab.rest"):
        assert end[line, "packets"] - begin[line, "packets"] >= COUNT, line
