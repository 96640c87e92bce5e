"""A machine is copied over the links of its clients: what crosses them is what was sent, and a link that is cut ends
it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from typing import Any

import machine_world as machines
import numpy as np
import process_world as processes
import pytest
import testbed_world as worlds
from migration_world import (
    PATIENCE_NS,
    RATE_BIT_PER_S,
    S,
    allow_faults,
    moving_plan,
    of_migration,
    on_and_on,
    on_demand,
    over_links,
    played,
    slowed,
    three_hosts,
    waiting_machine,
)

from virtlab.errors import GuestError
from virtlab.plan import Outcome, Plan, Trial
from virtlab.planner.mobility.copying import addressed
from virtlab.testbed import Testbed
from virtlab.testbed.build import hosts
from virtlab.testbed.session import TestbedSession
from virtlab.testbed.vswitches.ovs import missing as ovs_missing

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]
WRITES = {"rate_byte_per_s": 4_000_000, "working_set_bytes": 16 << 20}
SLOW_BIT_PER_S = 50_000_000  # a quarter
BURST_S = 0.5  # what is on its way, and the move until its begin was seen
SEGMENT_RATIO = 1538 / 1448  # octets of a line for those of memory, in full segments of TCP with time stamps


def crossed(sink: worlds.MemorySink, entity: str, counter: str) -> int:
    """By how much a counter grew from the begin of the move until the guest was there."""
    before, after = (sink.counters(f"go.{edge}") for edge in ("started", "finished"))
    return after[entity, counter] - before.get((entity, counter), 0)


def answers(sink: worlds.MemorySink) -> tuple[Any, Any]:
    """Numbers that were answered, in the order of the answers, and when each was there, in ns."""
    kept = [columns for _, schema, columns in sink.blocks if schema == "rtt/1"]
    numbers = np.concatenate([each["seq"] for each in kept])
    at_ns = np.concatenate([each["sent_ns"] + each["rtt_ns"] for each in kept])
    order = np.argsort(at_ns, kind="stable")
    return numbers[order], at_ns[order]


def check_it_is_there(sink: worlds.MemorySink, outcome: Outcome) -> None:
    """One guest answers each number once, at the end from its destination."""
    assert {name for name in outcome.marks if name.startswith("go.")} == {
        "go.started",
        "go.finished",
        "go.done",
    }
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert (at_ns > outcome.marks["go.finished"].t_ns).sum() > 50, "clients find it at the other host"
    events = {event.what: event.t_ns for event in sink.events}
    stood_still = (at_ns > events["go.paused"] + 10**7) & (at_ns < events["go.resumed"])
    assert not stood_still.any()


@pytest.mark.parametrize(
    ("kind", "arp", "connections"),
    [
        ("linux_bridge", "live", None),
        ("linux_bridge", "static", 4),
        pytest.param(
            "ovs-netdev",
            "static",
            None,
            marks=pytest.mark.skipif(ovs_missing() is not None, reason=str(ovs_missing())),
        ),
    ],
)
def test_what_a_move_says_it_sent_crossed_both_links_and_no_faster_than_they_are(
    kind: str, arp: str, connections: int | None
) -> None:
    world = three_hosts(memory_bytes=128 << 20) | {"arp": arp}
    more = {"connections": connections} if connections else {}
    sink, outcome = played(over_links(kind=kind, counted=True, world=world, dirty=WRITES, **more))
    check_it_is_there(sink, outcome)
    (sent,), (total_ns,) = of_migration(sink, "migration_sent"), of_migration(sink, "migration_time")
    assert sent > WRITES["working_set_bytes"]
    # What a host's own vNIC sent, less headers, is the copy; all of it crossed the links of both hosts.
    own = crossed(sink, "hosts.h1.vnic", "sent_bytes")
    assert sent <= own <= sent * SEGMENT_RATIO * 1.1
    for entity, counter in (
        ("uplinks.h1.up", "sent_bytes"),
        ("uplinks.h2.up", "received_bytes"),
        ("links.l0.ab", "bytes"),
        ("links.l1.ba", "bytes"),
        ("hosts.h2.vnic", "received_bytes"),
    ):
        assert crossed(sink, entity, counter) >= sent, entity
    assert total_ns / S > sent * 8 / RATE_BIT_PER_S, "no link is faster than its rate"
    if kind == "linux_bridge":
        told = crossed(sink, "vswitches.h2.br", "received_bytes")
        assert told < 10_000, "a bridge beside the address takes nothing in its place"


def test_two_machines_that_move_to_one_host_at_a_time_listen_beside_each_other() -> None:
    world = three_hosts()
    world["guests"]["w"] = {
        "platform": "qemu",
        "host": "h3",
        "vnics": {"eth0": worlds.vnic(4, vswitch="h3.br")},
    }
    values = over_links(world=world).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["world"]["hosts"] = {name: {} for name in values["world"]["hosts"]}
    go, settle = values["timeline"][1:3]
    values["timeline"].append({**go, "id": "too", "guest": "w"})
    settle["after"] = {"all": ["go.finished", "too.finished"]}
    sink, outcome = played(addressed(Plan.model_validate(values)))
    assert {"go.finished", "too.finished"} <= outcome.marks.keys()
    events = {event.what: event.t_ns for event in sink.events}
    assert max(events["go.started"], events["too.started"]) < min(events["go.resumed"], events["too.resumed"])
    assert {"v", "w"} <= set(outcome.clocks)
    assert len(of_migration(sink, "migration_sent")) == len(of_migration(sink, "pause")) == 2
    last = max(outcome.marks[name].t_ns for name in ("go.finished", "too.finished"))
    assert sink.counters("end")["hosts.h2.vnic", "received_bytes"] > sum(of_migration(sink, "migration_sent"))
    assert (answers(sink)[1] > last).sum() > 50


def test_two_machines_move_together_and_a_third_host_has_both() -> None:
    world = three_hosts()
    world["hosts"]["h4"] = {}
    world["vswitches"]["h4.br"] = {"kind": "linux_bridge", "host": "h4", "uplinks": ["h4.up"]}
    world["links"]["l3"] = worlds.link("h4.up", "s.p3")
    world["guests"]["w"] = {
        "platform": "qemu",
        "host": "h4",
        "vnics": {"eth0": worlds.vnic(4, vswitch="h4.br")},
    }
    values = moving_plan(world=world).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    go, settle = values["timeline"][1:3]
    values["timeline"].append({**go, "id": "too", "guest": "w"})
    settle["after"] = {"all": ["go.finished", "too.finished"]}
    with Testbed().open(Plan.model_validate(values), worlds.Patient()) as session:
        assert len(processes.named(b"qemu-system-x86_64")) == 4
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert len(processes.named(b"qemu-system-x86_64")) == 2
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    events = {event.what: event.t_ns for event in sink.events}
    assert max(events["go.started"], events["too.started"]) < min(events["go.resumed"], events["too.resumed"])
    assert len(of_migration(sink, "pause")) == 2
    assert {"v", "w"} <= set(outcome.clocks)


def test_hosts_between_which_a_machine_is_copied_are_asked_for_echoes_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = over_links(world=three_hosts(memory_bytes=128 << 20) | {"arp": "static"})
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        assert session.reached_ns["hosts.h1.vnic -> hosts.h2.vnic"] > 0
    # Each host takes another station for the other one. Nobody answers, so less than half of the time is enough.
    monkeypatch.setattr("virtlab.testbed.build.world.REACH_DEADLINE_NS", 2 * S)
    add = hosts.NeighbourAdd
    monkeypatch.setattr(
        hosts, "NeighbourAdd", lambda namespace, link, ip, _: add(namespace, link, ip, "02:00:00:00:00:99")
    )
    with pytest.raises(GuestError, match=r"hosts\.h1\.vnic: does not reach hosts\.h2\.vnic"):
        Testbed().open(plan, worlds.Patient()).close()


def cut(state: str = "down") -> None:
    """The wire of the destination's host carries nothing any more; `up`: it does again."""
    enter = ["nsenter", "-t", str(waiting_machine()), "-n", "ip", "link", "set", "dev", "up", state]
    subprocess.run(enter, check=True)


@pytest.mark.parametrize(
    ("phase", "realise"),
    [
        ("rounds", "soft_switch"),
        ("switch-over", "shaping"),
        *(
            pytest.param(phase, realise, marks=on_demand)
            for phase, realise in (
                ("set-up", "soft_switch"),
                ("set-up", "shaping"),
                ("rounds", "shaping"),
                ("switch-over", "soft_switch"),
                ("post-copy", "soft_switch"),
                ("post-copy", "shaping"),
            )
        ),
    ],
)
def test_a_machine_whose_link_is_slowed_arrives_and_as_much_later(
    phase: str, realise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = three_hosts(memory_bytes=128 << 20)
    for link in world["links"].values():
        link["realise"] = realise
    move: dict[str, Any] = {"downtime_limit_ns": 60 * S if phase == "switch-over" else S // 10}
    if phase == "post-copy":
        allow_faults(monkeypatch)
        move = {"mode": "post_copy", "downtime_limit_ns": None, "on_timeout": "fail"}
    after_ns = 0 if phase == "set-up" else S
    slow_at = {"event": "go.started", "plus_ns": after_ns}
    sink, outcome = played(slowed(over_links(world=world, **move), "l0", SLOW_BIT_PER_S, slow_at))
    check_it_is_there(sink, outcome)
    (sent,), (total_ns,) = of_migration(sink, "migration_sent"), of_migration(sink, "migration_time")
    (pause,) = of_migration(sink, "pause")
    slow_ns = outcome.marks["slow.done"].t_ns - outcome.marks["go.started"].t_ns
    # At most so much went before, and the rest no faster than the link carries it.
    before = (slow_ns / S + BURST_S) * RATE_BIT_PER_S / 8
    assert total_ns / S > slow_ns / S + (sent - before) * 8 / SLOW_BIT_PER_S > 3, (sent, total_ns)
    if phase == "switch-over":
        assert pause > total_ns - S, "all of it was sent while it was paused"
    else:
        assert pause < S, "it ran while it was copied"


def test_a_machine_whose_link_is_cut_in_the_switch_over_runs_on_where_it_was_within_its_time_out() -> None:
    # All of it is sent in the pause, which lasts for some seconds: more than a downtime limit is left at no time.
    plan = over_links(downtime_limit_ns=60 * S, timeout_ns=6 * S)
    sink = worlds.ActingSink(cut, at="go.started", later_s=2.0)
    sink, outcome = played(plan, sink)
    began, cancelled = (outcome.marks[name].t_ns for name in ("go.started", "go.cancelled"))
    assert {name for name in outcome.marks if name.startswith("go.")} == {"go.started", "go.cancelled"}
    assert cancelled - began < 9 * S, "its monitor is not waited for"
    assert not [event for event in sink.events if event.what == "go.resumed"], "it runs at no other host"
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert not ((at_ns > began + 2.2 * S) & (at_ns < began + 6 * S)).any(), (
        "it was paused as its link was cut"
    )
    assert (at_ns > cancelled).sum() > 50, "it runs on where it was"
    assert not processes.named(b"qemu-system-x86_64")


def test_a_machine_whose_destination_dies_in_the_switch_over_runs_on_where_it_was() -> None:
    def kill() -> None:
        (there,) = processes.named(b"-incoming")
        os.kill(there, signal.SIGKILL)

    plan = over_links(downtime_limit_ns=60 * S, timeout_ns=PATIENCE_NS)
    sink, outcome = played(plan, worlds.ActingSink(kill, at="go.started", later_s=2.0))
    assert {name for name in outcome.marks if name.startswith("go.")} == {"go.started", "go.failed"}
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert (at_ns > outcome.marks["go.failed"].t_ns).sum() > 50, "it runs on where it was"


def test_a_machine_whose_source_dies_in_the_switch_over_runs_nowhere() -> None:
    def kill() -> None:
        (there,) = processes.named(b"-incoming")
        (here,) = set(processes.named(b"qemu-system-x86_64")) - {there}
        os.kill(here, signal.SIGKILL)

    plan = over_links(downtime_limit_ns=60 * S, timeout_ns=PATIENCE_NS)
    sink = worlds.ActingSink(kill, at="go.started", later_s=2.0)
    with Testbed().open(plan, worlds.Patient()) as session:
        failed = list(session.run(Trial("t0", 1), sink).reasons)
    assert any("guests.v: its virtual machine ended" in reason for reason in failed), failed
    numbers, _ = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert not [event for event in sink.events if event.what == "go.resumed"], "it runs at no other host"
    assert not processes.named(b"qemu-system-x86_64")


def test_a_machine_whose_last_bytes_never_arrive_runs_on_where_it_was() -> None:
    def stop() -> None:
        # The kernel takes all that the source sends, so that has completed; the destination reads none of it.
        (there,) = processes.named(b"-incoming")
        room = 'echo "4096 200000000 200000000" > /proc/sys/net/ipv4/tcp_wmem'
        subprocess.run(["nsenter", "-t", str(there), "-n", "sh", "-c", room], check=True)
        os.kill(there, signal.SIGSTOP)

    sink, outcome = played(moving_plan(), worlds.ActingSink(stop, at="load.started", later_s=0.2))
    assert {name for name in outcome.marks if name.startswith("go.")} == {"go.started", "go.failed"}
    assert not [event for event in sink.events if event.what == "go.resumed"], "it runs at no other host"
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert np.diff(at_ns).max() > 9 * S, "it was paused until its destination had ended"
    assert (at_ns > outcome.marks["go.failed"].t_ns).sum() > 50, "it runs on where it was"


@pytest.mark.parametrize(
    ("when", "later_s", "connections"),
    [("load.started", 0.3, None), ("go.started", 2.0, None), ("go.started", 2.0, 4)],
)
def test_a_copy_whose_link_is_cut_ends_by_its_time_out_and_the_machine_stays(
    when: str, later_s: float, connections: int | None
) -> None:
    more = {"connections": connections} if connections else {}
    plan = over_links(rate_byte_per_s=5_000_000, timeout_ns=6 * S, **more)
    sink, outcome = played(plan, worlds.ActingSink(cut, at=when, later_s=later_s))
    assert {name for name in outcome.marks if name.startswith("go.")} == {"go.started", "go.cancelled"}
    assert not [event for event in sink.events if event.what == "go.resumed"], "it runs at no other host"
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert len(numbers) > 0.9 * (numbers.max() + 1), "it never stood still"
    assert (at_ns > outcome.marks["go.cancelled"].t_ns).sum() > 50, "it runs on where it was"
    assert not processes.named(b"qemu-system-x86_64")


@on_demand
def test_a_second_copy_whose_link_is_cut_leaves_the_machine_where_the_first_brought_it() -> None:
    world = three_hosts(memory_bytes=128 << 20)
    for link in world["links"].values():
        link["rate_bit_per_s"] = RATE_BIT_PER_S
    values = on_and_on("h1", world=world, over="network", rate_byte_per_s=20_000_000).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    go1 = next(action for action in values["timeline"] if action["id"] == "go1")
    go1.update(bandwidth_byte_per_s=5_000_000, timeout_ns=6 * S)
    settle = next(action for action in values["timeline"] if action["id"] == "settle")
    settle["after"] = {"any": ["go1.finished", "go1.cancelled"]}
    plan = addressed(Plan.model_validate(values))
    sink, outcome = played(plan, worlds.ActingSink(cut, at="go1.started", later_s=2.0))
    assert {name for name in outcome.marks if name.startswith("go1.")} == {"go1.started", "go1.cancelled"}
    assert not [event for event in sink.events if event.what == "go1.resumed"], "it runs at no other host"
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert (at_ns > outcome.marks["go1.cancelled"].t_ns).sum() > 50, "it runs on at h2"
    assert not processes.named(b"qemu-system-x86_64")


def in_post_copy(**more: Any) -> Plan:
    """A copy that takes so long that its link can be cut once the machine runs at its destination."""
    slow = {"downtime_limit_ns": None, "rate_byte_per_s": 5_000_000, "on_timeout": "fail"}
    return over_links(mode="post_copy", **slow, **more)


def test_a_machine_in_post_copy_is_recovered_over_a_new_connection_where_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allow_faults(monkeypatch)
    plan = in_post_copy(timeout_ns=PATIENCE_NS, recover_after_ns=S // 2)

    def interrupt() -> None:
        cut()
        threading.Timer(3.0, cut, ["up"]).start()

    sink, outcome = played(plan, worlds.ActingSink(interrupt, at="go.started", later_s=2.5))
    recovered = [event.t_ns for event in sink.events if event.what == "go.recovered"]
    resumed = next(event.t_ns for event in sink.events if event.what == "go.resumed")
    assert len(recovered) == 1
    assert resumed < recovered[0]
    check_it_is_there(sink, outcome)
    assert not processes.named(b"qemu-system-x86_64")


def test_a_machine_whose_link_is_cut_in_post_copy_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_faults(monkeypatch)
    plan = in_post_copy(timeout_ns=6 * S)
    sink = worlds.ActingSink(cut, at="go.started", later_s=2.5)
    with Testbed().open(plan, worlds.Patient()) as session:
        began = time.monotonic()
        outcome = session.run(Trial("t0", 1), sink)
        assert time.monotonic() - began < 60, "nothing waits for TCP to give up, a quarter of an hour"
    assert outcome.status == "failed"
    assert any("guest is lost" in reason for reason in outcome.reasons), outcome.reasons
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert not (at_ns > outcome.marks["go.started"].t_ns + 6 * S).any(), "it is lost"
    assert not processes.named(b"qemu-system-x86_64")


CONNECTS = """
import socket, subprocess, sys, time
address, port, *others = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]

def connect(own):
    one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    one.settimeout(2)
    try:
        if own:
            subprocess.run(["ip", "address", "add", own, "dev", "eth0"], check=True)
            time.sleep(1.5)  # until it is found to be nobody else's
            ip = own.split("/")[0]
            number = socket.if_nametoindex("eth0") if ip.startswith("fe80") else 0
            one.bind((ip, 0, 0, number) if ":" in address else (ip, 0))
        one.connect((address, port))
        one.sendall(b"not the memory of a machine" * 1000)
        print("connected")
    except OSError as error:
        print(error)

for own in (None, *others):  # by its own address, and then by each of those that it takes
    connect(own)
"""


def attacked(plan: Plan, *takes: str) -> None:
    """A guest connects where the memory is awaited, before the copy begins; `takes`: also with each of these addresses,
    or with that of a host.
    """
    there = plan.world.hosts["h2"].vnic
    assert there is not None
    argv = ["python3", "-c", CONNECTS, there.ip[0].split("/")[0], str(hosts.PORT)]
    for taken in takes:
        own = plan.world.hosts[taken].vnic if taken in plan.world.hosts else None
        argv.append(taken if own is None else own.ip[0])
    values = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    attack = {"id": "attack", "do": "exec", "guest": "c", "argv": argv, "after": {"event": "load.started"}}
    values["timeline"].insert(1, attack)
    values["timeline"][2]["after"] = {"any": ["attack.finished", "attack.failed"]}
    sink, outcome = played(Plan.model_validate(values))
    told = sink.artefacts["attack.out"].decode().splitlines()
    assert len(told) == 1 + len(takes), told
    assert "connected" not in told
    check_it_is_there(sink, outcome)


@pytest.mark.parametrize("arp", ["live", "static"])
def test_a_guest_cannot_connect_in_the_place_of_the_machine_that_is_copied(arp: str) -> None:
    attacked(over_links(world=three_hosts(memory_bytes=128 << 20) | {"arp": arp}), "h1")


def test_nor_can_it_by_ipv6() -> None:
    world = three_hosts(memory_bytes=128 << 20)
    for number, guest in enumerate(world["guests"].values(), start=1):
        guest["vnics"]["eth0"]["ip"] = [f"fd00::{number}/64"]
    attacked(over_links(world=world), "h1", "fe80::66/64")
