"""Trials in a built world: samples arrive once, events and windows are marked, what goes wrong is said."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import testbed_world as worlds

from virtlab.agents.requests.leader import Kill
from virtlab.errors import GuestError, VirtlabError
from virtlab.plan import Outcome, Plan, Trial
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

LOAD = {
    "workload": "burst_load", "from": "a", "to": "b", "protocol": "udp", "burst_bytes": 3000, "period_ns": 10_000_000,
    "streams": 1, "direction": "one_way", "origin": "from", "phase": "fixed", "tunable": ["burst_bytes"],
}  # fmt: skip


def played(plan: Plan, trial: Trial | None = None) -> tuple[Outcome, worlds.MemorySink]:
    assert Testbed().check(plan) == []
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        return session.run(trial or Trial("t0", 1), sink), sink


def loaded(*, count: int = 20, **more: Any) -> Plan:
    """An echo beside a load that is stopped when the echo is over."""
    echo = worlds.echo_plan(worlds.bridged(), count=count)
    return worlds.plan(
        worlds.bridged(),
        roles={"probe": echo.roles["probe"].model_dump(by_alias=True), "load": LOAD},
        timeline=[
            {"id": "load", "do": "start", "role": "load"},
            {
                "id": "measure",
                "do": "run",
                "role": "probe",
                "after": {"event": "load.started", "plus_ns": 50_000_000},
            },
            {"id": "stop", "do": "stop", "role": "load", "after": {"event": "measure.finished"}},
            {"id": "drain", "do": "wait", "for_ns": 300_000_000, "after": {"event": "stop.done"}},
        ],
        windows={"measured": {"from": "measure.started", "to": "measure.finished"}},
        **{
            "collect": {
                "packets": ["probe", "load"],
                "series": [
                    {"source": "host.cpu", "every_ns": 20_000_000},
                    {"source": "qdisc", "every_ns": 20_000_000},
                ],
                "counters": ["vnics", "links", "softnet"],
            },
            "limits": {"run_ns": 20_000_000_000},
            **more,
        },
    )


def test_a_run_brings_every_sample_with_its_marks_and_window() -> None:
    outcome, sink = played(loaded())
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.rows("probe", "rtt/1") == sink.rows("probe", "sent/1") == 20
    assert sink.rows("load", "burst/1") > 5
    begin, end = outcome.windows["measured"]
    assert begin == outcome.marks["measure.started"].t_ns
    assert end - begin >= 19 * 5_000_000
    assert outcome.marks["measure.started"].t_ns - outcome.marks["load.started"].t_ns >= 50_000_000
    assert outcome.marks["drain.done"].t_ns - outcome.marks["stop.done"].t_ns == 300_000_000
    sent = next(
        columns["sent_ns"]
        for stream, schema, columns in sink.blocks
        if (stream, schema) == ("probe", "sent/1")
    )
    assert begin - 1_000_000 <= int(sent.min())
    assert int(sent.max()) <= end


def test_counters_say_what_crossed_vnics_and_links() -> None:
    _, sink = played(loaded())
    begin, end = sink.counters("begin"), sink.counters("end")
    crossed = end["links.l0.ab", "packets"] - begin["links.l0.ab", "packets"]
    left = end["guests.a.vnics.eth0", "sent_packets"] - begin["guests.a.vnics.eth0", "sent_packets"]
    assert crossed == left >= 20
    assert end["links.l1.ab", "drops"] == 0
    assert sink.counters("stop")["probe/client", "sent_packets"] == 20


def test_series_are_sampled_under_the_names_of_the_plan() -> None:
    _, sink = played(loaded())
    rows = [columns for stream, schema, columns in sink.blocks if (stream, schema) == ("series", "series/1")]
    pairs = {
        (str(entity), str(metric))
        for columns in rows
        for entity, metric in zip(columns["entity"], columns["metric"], strict=True)
    }
    assert ("host.cpu", "cpu") in pairs
    assert ("guests.a.vnics.eth0", "backlog_packets") in pairs


def test_a_world_takes_many_trials_and_only_tunable_overrides() -> None:
    plan = loaded()
    with Testbed().open(plan, worlds.Patient()) as session:
        for number, burst_bytes in enumerate((1000, 6000)):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", number, {"load.burst_bytes": burst_bytes}), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") == 20
            bursts = next(columns for _, schema, columns in sink.blocks if schema == "burst/1")
            assert set(bursts["sent_bytes"].tolist()) == {burst_bytes}
        with pytest.raises(GuestError, match="interval_ns"):
            session.run(Trial("t2", 2, {"probe.interval_ns": 1}), worlds.MemorySink())


def test_the_same_seed_gives_the_same_schedule() -> None:
    intended = []
    for _ in range(2):
        _, sink = played(loaded(), Trial("t0", 7))
        rows = next(columns for _, schema, columns in sink.blocks if schema == "burst/1")
        first = int(rows["intended_ns"][0])
        intended.append([int(value) - first for value in rows["intended_ns"][:5]])
    assert intended[0] == intended[1]


def test_a_command_of_the_timeline_runs_in_its_guest() -> None:
    echo = worlds.echo_plan(worlds.bridged())
    plan = echo.model_copy(
        update={
            "timeline": worlds.plan(
                worlds.bridged(),
                timeline=[
                    {"id": "look", "do": "exec", "guest": "a", "argv": ["cat", "/proc/net/dev"]},
                    {"id": "measure", "do": "run", "role": "probe", "after": {"event": "look.done"}},
                ],
            ).timeline
        }
    )
    outcome, sink = played(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert b"eth0" in sink.artefacts["look.out"]


def test_a_timeline_that_does_not_end_in_its_limit_fails() -> None:
    plan = loaded(limits={"run_ns": 80_000_000})
    outcome, _ = played(plan)
    assert outcome.status == "failed"
    assert any("limits.run_ns" in reason for reason in outcome.reasons)


def test_a_timeout_that_censors_is_no_failure() -> None:
    plan = worlds.plan(
        worlds.bridged(),
        timeline=[
            {
                "id": "long", "do": "exec", "guest": "a", "argv": ["sleep", "30"],
                "timeout_ns": 100_000_000, "on_timeout": "censor",
            },
            {"id": "after", "do": "wait", "for_ns": 1, "after": {"event": "long.timeout"}},
        ],
    )  # fmt: skip
    outcome, _ = played(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert outcome.censored == ("long",)
    assert "after.done" in outcome.marks


def test_a_cancelled_run_says_so() -> None:
    plan = loaded(count=1000)
    patient = worlds.Patient()
    with Testbed().open(plan, patient) as session:
        sink = worlds.ActingSink(lambda: setattr(patient, "stop", True), at="load.started", later_s=0.0)
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "cancelled"


def test_a_dead_probe_fails_its_run_with_its_signal() -> None:
    plan = loaded()
    with Testbed().open(plan, worlds.Patient()) as session:

        def kill() -> None:
            channel = session._probes.channels["b"]  # type: ignore[attr-defined]
            session.leader.control.tell(Kill(channel=channel, signal=9))  # type: ignore[attr-defined]

        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
        kill()
        time.sleep(0.3)
        try:
            outcome = session.run(Trial("t1", 1), worlds.MemorySink())
        except VirtlabError as error:
            assert "signal 9" in str(error)  # noqa: PT017 - either way of ending is right
        else:
            assert outcome.status == "failed"
            assert any("signal 9" in reason for reason in outcome.reasons)


def test_a_dead_leader_is_an_error_and_not_a_wait() -> None:
    plan = loaded(count=1000)
    with Testbed().open(plan, worlds.Patient()) as session:
        pid = session.leader.process.pid  # type: ignore[attr-defined]
        sink = worlds.ActingSink(lambda: os.kill(pid, signal.SIGKILL))
        with pytest.raises(VirtlabError, match="gone"):
            session.run(Trial("t0", 1), sink)
