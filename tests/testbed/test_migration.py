"""A virtual machine moves to another host of the world in mid-run, and its clients find it there."""

from __future__ import annotations

import os
import signal
from typing import Any

import machine_world as machines
import numpy as np
import process_world as processes
import pytest
import testbed_world as worlds
from migration_world import S, moving_plan, three_hosts

from virtlab.errors import GuestError
from virtlab.plan import Outcome, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

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
    columns = next(columns for _, schema, columns in sink.blocks if schema == "rtt/1")
    return np.sort(columns["sent_ns"] + columns["rtt_ns"])


def of_migration(sink: worlds.MemorySink, metric: str) -> list[float]:
    """Values of a metric of the move."""
    return [
        float(value)
        for stream, _, columns in sink.blocks
        if stream == "migration"
        for name, value in zip(columns["metric"], columns["value"], strict=True)
        if name == metric
    ]


def test_a_machine_moves_while_a_client_talks_to_it_and_is_found_where_it_went() -> None:
    with opened() as session:
        assert len(qemus()) == 2, "the destination is built before the clock starts"
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert marks(outcome) == {"go.started", "go.finished", "go.done"}
        assert len(qemus()) == 1, "what it left has ended"
        with pytest.raises(GuestError, match="has moved before"):
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
    with opened(world=world, dirty=writes, rate_byte_per_s=60_000_000) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert "go.finished" in outcome.marks
    events = {event.what: event.t_ns for event in sink.events}
    paused, resumed = events["go.paused"], events["go.resumed"]
    rows = next(
        columns for stream, schema, columns in sink.blocks if (stream, schema) == ("memory", "memory/1")
    )
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


def test_a_destination_that_dies_in_mid_move_fails_the_run_and_is_named() -> None:
    with opened(rate_byte_per_s=5_000_000) as session:
        (victim,) = processes.named(b"-incoming")
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL), at="go.started")
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "failed"
    assert any(reason.startswith("guests.v: ") for reason in outcome.reasons), outcome.reasons
