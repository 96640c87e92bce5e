"""A link that is cut in mid-run carries nothing either way, loses what it holds, and carries frames again: by the soft
switch, by HTB, between Open vSwitches, and towards containers and virtual machines.
"""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds

from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.vswitches import ovs

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

MS = 1_000_000
RATE_BIT_PER_S = 100_000_000
DOWN_NS, UP_NS, COUNT = 300 * MS, 700 * MS, 200
SLACK_NS = 50 * MS  # in which a busy machine tells what plays links


def cut(plan: Plan, link: str, *, up: bool = True) -> Plan:
    values: dict[str, Any] = plan.model_dump(mode="json", by_alias=True)
    for state, plus_ns in (("down", DOWN_NS), ("up", UP_NS))[: 2 if up else 1]:
        action = {"id": state, "do": "set", "link": link, "args": {"state": state}}
        values["timeline"].append(action | {"after": {"event": "measure.started", "plus_ns": plus_ns}})
    return Plan.model_validate(values)


def world_of(realise: str, *, vswitch: str = "linux_bridge", platform: str = "namespace") -> dict[str, Any]:
    world = worlds.star(2)
    for link in world["links"].values():
        link |= {"rate_bit_per_s": RATE_BIT_PER_S, "realise": realise}
    for each in world["vswitches"].values():
        each["kind"] = vswitch
    world["guests"]["g2"]["platform"] = platform
    return world


def echoes(world: dict[str, Any]) -> Plan:
    return worlds.echo_plan(
        world,
        roles={
            "probe": {
                "workload": "rtt", "from": "g1", "to": "g2", "protocol": "icmp", "ip_packet_bytes": 1000,
                "interval_ns": 5 * MS, "count": COUNT, "timeout_ns": 200 * MS,
            }
        },
    )  # fmt: skip


def counted(sink: worlds.MemorySink, entity: str, counter: str) -> int:
    """By how much a counter grew in a trial; the kernel's go on from one to the next."""
    return sink.counters("end")[entity, counter] - sink.counters("begin")[entity, counter]


@pytest.mark.parametrize(
    ("realise", "vswitch", "link"),
    [
        ("soft_switch", "linux_bridge", "l1"),
        ("shaping", "linux_bridge", "l0"),
        ("soft_switch", "ovs-netdev", "l0"),
        ("shaping", "ovs-netdev", "l1"),
    ],
)
def test_echoes_are_lost_while_a_link_is_cut_and_the_next_trial_begins_with_it_whole(
    realise: str, vswitch: str, link: str
) -> None:
    if vswitch != "linux_bridge" and ovs.missing() is not None:
        pytest.skip(str(ovs.missing()))
    plan = cut(echoes(world_of(realise, vswitch=vswitch)), link)
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        for number in range(2):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", 1 + number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            sent, echoed = (sink.columns("probe", kind)["sent_ns"] for kind in ("sent/1", "rtt/1"))
            down_ns, up_ns = outcome.marks["down.done"].t_ns, outcome.marks["up.started"].t_ns
            assert not ((echoed > down_ns) & (echoed < up_ns - SLACK_NS)).any()
            assert (echoed < down_ns).sum() > 0.8 * (sent < outcome.marks["down.started"].t_ns).sum() > 30
            assert (echoed > up_ns).sum() > 0.8 * (sent > outcome.marks["up.done"].t_ns + SLACK_NS).sum() > 20
            drops = sum(counted(sink, f"links.{link}.{way}", "drops") for way in ("ab", "ba"))
            assert drops == len(sent) - len(echoed) > 50, "each echo is lost once, and the link counts it"


def stream(world: dict[str, Any], *, share: float) -> Plan:
    """A second of datagrams of 1200 B at a share of what links carry."""
    ip_bytes = 1200
    return worlds.echo_plan(
        world,
        roles={
            "probe": {
                "workload": "udp_stream", "from": "g1", "to": "g2", "ip_packet_bytes": ip_bytes,
                "rate_bit_per_s": round(RATE_BIT_PER_S * share * ip_bytes / (ip_bytes + 38)), "duration_ns": 1000 * MS,
            }
        },
    )  # fmt: skip


@pytest.mark.parametrize("realise", ["soft_switch", "shaping"])
def test_of_a_stream_each_datagram_is_received_or_lost_by_the_link_that_is_cut(realise: str) -> None:
    plan = cut(stream(world_of(realise), share=0.9), "l1")
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    rows, line = sink.columns("probe", "packet/1"), "links.l1.ba"
    drops = counted(sink, line, "drops")
    sent = sink.counters("stop")["probe/client", "sent_packets"]
    down_ns, up_ns = outcome.marks["down.done"].t_ns, outcome.marks["up.started"].t_ns
    assert not ((rows["received_ns"] > down_ns + SLACK_NS) & (rows["received_ns"] < up_ns)).any()
    assert rows["sent_ns"][rows["received_ns"] > up_ns].min() > up_ns - SLACK_NS, "nothing is forwarded later"
    assert (rows["received_ns"] > up_ns).sum() > 100
    assert drops > 0.3 * sent
    assert sent == len(rows["seq"]) + drops
    assert counted(sink, line, "packets") == len(rows["seq"])
    if realise == "soft_switch":
        assert counted(sink, line, "link_down_drops") == drops


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["container", "qemu"])
def test_a_guest_of_its_own_kind_behind_a_link_that_is_cut_answers_again(platform: str) -> None:
    plan = cut(echoes(world_of("soft_switch", platform=platform)), "l1")
    if refused := Testbed().check(plan):
        pytest.skip(str(refused[0]))
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    echoed = sink.columns("probe", "rtt/1")["sent_ns"]
    down_ns, up_ns = outcome.marks["down.done"].t_ns, outcome.marks["up.started"].t_ns
    assert not ((echoed > down_ns) & (echoed < up_ns - SLACK_NS)).any()
    assert (echoed < down_ns).sum() > 30
    assert (echoed > up_ns).sum() > 20
