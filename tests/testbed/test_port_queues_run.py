"""Queues at guest ports for real: built where they were put, read back, counted; the soft switch's and the kernel's."""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds

from virtlab.catalogue import QDISCS
from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.build.machine import findings
from virtlab.testbed.vswitches import ovs

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
]
COUNT = 20
PORTS = ("links.a.eth0.ab", "links.b.eth0.ab")


def with_queue(queue: dict[str, Any], rate: int | None = None, kind: str = "linux_bridge") -> dict[str, Any]:
    """Two hosts on a switch, with a queue at the port towards each guest."""
    world = worlds.bridged(switches=1)
    for vswitch in world["vswitches"].values():
        vswitch["kind"] = kind
    for guest in world["guests"].values():
        for vnic in guest["vnics"].values():
            vnic["queue"] = queue
            if rate is not None:
                vnic["port_rate_bit_per_s"] = rate
    return world


def played(world: dict[str, Any]) -> tuple[worlds.MemorySink, Any]:
    """One trial of echoes in the world."""
    plan = worlds.echo_plan(world, count=COUNT)
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        return sink, session.realised


def crossed(sink: worlds.MemorySink) -> list[int]:
    """Packets through each guest's port, from the first mark to the last."""
    begin, end = sink.counters("begin"), sink.counters("end")
    return [end[port, "packets"] - begin[port, "packets"] for port in PORTS]


def test_the_kernel_queues_at_the_port_and_counts_every_echo() -> None:
    sink, realised = played(with_queue({"kind": "fifo", "by": "kernel", "limit_packets": 30}))
    assert crossed(sink) == [COUNT, COUNT]
    port = realised.objects["guests.a.vnics.eth0"].read_back["port"]
    assert [(entry["kind"], entry.get("limit_packets")) for entry in port["qdiscs"]] == [("pfifo", 30)]


def test_a_port_with_a_rate_is_the_soft_switchs_and_counts_the_same() -> None:
    sink, realised = played(with_queue({"kind": "fq_codel"}, 50_000_000))
    assert crossed(sink) == [COUNT, COUNT]
    assert realised.objects["links.a.eth0"].by == "soft_switch"


def test_by_the_kernel_the_rate_is_htbs_and_the_discipline_inside() -> None:
    sink, realised = played(with_queue({"kind": "fifo", "by": "kernel", "limit_packets": 30}, 50_000_000))
    assert crossed(sink) == [COUNT, COUNT]
    port = realised.objects["guests.a.vnics.eth0"].read_back["port"]
    assert {entry["kind"] for entry in port["qdiscs"]} >= {"htb", "pfifo"}


@pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
@pytest.mark.parametrize("arp", ["static", "live"])
def test_open_vswitch_has_queues_of_minimum_and_maximum_rate_and_frames_find_theirs(arp: str) -> None:
    classes = {
        "all": {"parameters": {"rate_bit_per_s": 20_000_000}},
        "gold": {"parent": "all", "parameters": {"rate_bit_per_s": 15_000_000, "ceil_bit_per_s": 20_000_000}},
        "rest": {"parent": "all", "parameters": {"rate_bit_per_s": 5_000_000, "ceil_bit_per_s": 20_000_000}},
    }
    rule = {"class": "gold", "protocol": 1}
    queue = {"kind": "htb", "by": "kernel", "classes": classes, "match": [rule], "default": "rest"}
    sink, realised = played({**with_queue(queue, kind="ovs-netdev"), "arp": arp})
    begin, end = sink.counters("begin"), sink.counters("end")

    def counted(name: str) -> list[int]:
        return [end[f"{port}.{name}", "packets"] - begin[f"{port}.{name}", "packets"] for port in PORTS]

    assert counted("gold") == [COUNT, COUNT]
    assert min(counted("all")) >= COUNT, "and whatever else came, such as neighbours that are asked again"
    (said,) = (
        "\n".join(lines) for lines in realised.objects["vswitches.h1.br"].read_back["qos"].values()
        if any("linux-htb" in line for line in lines)
    )  # fmt: skip
    assert "max-rate: 20000000" in said
    assert "min-rate: 5000000" in said


@pytest.mark.skipif(ovs.missing() is not None, reason=str(ovs.missing()))
@pytest.mark.parametrize(("rate", "port_rate"), [(50_000_000, 20_000_000), (40 * 10**9, 40 * 10**9)])
def test_a_queue_that_open_vswitch_would_change_stands_by_tc_as_it_was_written(
    rate: int, port_rate: int
) -> None:
    queue = {"kind": "htb", "by": "kernel", "parameters": {"rate_bit_per_s": rate}}
    sink, realised = played(with_queue(queue, port_rate, kind="ovs-netdev"))
    assert crossed(sink) == [COUNT, COUNT]
    port = realised.objects["guests.a.vnics.eth0"].read_back["port"]
    rates = {
        entry["handle"]: entry["rate_bit_per_s"] for entry in port["qdiscs"] if "rate_bit_per_s" in entry
    }
    assert rates == {"1:1": port_rate, "10:1": rate}


def test_the_soft_switch_plays_every_discipline_but_those_that_refusals_call_the_kernels_alone() -> None:
    assert set(QDISCS) - set(findings().switch_qdiscs) == {
        name for name, entry in QDISCS.items() if entry.far
    }
