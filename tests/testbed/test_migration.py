"""A virtual machine moves to another host of the world in mid-run, and its clients find it there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import machine_world as machines
import numpy as np
import process_world as processes
import pytest
import testbed_world as worlds
from migration_world import S, moving_plan, of_migration, three_hosts

from virtlab.errors import GuestError
from virtlab.plan import Outcome, Plan, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.build.moves import userfaults_missing
from virtlab.testbed.session import TestbedSession
from virtlab.testbed.vswitches.ovs import missing as ovs_missing

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]


def opened(**more: Any) -> TestbedSession:
    plan = moving_plan(**more)
    assert Testbed().check(plan) == []
    session = Testbed().open(plan, worlds.Patient())
    assert isinstance(session, TestbedSession)
    return session


def qemus() -> set[int]:
    """Processes of QEMU below this one."""
    return set(processes.named(b"qemu-system-x86_64"))


def marks(outcome: Outcome) -> set[str]:
    return {name for name in outcome.marks if name.startswith("go.")}


def answered_ns(sink: worlds.MemorySink) -> Any:
    columns = sink.columns("probe", "rtt/1")
    return np.sort(columns["sent_ns"] + columns["rtt_ns"])


def test_a_machine_moves_while_a_client_talks_to_it_and_is_found_where_it_went() -> None:
    with opened() as session:
        assert len(qemus()) == 2, "the destination is built before the clock starts"
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert marks(outcome) == {"go.started", "go.finished", "go.done"}
        assert len(qemus()) == 1, "what it left has ended"
        with pytest.raises(GuestError, match="has moved already"):
            session.run(Trial("t1", 2), worlds.MemorySink())
    events = {event.what: event for event in sink.events}
    paused, resumed = events["go.paused"].t_ns, events["go.resumed"].t_ns
    assert outcome.marks["go.started"].t_ns < paused < resumed == outcome.marks["go.finished"].t_ns
    found: dict[str, list[float]] = {}
    for stream, schema, columns in sink.blocks:
        if stream == "migration":
            assert schema == "series/1"
            assert set(columns["entity"]) == {"guests.v"}
            for metric, value in zip(columns["metric"], columns["value"], strict=True):
                found.setdefault(metric, []).append(value)
    assert found["pause"] == [resumed - paused]
    # A machine of 96 MiB, most of it zeros that are not sent, at 30 MB/s.
    (sent,), (total_ns,) = found["migration_sent"], found["migration_time"]
    assert 20e6 < sent < 120e6
    assert total_ns > sent / 30e6 * 1e9 * 0.9, "the limit of bandwidth holds"
    assert found["migration_rounds"][0] >= 2
    assert max(found["migration_remaining"]) > sent / 2
    arrived = answered_ns(sink)
    assert (arrived < paused).sum() > 100
    assert (arrived > resumed).sum() > 50, "clients find it at the other host"
    blackout = np.diff(arrived)[np.searchsorted(arrived, paused) - 1 :].max()
    assert blackout >= resumed - paused
    # The agent inside was asked by its channel of before, its frames crossed both serial ports.
    after = sink.counters("end")
    assert after["guests.v.vnics.eth0", "received_packets"] >= len(arrived)
    assert outcome.clocks["v"]["bound_ns"] > 0


def test_what_a_machine_writes_while_it_moves_is_sent_again_and_its_own_count_goes_on() -> None:
    rate, working_set = 8_000_000, 16 << 20
    world = three_hosts(memory_bytes=128 << 20)
    writes = {"rate_byte_per_s": rate, "working_set_bytes": working_set}
    later = {"event": "load.started", "plus_ns": 4 * S}
    with opened(world=world, dirty=writes, rate_byte_per_s=60_000_000, after=later) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert "go.finished" in outcome.marks
    events = {event.what: event.t_ns for event in sink.events}
    paused, resumed = events["go.paused"], events["go.resumed"]
    rows = sink.columns("memory", "memory/1")
    counted = sink.counters("stop")["memory/client", "written_pages"]
    assert rows["written_pages"].sum() == counted > 0
    # By our clock the interval in which it was paused is longer by the pause, in which nothing was written.
    (over,) = np.flatnonzero((rows["begin_ns"] <= paused) & (rows["end_ns"] >= resumed))
    lasts = rows["end_ns"] - rows["begin_ns"]
    assert lasts[over] >= resumed - paused
    assert (np.abs(rows["begin_ns"][1:] - rows["end_ns"][:-1]) < 1000).all(), (
        "of one line, as both are rounded"
    )
    due = rows["written_pages"] + rows["missed_pages"]
    assert due[over] * 4096 < rate * 0.4, "an interval of 100 ms by its own clock"
    (sent,) = of_migration(sink, "migration_sent")
    assert sent > working_set * 1.5, "the working set was sent more than once"
    assert max(of_migration(sink, "dirty_rate")) > 0
    sampled = next(
        columns
        for stream, _, columns in sink.blocks
        if stream == "series" and "sampled_dirty_rate" in columns["metric"]
    )
    assert set(sampled["entity"]) == {"guests.v"}
    assert rate / 4 < np.median(sampled["value"]) < working_set * 1.5, "different bytes within a second"


def test_fixed_entries_name_the_port_at_the_destination_once_it_is_there() -> None:
    world = three_hosts()
    world["arp"] = "static"
    # A queue of the kernel's at its port stands at the destination beforehand, and is read back there.
    queue = {"kind": "fifo", "limit_packets": 100, "by": "kernel"}
    world["guests"]["v"]["vnics"]["eth0"] |= {"port_rate_bit_per_s": 50_000_000, "queue": queue}
    values = moving_plan(world=world).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["collect"]["counters"] = ["links"]
    wanted = Plan.model_validate(values)
    assert Testbed().check(wanted) == []
    with Testbed().open(wanted, worlds.Patient()) as session:
        assert "port at h2" in session.realised.objects["guests.v.vnics.eth0"].read_back
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    events = [event for event in sink.events if event.what == "go.entry"]
    resumed = next(event.t_ns for event in sink.events if event.what == "go.resumed")
    # Two bridges, and the soft switch where links are its own.
    assert len(events) in {2, 3}
    # By construction: none is changed before QEMU at the destination says that the guest runs.
    assert all(event.t_ns > resumed for event in events)
    arrived = answered_ns(sink)
    assert (arrived > max(event.t_ns for event in events)).sum() > 50, "clients find it at the other host"
    for port in ("v.eth0", "v.eth0@h2"):
        begin, end = (sink.counters(mark)[f"links.{port}.ab", "packets"] for mark in ("begin", "end"))
        assert end - begin > 50, "requests passed its queue at both hosts"


@pytest.mark.skipif(ovs_missing() is not None, reason=str(ovs_missing()))
@pytest.mark.parametrize("arp", ["static", "live"])
def test_rules_of_open_vswitch_name_the_port_at_the_destination_once_it_is_there(arp: str) -> None:
    world = three_hosts() | {"arp": arp}
    for name in ("h1.br", "h2.br"):
        world["vswitches"][name]["kind"] = "ovs-netdev"
    world["guests"]["v"]["vnics"]["eth0"]["isolated"] = True
    # Its port is isolated at the destination, too.
    isolated = {**worlds.vnic(4, vswitch="h2.br"), "isolated": True}
    world["guests"]["w"] = {"platform": "namespace", "host": "h2", "vnics": {"eth0": isolated}}
    values = moving_plan(world=world).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    beside = {**values["roles"]["probe"], "from": "w", "count": 5}
    values["roles"]["beside"] = beside
    values["timeline"].append(
        {"id": "beside", "do": "run", "role": "beside", "after": {"event": "settle.done"}}
    )
    values["collect"]["packets"].append("beside")
    wanted = Plan.model_validate(values)
    assert Testbed().check(wanted) == []
    with Testbed().open(wanted, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    events = [event for event in sink.events if event.what == "go.entry"]
    resumed = next(event.t_ns for event in sink.events if event.what == "go.resumed")
    assert all(event.t_ns > resumed for event in events)
    assert len(events) in ({2, 3} if arp == "static" else {0})
    arrived = answered_ns(sink)
    there = max([resumed, *(event.t_ns for event in events)])
    assert (arrived > there).sum() > 50, "clients find it at the other host"
    answered = [columns for stream, schema, columns in sink.blocks if (stream, schema) == ("beside", "rtt/1")]
    assert sum(len(columns["rtt_ns"]) for columns in answered) == 0


WRITES = {"rate_byte_per_s": 20_000_000, "working_set_bytes": 32 << 20}
SLOW = 12_000_000  # byte/s: less than what is written


def moved(**more: Any) -> tuple[worlds.MemorySink, Outcome]:
    """A machine of 160 MiB that writes to its memory has moved."""
    with opened(**{"world": three_hosts(memory_bytes=160 << 20), "dirty": WRITES, **more}) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert len(qemus()) == 1
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert marks(outcome) == {"go.started", "go.finished", "go.done"}
    return sink, outcome


def pause_ns(sink: worlds.MemorySink) -> float:
    (found,) = of_migration(sink, "pause")
    return found


def test_a_machine_that_is_paused_first_is_copied_once() -> None:
    sink, outcome = moved(mode="hot", rate_byte_per_s=60_000_000, downtime_limit_ns=None)
    (total_ns,), (sent,) = of_migration(sink, "migration_time"), of_migration(sink, "migration_sent")
    assert pause_ns(sink) >= total_ns * 0.9
    assert sent > WRITES["working_set_bytes"], "what was filled is copied"
    assert total_ns > sent / 60e6 * 1e9 * 0.9
    events = {event.what: event.t_ns for event in sink.events}
    arrived = answered_ns(sink)
    assert not ((arrived > events["go.paused"] + 10**7) & (arrived < events["go.resumed"])).any()
    assert (arrived > outcome.marks["go.finished"].t_ns).sum() > 50


@pytest.mark.parametrize(("arp", "protocol"), [("live", "icmp"), ("static", "udp")])
def test_a_machine_that_is_shut_down_boots_at_the_other_host_and_serves_again(
    arp: str, protocol: str
) -> None:
    world = three_hosts() | {"arp": arp}
    values = moving_plan(world=world, mode="cold", downtime_limit_ns=None).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    values["roles"]["probe"]["protocol"] = protocol
    wanted = Plan.model_validate(values)
    assert Testbed().check(wanted) == []
    with Testbed().open(wanted, worlds.Patient()) as session:
        assert len(qemus()) == 2
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert len(qemus()) == 1, "what it left has ended"
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert marks(outcome) == {"go.started", "go.finished", "go.done"}
    events = {event.what: event.t_ns for event in sink.events}
    assert (
        events["go.started"]
        <= events["go.paused"]
        < events["go.off"]
        < events["go.on"]
        < events["go.resumed"]
    )
    assert outcome.marks["go.finished"].t_ns == events["go.resumed"]
    assert (
        pause_ns(sink)
        == of_migration(sink, "migration_time")[0]
        == events["go.resumed"] - events["go.paused"]
    )
    assert of_migration(sink, "migration_sent") == [0]
    arrived = answered_ns(sink)
    assert (arrived < events["go.paused"] + 10**7).sum() > 100
    assert not ((arrived > events["go.off"]) & (arrived < events["go.on"])).any()
    assert (arrived > events["go.resumed"]).sum() > 50, "clients find it at the other host"
    if protocol == "udp":
        counted = sink.counters("stop")["probe/server", "received_packets"]
        assert counted >= len(arrived), "before and after it was off"
    assert outcome.clocks["v"]["bound_ns"] > 0


def test_who_is_shutting_down_cannot_be_told_not_to() -> None:
    how = pytest.raises(GuestError, match=r"booting at h2|shutting down to go to h2")
    with opened(mode="cold", downtime_limit_ns=None, timeout_ns=S // 2) as session, how:
        session.run(Trial("t0", 1), worlds.MemorySink())
    assert not qemus()


def test_a_machine_whose_destination_died_before_its_boot_is_not_said_to_have_moved() -> None:
    with opened(mode="cold", downtime_limit_ns=None) as session:
        (victim,) = (
            pid for pid in qemus() if b"-S" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        )
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL), at="go.started")
        try:
            reasons = session.run(Trial("t0", 1), sink).reasons
        except GuestError as error:
            reasons = (str(error),)
    assert any(reason.startswith("guests.v: ") and "signal 9" in reason for reason in reasons), reasons
    assert not [event for event in sink.events if event.what in {"go.finished", "go.resumed"}]


def test_after_so_many_rounds_a_machine_is_paused_whatever_is_left() -> None:
    sink, _ = moved(rate_byte_per_s=SLOW, rounds_limit=2, downtime_limit_ns=20_000_000)
    (rounds,) = of_migration(sink, "migration_rounds")
    assert 3 <= rounds <= 6
    left = [remaining for remaining in of_migration(sink, "migration_remaining") if remaining > 0][-1]
    assert left > 4 * SLOW * 0.02, "more than fits into the limit of 20 ms"


def test_a_machine_that_writes_faster_than_it_is_copied_is_slowed_down_until_it_arrives() -> None:
    writes = {"rate_byte_per_s": 40_000_000, "working_set_bytes": 16 << 20}
    sink, _ = moved(dirty=writes, rate_byte_per_s=30_000_000, auto_converge=True)
    throttle = of_migration(sink, "migration_throttle")
    assert 0.2 <= max(throttle) <= 0.99


@pytest.mark.parametrize(
    "how", [{"connections": 2}, {"connections": 2, "compression": "zlib"}, {"compression": "xbzrle"}]
)
def test_a_machine_is_copied_over_several_connections_and_compressed(how: dict[str, Any]) -> None:
    # However busy the processors that compress are, they send more of this than is written.
    writes = {"rate_byte_per_s": 1_000_000, "working_set_bytes": 16 << 20}
    sink, outcome = moved(dirty=writes, rate_byte_per_s=60_000_000, **how)
    (sent,) = of_migration(sink, "migration_sent")
    assert sent > writes["working_set_bytes"], "what is written does not compress"
    assert (answered_ns(sink) > outcome.marks["go.finished"].t_ns).sum() > 50


def test_a_machine_continues_at_its_destination_before_its_memory_has_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's own processes may ask for pages here")
    if userfaults_missing() is not None:
        # Its QEMU keeps root's rights, and so may do what the machine forbids to others.
        monkeypatch.setattr("virtlab.testbed.build.moves.userfaults_missing", lambda: None)
        monkeypatch.setattr("virtlab.testbed.platforms.qemu.confinement.account", lambda _: None)
    sink, outcome = moved(mode="post_copy", rate_byte_per_s=20_000_000, downtime_limit_ns=None)
    (total_ns,) = of_migration(sink, "migration_time")
    events = {event.what: event.t_ns for event in sink.events}
    assert pause_ns(sink) < total_ns
    assert events["go.resumed"] < outcome.marks["go.started"].t_ns + total_ns, "its memory follows"
    arrived = answered_ns(sink)
    assert (arrived > outcome.marks["go.finished"].t_ns).sum() > 50


def test_a_move_that_takes_too_long_is_cancelled_and_the_machine_stays() -> None:
    with opened(rate_byte_per_s=1_000_000, timeout_ns=2 * S) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert marks(outcome) == {"go.started", "go.cancelled"}
        assert len(qemus()) == 1, "what it would have moved to has ended"
    arrived = answered_ns(sink)
    assert (arrived > outcome.marks["go.cancelled"].t_ns).sum() > 50
    assert not [stream for stream, _, _ in sink.blocks if stream == "migration"]
    assert ("guests.v.vnics.eth0", "received_packets") in sink.counters("end"), "its agent is reached again"


def test_a_destination_that_dies_in_mid_move_leaves_the_machine_where_it_was() -> None:
    with opened(rate_byte_per_s=5_000_000) as session:
        (victim,) = processes.named(b"-incoming")
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL), at="go.started")
        outcome = session.run(Trial("t0", 1), sink)
        assert len(qemus()) == 1
    # The Plan reckons with it: an action waits for go.failed.
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert marks(outcome) == {"go.started", "go.failed"}
    (state,) = [event.details for event in sink.events if event.what == "go.state"]
    assert state["guest"] == "v"
    assert "it runs on at h1" in state["text"]
    assert (answered_ns(sink) > outcome.marks["go.failed"].t_ns).sum() > 50
    numbers = sink.columns("probe", "rtt/1")["seq"]
    assert len(np.unique(numbers)) == len(numbers), "no number was answered twice"
    assert ("guests.v.vnics.eth0", "received_packets") in sink.counters("end"), "its agent is reached again"


def test_a_failed_move_that_no_action_waits_for_fails_the_run() -> None:
    plan = moving_plan(rate_byte_per_s=5_000_000)
    values = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["timeline"][2]["after"] = {"any": ["go.finished", "go.cancelled"]}
    with Testbed().open(Plan.model_validate(values), worlds.Patient()) as session:
        (victim,) = processes.named(b"-incoming")
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL), at="go.started")
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "failed"
    assert any("its move failed; it runs on at h1" in reason for reason in outcome.reasons), outcome.reasons


def test_a_source_that_dies_in_mid_move_takes_the_machine_along() -> None:
    with opened(rate_byte_per_s=5_000_000) as session:
        (there,) = processes.named(b"-incoming")
        (victim,) = qemus() - {there}
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL), at="go.started")
        try:
            reasons = session.run(Trial("t0", 1), sink).reasons
        except GuestError as error:
            reasons = (str(error),)
    assert any(reason.startswith("guests.v: its virtual machine ended") for reason in reasons), reasons
