"""Virtual machines as guests: booted, measured, counted, and told of when they die."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import machine_world as machines
import pytest
import testbed_world as worlds
from test_testbed_privileges import ROOT, has_control_groups

from virtlab.errors import GuestError
from virtlab.plan import Action, Plan, Trial
from virtlab.plan.model import Trigger
from virtlab.testbed import Testbed
from virtlab.testbed.platforms.qemu import command
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(600),
]

COUNT = 20


def opened(plan: Plan) -> TestbedSession:
    session = Testbed().open(plan, worlds.Patient())
    assert isinstance(session, TestbedSession)
    return session


def plan_of(world: dict[str, Any], **more: Any) -> Plan:
    return worlds.echo_plan(world, source="g1", target="g2", count=COUNT, **more)


def test_a_machine_measures_and_is_measured_like_any_guest() -> None:
    plan = plan_of(machines.beside_a_namespace())
    counters = ["vnics", "softnet", "guests"]
    plan = plan.model_copy(update={"collect": plan.collect.model_copy(update={"counters": tuple(counters)})})
    began_ns = time.monotonic_ns()
    with opened(plan) as session:
        for trial in range(2):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{trial}", trial), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") == COUNT
            columns = next(columns for _, schema, columns in sink.blocks if schema == "rtt/1")
            begin, end = outcome.windows["measured"]
            bound = outcome.clocks["g1"]["bound_ns"]
            slack = bound + 1_000_000
            assert all(begin - slack <= t_ns <= end + slack for t_ns in columns["sent_ns"])
            assert all(columns["rtt_ns"] > 0)
            assert bound > 0 == outcome.clocks["bound_ns"]
            assert "console-g1.log" in sink.artefacts
            before, after = sink.counters("begin"), sink.counters("end")
            for entity in ("guests.g1.vnics.eth0", "guests.g1.vnics.eth0.tap"):
                key = (entity, "received_packets")
                assert after[key] - before[key] >= COUNT, entity
            for thread in ("vcpu0", "io"):
                key = (f"guests.g1.{thread}", "cpu_ns")
                assert after[key] > before[key], thread
            assert after["guests.g1", "resident_bytes"] > 64 << 20
            # Time from its start to its agent's answer: the same in every trial, and within this world's life.
            lived_ns = time.monotonic_ns() - began_ns
            assert 0 < after["guests.g1", "start_ns"] == before["guests.g1", "start_ns"] < lived_ns
        realised = session.realised.objects["guests.g1"]
        assert realised.by == "qemu"
        assert realised.read_back["vcpus"] == 1
        assert realised.read_back["memory_bytes"] == command.MEMORY_BYTES["cloud"]
        assert realised.read_back["accelerator"] == realised.applied["accelerator"]
        assert realised.applied["emulated_cpu"] == (realised.applied["accelerator"] == "tcg")
        assert session.realised.objects["guests.g1.vnics.eth0"].by == "tap"


def test_two_machines_one_with_two_processors_across_a_switch_and_another_device() -> None:
    world = machines.machines(worlds.bridged(switches=1), vcpus=2)
    for guest in world["guests"].values():
        guest["vnics"]["eth0"]["model"] = "e1000"
    world["guests"]["b"]["vcpus"] = 1
    try:
        refused = Testbed().check(worlds.echo_plan(world, count=COUNT))
    except Exception as error:  # pragma: no cover - told as it is
        raise AssertionError(error) from error
    if any("generic kernel" in refusal.reason for refusal in refused):
        pytest.skip(refused[0].reason)
    assert refused == []
    with opened(worlds.echo_plan(world, count=COUNT)) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        counted = {key[1]: value for key, value in sink.counters("stop").items() if key[0] == "probe/client"}
        assert counted["sent_packets"] == COUNT
        assert sink.rows("probe", "rtt/1") + counted["late_packets"] == COUNT, counted
        for name, vcpus in (("a", 2), ("b", 1)):
            assert session.realised.objects[f"guests.{name}"].read_back["vcpus"] == vcpus
        begin, end = sink.counters("begin"), sink.counters("end")
        key = ("links.l0.ab", "packets")
        assert end[key] - begin[key] >= COUNT, "echoes crossed the link"


def test_a_machine_with_an_e1000e_tells_of_its_own_memory_and_the_host_of_its() -> None:
    world = machines.beside_a_namespace()
    world["guests"]["g1"]["vnics"]["eth0"]["model"] = "e1000e"
    plan = plan_of(world)
    refused = Testbed().check(plan)
    if any("generic kernel" in refusal.reason for refusal in refused):
        pytest.skip(refused[0].reason)
    collect = {
        "packets": ["probe"], "counters": ["guests", "memory"], "series": [{"source": "memory", "every_ns": 10_000_000}],
    }  # fmt: skip
    plan = Plan.model_validate({**plan.model_dump(mode="json", by_alias=True), "collect": collect})
    with opened(plan) as session:
        for trial in range(2):
            sink = worlds.MemorySink()
            began_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            outcome = session.run(Trial(f"t{trial}", trial), sink)
            ended_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") == COUNT
            blocks = [columns for stream, _, columns in sink.blocks if stream == "series"]
            told = {
                (entity, metric)
                for columns in blocks
                for entity, metric in zip(columns["entity"], columns["metric"], strict=True)
            }
            for entity in ("guests.g1.memory", "host.memory"):
                assert {(entity, "memory_available"), (entity, "major_faults")} <= told
            assert ("guests.g1.memory", "memory_pressure") in told, (
                "its kernel is told to account for pressure"
            )
            slack = 2 * outcome.clocks["g1"]["bound_ns"] + 1_000_000
            for columns in blocks:
                assert all(began_ns - slack <= t_ns <= ended_ns + slack for t_ns in columns["t_ns"])
            held = sink.counters("end")
            total = held["guests.g1.memory", "memory_total_bytes"]
            assert 0 < held["guests.g1.memory", "memory_available_bytes"] < total <= 160 << 20
            assert total < held["host.memory", "memory_total_bytes"]


def test_a_command_runs_inside_the_machine() -> None:
    actions = [{"id": "ask", "do": "exec", "guest": "g1", "argv": ["uname", "-r"]}]
    plan = worlds.plan(machines.beside_a_namespace(), timeline=actions, limits={"run_ns": 60_000_000_000})
    with opened(plan) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        kernel = session.realised.objects["guests.g1"].applied["kernel"]
        assert sink.artefacts["ask.out"].decode().strip() == kernel


def test_a_machine_that_dies_in_mid_run_is_named_with_its_console() -> None:
    plan = plan_of(machines.beside_a_namespace())
    roles = {"probe": plan.roles["probe"].model_copy(update={"count": 2000})}
    with opened(plan.model_copy(update={"roles": roles})) as session:
        victim = machines.process_of(session, "g1")
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL))
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "failed"
    (why,) = (reason for reason in outcome.reasons if "ended with" in reason)
    assert why.startswith("guests.g1: its virtual machine ended with signal 9; its console ends with: ")


def test_a_machine_that_ends_with_a_command_in_it_is_what_the_run_fails_of() -> None:
    """The command had no end of its own: whoever would kill it is gone as well."""
    plan = plan_of(machines.beside_a_namespace())
    roles = {"probe": plan.roles["probe"].model_copy(update={"count": 2000})}
    off = Action(
        id="off",
        do="exec",
        guest="g1",
        argv=("sh", "-c", "reboot -f; sleep 60"),
        after=Trigger(event="measure.started", plus_ns=200_000_000),
    )
    with opened(plan.model_copy(update={"roles": roles})) as session:
        outcome = session.run(Trial("t0", 1, also=(off,)), worlds.MemorySink())
    assert outcome.status == "failed"
    assert any(
        reason.startswith("guests.g1: its virtual machine ended with ") for reason in outcome.reasons
    ), outcome.reasons


def test_a_kernel_that_panics_at_boot_is_told_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    append = command.Machine._append
    monkeypatch.setattr(
        command.Machine, "_append", lambda self: append(self) + " rdinit=/nothing root=/dev/nowhere"
    )
    before = worlds.own_processes()
    with pytest.raises(GuestError, match=r"guests\.g1: its kernel panicked: .*Kernel panic"):
        opened(plan_of(machines.beside_a_namespace()))
    assert worlds.own_processes() <= before


def test_a_machine_that_never_answers_is_given_up_with_its_console(monkeypatch: pytest.MonkeyPatch) -> None:
    from virtlab.testbed.platforms.qemu import machines as runtime

    monkeypatch.setattr(runtime, "BOOT_TIMEOUT_S", 1.0)
    with pytest.raises(GuestError, match=r"guests\.g1: did not boot within 1 s; its console ends with: "):
        opened(plan_of(machines.beside_a_namespace()))


@ROOT
@pytest.mark.skipif(not has_control_groups(), reason="no control groups for CPU and memory are mounted here")
def test_what_the_host_sees_of_a_machine_at_work_with_half_a_processor() -> None:
    """How long its processor ran and waited, how long it was held back, and the same as series while it worked."""
    work = (
        "end=$(($(cut -d. -f1 /proc/uptime) + 2)); while [ $(cut -d. -f1 /proc/uptime) -lt $end ]; do :; done"
    )
    plan = worlds.plan(
        machines.machines(worlds.one_host(2), "g1", cpu_quota_ratio=0.5),
        timeline=[{"id": "work", "do": "exec", "guest": "g1", "argv": ["sh", "-c", work]}],
        windows={"working": {"from": "work.started", "to": "work.finished"}},
        collect={"counters": ["guests"], "series": [{"source": "guest.vcpus", "every_ns": 50_000_000}]},
        limits={"run_ns": 60_000_000_000},
    )
    with opened(plan) as session:
        assert {"50000", "50000 100000"} & set(session._groups.read_back["g1"].values())
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    before, after = sink.counters("begin"), sink.counters("end")

    def grew(entity: str, counter: str) -> int:
        return after[entity, counter] - before[entity, counter]

    passed_ns = outcome.windows["working"][1] - outcome.windows["working"][0]
    assert 0 < grew("guests.g1.vcpu0", "cpu_ns") < passed_ns
    assert grew("guests.g1.vcpu0", "run_queue_delay_ns") > 0
    assert after["guests.g1", "throttled_ns"] > 0, "half a processor was less than it wanted"
    series = [columns for stream, _, columns in sink.blocks if stream == "series"]
    told: dict[tuple[str, str], list[float]] = {}
    for columns in series:
        for entity, metric, value in zip(columns["entity"], columns["metric"], columns["value"], strict=True):
            told.setdefault((str(entity), str(metric)), []).append(float(value))
    for thread in ("vcpu0", "io"):
        assert len(told[f"guests.g1.{thread}", "cpu"]) > 10, thread
        assert len(told[f"guests.g1.{thread}", "run_queue_delay"]) > 10, thread
    assert max(told["guests.g1.vcpu0", "cpu"]) > 0
    assert max(told["guests.g1.vcpu0", "run_queue_delay"]) > 0
