"""Open vSwitch's kernel datapath in the laboratory machine: queues by OpenFlow, netem by its database, entries by
flow.
"""

from __future__ import annotations

from typing import Any

import pytest
import testbed_world as worlds

from virtlab.plan import Plan, Trial
from virtlab.testbed.lab import LabVm
from virtlab.testbed.lab.rules import LAB_VM
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(LAB_VM.lacking() is not None, reason=str(LAB_VM.lacking())),
    pytest.mark.timeout(600),
]
COUNT = 20
FLOWS = 8
DELAY_NS = 20_000_000


@pytest.fixture(autouse=True)
def _taken_along(lab: LabVm) -> None:
    """Skipped where Open vSwitch is not taken along."""
    if (why := lab.capabilities().vswitches["ovs-kernel"]) is not None:
        pytest.skip(why)


def switched(*queues: dict[str, Any]) -> dict[str, Any]:
    """Guests on one switch: a first one, and behind it one with each of the queues at its port, or one with none."""
    world = worlds.one_host(1 + max(1, len(queues)))
    world["vswitches"]["h.br"] |= {"kind": "ovs-kernel"}
    for number, queue in enumerate(queues, start=2):
        world["guests"][f"g{number}"]["vnics"]["eth0"]["queue"] = {"by": "kernel", **queue}
    return world


def echoes(world: dict[str, Any]) -> Plan:
    """The first guest measures each of the others, one after the other, by a role of its name."""
    _, *others = world["guests"]
    one = worlds.echo_plan(world, source="g1", target="g2", count=COUNT)
    role = one.roles["probe"].model_dump(mode="json", by_alias=True, exclude_defaults=True)
    timeline = [{"id": f"to-{name}", "do": "run", "role": name} for name in others]
    for before, action in zip(others, timeline[1:], strict=False):
        action |= {"after": {"event": f"to-{before}.finished"}}
    return worlds.echo_plan(
        world,
        roles={name: role | {"to": name} for name in others},
        timeline=timeline,
        windows={"measured": {"from": f"to-{others[0]}.started", "to": f"to-{others[-1]}.finished"}},
        collect={"packets": others, "counters": ["vnics", "links", "softnet"]},
    )


def played(lab: LabVm, plan: Plan, session: list[TestbedSession]) -> worlds.MemorySink:
    """One trial; the session that it was played in is appended."""
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as opened:
        sink = worlds.MemorySink()
        outcome = opened.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert isinstance(opened, TestbedSession)
        session.append(opened)
    return sink


def classes(kind: str) -> dict[str, Any]:
    """A queue whose rule takes the echoes to the class that is not the default."""
    rates = (15_000_000, 20_000_000)
    above: dict[str, Any] = {}
    if kind == "htb":
        above = {"parent": "all"}
        said = dict(zip(("rate_bit_per_s", "ceil_bit_per_s"), rates, strict=True)) | {
            "burst_bytes": 20_000,
            "prio": 3,
        }
    else:
        least, most = rates
        said = {"rt_m2_bit_per_s": least, "ls_m2_bit_per_s": least, "ul_m2_bit_per_s": most}
    return {
        "kind": kind,
        "classes": {
            **({"all": {"parameters": {"rate_bit_per_s": 20_000_000}}} if above else {}),
            **{name: {**above, "parameters": said} for name in ("gold", "rest")},
        },
        "match": [{"class": "gold", "protocol": 1, "source": "10.0.0.0/8"}],
        "default": "rest",
    }


KINDS = ("htb", "hfsc")


def golden(sink: worlds.MemorySink) -> dict[str, int]:
    """Packets of that class, by the kind of each port."""
    begin, end = sink.counters("begin"), sink.counters("end")
    places = {kind: f"links.g{number}.eth0.ab.gold" for number, kind in enumerate(KINDS, start=2)}
    return {kind: end[place, "packets"] - begin[place, "packets"] for kind, place in places.items()}


def test_rules_of_openflow_put_frames_into_queues_of_the_kernel(lab: LabVm) -> None:
    held: list[TestbedSession] = []
    sink = played(lab, echoes(switched(*map(classes, KINDS))), held)
    assert golden(sink) == dict.fromkeys(KINDS, COUNT)
    objects = held[0].realised.objects
    queued = [rule for rule in objects["vswitches.h.br"].read_back["rules"] if "set_queue:1" in rule]
    assert len(queued) >= len(KINDS), "rules for each port"
    for number in (2, 3):
        port = objects[f"guests.g{number}.vnics.eth0"].read_back["port"]
        assert not port.get("filters"), "no filter of tc decides"


def test_where_addresses_are_learned_frames_find_their_queues_by_tc(lab: LabVm) -> None:
    held: list[TestbedSession] = []
    world = {**switched(*map(classes, KINDS)), "arp": "live"}
    assert golden(played(lab, echoes(world), held)) == dict.fromkeys(KINDS, COUNT)
    back = held[0].realised.objects["vswitches.h.br"].read_back
    assert not any("set_queue" in rule for rule in back["rules"])
    for kind in KINDS:
        assert any(f"linux-{kind}" in line for lines in back["qos"].values() for line in lines)


VALUES: dict[str, dict[str, Any]] = {
    "sfq": {"perturb_ns": 20 * 10**9, "quantum_bytes": 3000},
    "codel": {"target_ns": 7_000_000, "interval_ns": 70_000_000, "ecn": False},
    "fq_codel": {"target_ns": 7_000_000, "flows": 64, "quantum_bytes": 300, "ecn": True},
}


def test_values_of_the_database_are_those_of_the_kernel_and_its_netem_holds_every_packet(lab: LabVm) -> None:
    held: list[TestbedSession] = []
    late = {"kind": "netem", "limit_packets": 50, "parameters": {"delay_ns": DELAY_NS}}
    queues = [{"kind": kind, "parameters": values} for kind, values in VALUES.items()]
    sink = played(lab, echoes(switched(*queues, late)), held)
    for number, (kind, values) in enumerate(VALUES.items(), start=2):
        assert sink.rows(f"g{number}", "rtt/1") == COUNT
        (told,) = held[0].realised.objects[f"guests.g{number}.vnics.eth0"].read_back["port"]["qdiscs"]
        assert (told["kind"], told["handle"]) == (kind, "1:"), "Open vSwitch set it up, not we"
        exact = {key: value for key, value in values.items() if key not in {"target_ns", "interval_ns"}}
        assert exact.items() <= told.items()
    assert min(sink.columns("g5", "rtt/1")["rtt_ns"]) >= DELAY_NS
    port = held[0].realised.objects["guests.g5.vnics.eth0"].read_back["port"]
    (netem,) = (entry for entry in port["qdiscs"] if entry["kind"] == "netem")
    assert (netem["delay_ns"], netem["limit_packets"]) == (DELAY_NS, 50)


@pytest.mark.parametrize(("entries", "arp"), [("shared", "static"), ("own", "static"), ("own", "live")])
def test_each_flows_first_packet_goes_up_where_flows_have_entries_of_their_own(
    lab: LabVm, entries: str, arp: str
) -> None:
    world = {**switched(), "arp": arp}
    if entries == "own":
        world["vswitches"]["h.br"]["parameters"] = {"flow_entries": entries}
    frames = {
        "workload": "raw_stream", "from": "g1", "to": "g2", "frame_bytes": 128, "rate_pps": 20 * FLOWS,
        "duration_ns": 500_000_000,
    }  # fmt: skip
    # One flow goes before: until its entry is there, each of its packets goes up, however many flows share it.
    plan = worlds.echo_plan(
        world,
        roles={"warm": {**frames, "flows": 1}, "probe": {**frames, "flows": FLOWS}},
        timeline=[
            {"id": "warm", "do": "run", "role": "warm"},
            {"id": "measure", "do": "run", "role": "probe", "after": {"event": "warm.finished", "plus_ns": 3 * 10**9}},
        ],
        windows={
            "warmed": {"from": "warm.started", "to": "warm.finished"},
            "measured": {"from": "measure.started", "to": "measure.finished"},
        },
    )  # fmt: skip
    sink = played(lab, plan, [])
    before, after = sink.counters("warm.finished"), sink.counters("end")
    up = ("hosts.h.ovs", "flow_cache_upcalls")
    missed = after[up] - before[up]
    assert missed >= FLOWS - 1 if entries == "own" else missed < FLOWS - 1
