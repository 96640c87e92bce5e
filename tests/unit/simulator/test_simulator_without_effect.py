"""A simulated world says what it has no part for; claims between levels that are one such world are not judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Watcher
from tests.theory.simulated import Values, parsed, simulated, values_of
from typer.testing import CliRunner

from virtlab.analysis.claims import parse_claim
from virtlab.analysis.judging import judge_one
from virtlab.analysis.table import RunTable
from virtlab.analysis.values import RunValue
from virtlab.cli.main import app
from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile
from virtlab.simulator.programs import known
from virtlab.simulator.session import world_once
from virtlab.simulator.without_effect import without_effect

PAID = dict.fromkeys(
    ("platform.namespace.send_ns", "platform.qemu.send_ns", "vswitch.linux_bridge.packet_ns", "links.departure_ns"),
    Parameter(1000.0),
)  # fmt: skip
KNOWS_QEMU = Profile("measured", parameters=PAID)


def with_guest(**keys: Any) -> Values:
    values = values_of(count=5)
    for guest in values["world"]["guests"].values():
        guest.update(keys)
    return values


def with_model(model: str) -> Values:
    values = with_guest(platform="qemu")
    for guest in values["world"]["guests"].values():
        guest["vnics"]["eth0"]["model"] = model
    return values


def with_spin(spin: str) -> Values:
    values = values_of(count=5)
    values["world"]["spin"] = spin
    return values


@pytest.mark.parametrize(
    ("values", "what", "key"),
    [
        (with_guest(platform="qemu"), "platform qemu", "guests.a"),
        (with_guest(platform="container"), "platform container", "guests.a"),
        (with_model("e1000"), "vNIC model e1000", "guests.a"),
        (with_guest(memory_bytes=2**27), "memory 134217728 B", "guests.b"),
        (with_guest(cpu_quota_ratio=0.5), "CPU quota 0.5", "guests.b"),
        (with_guest(pin="one"), "pin one", "guests.b"),
        (values_of(count=5, meter="ping"), "meter ping", "roles.probe"),
        (with_spin("never"), "spin never", "network"),
    ],
)
def test_what_changes_nothing_is_played_and_said(values: Values, what: str, key: str) -> None:
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    plain, as_plain = simulated(values_of(count=5))
    assert (
        kept.column("probe", "rtt/1", "rtt_ns").tolist()
        == as_plain.column("probe", "rtt/1", "rtt_ns").tolist()
    )
    assert outcome.clocks["world"] == plain.clocks["world"]
    said = [event.details["text"] for event in kept.events if event.what == "log.info"]
    assert any(text.startswith(f"{what} of ") and "changes nothing" in text for text in said), said
    with Simulator().open(parsed(values), Watcher()) as session:
        assert what in session.realised.objects[key].applied["without_effect"]


def test_equal_worlds_are_equal_whatever_the_seed_and_others_are_not() -> None:
    assert (
        simulated(values_of(count=5), 1)[0].clocks["world"]
        == simulated(values_of(count=5), 2)[0].clocks["world"]
    )
    assert (
        simulated(values_of(count=5))[0].clocks["world"] != simulated(values_of(count=6))[0].clocks["world"]
    )


def test_a_machine_behind_a_bridge_of_its_own_is_the_same_world_only_where_bridges_cost_nothing() -> None:
    def queued(platform: str, profile: Profile) -> str:
        from virtlab.planner.queues.ports import all_ports, with_port_links

        values = with_guest(platform=platform)
        values["world"]["guests"]["b"]["vnics"]["eth0"]["queue"] = {"kind": "fifo", "limit_packets": 50}
        return world_once(with_port_links(parsed(values), all_ports), profile)

    ideal = Simulator().profile
    assert queued("qemu", ideal) == queued("namespace", ideal)
    assert queued("qemu", KNOWS_QEMU) != queued("namespace", KNOWS_QEMU)


def test_kinds_of_virtual_switches_are_different_worlds_where_kernels_speak_of_themselves() -> None:
    def with_kind(kind: str, *, noise: bool) -> Values:
        values = with_guest()
        values["world"]["ipv6_noise"] = noise
        for vswitch in values["world"]["vswitches"].values():
            vswitch["kind"] = kind
        return values

    def told(noise: bool) -> tuple[set[str], set[str]]:
        plans = [parsed(with_kind(kind, noise=noise)) for kind in ("linux_bridge", "ovs-netdev")]
        said = {one.setting for plan in plans for one in without_effect(plan, IDEAL_PROFILE)}
        return said, {world_once(plan, IDEAL_PROFILE) for plan in plans}

    said, worlds = told(noise=False)
    assert (said, len(worlds)) == ({"kind ovs-netdev"}, 1)
    said, worlds = told(noise=True)
    assert (said, len(worlds)) == (set(), 2)


def test_a_bridge_that_a_machine_stands_on_alone_speaks_where_kernels_do() -> None:
    from virtlab.planner.queues.ports import all_ports, with_port_links

    def queued(platform: str) -> Plan:
        values = with_guest(platform=platform)
        values["world"]["ipv6_noise"] = True
        values["world"]["guests"]["b"]["vnics"]["eth0"]["queue"] = {"kind": "fifo", "limit_packets": 50}
        return with_port_links(parsed(values), all_ports)

    assert world_once(queued("qemu"), IDEAL_PROFILE) != world_once(queued("namespace"), IDEAL_PROFILE)
    said = {(one.path, one.setting) for one in without_effect(queued("qemu"), IDEAL_PROFILE)}
    assert said == {("guests.a", "platform qemu")}, "b has a bridge more than a namespace would have"


def test_a_profile_that_knows_the_platform_gives_it_its_costs_and_one_that_does_not_refuses() -> None:
    slow = Profile("slow", parameters={**PAID, "platform.qemu.send_ns": Parameter(500_000.0)})
    fast, of_machines = (
        simulated_with(profile, with_guest(platform="qemu")) for profile in (KNOWS_QEMU, slow)
    )
    # The kernel answers an echo, so only the sender's call is paid.
    assert np.median(of_machines) - np.median(fast) == 499_000
    (refusal, _) = Simulator(KNOWS_QEMU).check(parsed(with_guest(platform="container")))
    assert "platform.container" in refusal.reason


def test_a_device_costs_what_a_profile_says_of_it_and_nothing_that_it_says_of_another() -> None:
    found = Simulator(KNOWS_QEMU).check(parsed(with_model("e1000")))
    assert {refusal.path for refusal in found} == {"guests.a.platform", "guests.b.platform"}
    assert not Simulator(KNOWS_QEMU).check(parsed(with_model("virtio")))
    both = Profile("both", parameters={**PAID, "platform.qemu.e1000.crossing_ns": Parameter(50_000.0)})
    apart = np.median(simulated_with(both, with_model("e1000"))) - np.median(
        simulated_with(both, with_model("virtio"))
    )
    # Four crossings of 50 us; no send call, which the profile says of virtio alone.
    assert apart == 4 * 50_000 - 1000


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [("cpu_quota_ratio", 0.5, "CPU quota 0.5"), ("pin", "spread", "pin spread")],
    ids=["quota", "pin"],
)
def test_what_a_profile_holds_no_costs_for_is_played_and_said(key: str, value: Any, what: str) -> None:
    bare = Profile("bare", parameters={**PAID, "platform.namespace.send_ns": Parameter(0.0)})
    plan = parsed(with_guest(**{key: value}))
    assert not Simulator(bare).check(plan)
    assert world_once(plan, bare) == world_once(parsed(with_guest()), bare) or key == "cpu_quota_ratio"
    assert what in {each.setting for each in without_effect(plan, bare)}


def test_entries_of_flows_change_nothing_where_asking_the_rules_costs_nothing() -> None:
    values = with_guest()
    for vswitch in values["world"]["vswitches"].values():
        vswitch |= {"kind": "ovs-netdev", "parameters": {"flow_entries": "own"}}
    known = {**PAID, "vswitch.ovs-netdev.packet_ns": Parameter(700.0)}
    plan = parsed(values)
    (one, _) = without_effect(plan, Profile("without", parameters=known))
    assert (one.path, one.setting) == ("vswitches.h1.br", "flow_entries own")
    assert "vswitch.ovs-netdev.upcall_ns" in one.why
    with_upcalls = Profile("with", parameters={**known, "vswitch.ovs-netdev.upcall_ns": Parameter(50_000.0)})
    assert not without_effect(plan, with_upcalls)
    assert not Simulator(with_upcalls).check(plan)


def simulated_with(profile: Profile, values: Values) -> Any:
    from tests.contract.test_backend_contract import Kept

    from virtlab.plan import Trial

    kept = Kept()
    with Simulator(profile).open(parsed(values), Watcher()) as session:
        assert session.run(Trial("t0", 1), kept).status == "ok"
    return kept.column("probe", "rtt/1", "rtt_ns")


def with_program(argv: list[str], after: dict[str, Any]) -> Values:
    values = values_of(count=5)
    values["timeline"] += [
        {"id": "look", "do": "exec", "guest": "a", "argv": argv, "after": {"event": "measure.finished"}},
        {"id": "rest", "do": "wait", "for_ns": 10**6, "after": after},
    ]
    return values


def test_a_program_that_nobody_knows_fails_where_the_timeline_says_what_happens_then() -> None:
    outcome, kept = simulated(
        with_program(["cat", "/proc/meminfo"], {"any": ["look.finished", "look.failed"]})
    )
    assert outcome.status == "ok", outcome.reasons
    assert outcome.marks["look.failed"].t_ns == outcome.marks["measure.finished"].t_ns
    assert any("cat /proc/meminfo" in event.details.get("text", "") for event in kept.events)


def test_elsewhere_it_is_done_at_once_and_that_is_said() -> None:
    outcome, kept = simulated(with_program(["cat", "/proc/meminfo"], {"event": "look.finished"}))
    assert outcome.status == "ok", outcome.reasons
    assert outcome.marks["look.finished"].t_ns == outcome.marks["measure.finished"].t_ns
    said = [event.details.get("text", "") for event in kept.events]
    assert any("cat /proc/meminfo of timeline.look changes nothing" in text for text in said), said


@pytest.mark.parametrize(
    ("argv", "word", "after_ns"),
    [
        (["sleep", "0.25"], "finished", 250_000_000),
        (["true"], "finished", 0),
        (["false"], "failed", 0),
        (["sh", "-c", "sleep 1; false; sleep 500s && true"], "finished", 501 * 10**9),
        (["sh", "-c", "false && sleep 1"], "failed", 0),
    ],
)
def test_a_program_that_is_known_takes_its_time_and_is_not_said_to_do_nothing(
    argv: list[str], word: str, after_ns: int
) -> None:
    outcome, kept = simulated(with_program(argv, {"any": ["look.finished", "look.failed"]}))
    assert outcome.status == "ok", outcome.reasons
    took_ns = outcome.marks[f"look.{word}"].t_ns - outcome.marks["measure.finished"].t_ns
    assert took_ns == after_ns
    assert not any("timeline.look" in event.details.get("text", "") for event in kept.events)


def test_a_sleep_that_no_run_can_wait_for_is_refused_however_long_it_is() -> None:
    for word in ("1001", "9" * 400, "9" * 25 + "d"):
        plan = parsed(with_program(["sleep", word], {"event": "look.finished"}))
        assert [refusal.path for refusal in Simulator().check(plan)] == ["timeline.look.argv"]
    within = parsed(with_program(["sleep", "999"], {"event": "look.finished"}))
    assert not Simulator().check(within)


def test_a_sleep_that_is_ended_before_may_be_as_long_as_it_likes() -> None:
    values = with_program(["sleep", "9" * 400], {"event": "look.cancelled"})
    values["timeline"][-2] |= {"timeout_ns": 10**9, "on_timeout": "cancel"}
    assert not Simulator().check(parsed(values))
    outcome, _ = simulated(values)
    assert outcome.marks["look.cancelled"].t_ns - outcome.marks["measure.finished"].t_ns == 10**9


@pytest.mark.parametrize(("share", "refused"), [(0.0099, True), (0.01, False), (0.25, False)])
def test_a_share_that_linux_would_not_take_is_refused(share: float, refused: bool) -> None:
    found = [refusal.path for refusal in Simulator().check(parsed(with_guest(cpu_quota_ratio=share)))]
    assert found == (["guests.a.cpu_quota_ratio", "guests.b.cpu_quota_ratio"] if refused else [])


@pytest.mark.parametrize(
    "argv",
    [
        ["ls"], ["sleep"], ["sleep", "soon"], ["ip", "link", "set", "eth0", "down"], [],
        ["ip", "neigh", "flush", "dev", "eth0"], ["sh", "-c", "true | false"], ["sh", "-c", "echo 'true; true'"],
        ["sh", "-c", "true && && true"], ["sh", "-c", "ls; true"],
    ],
)  # fmt: skip
def test_what_nobody_knows_is_not_guessed(argv: list[str]) -> None:
    assert known(argv) is None


def rows(worlds: dict[str, str]) -> RunTable:
    """Two runs of each level, whose round trips differ a little."""
    values, played = [], {}
    for place, (level, world) in enumerate(worlds.items()):
        for repetition in range(3):
            run, levels = f"p{place}-r{repetition}", {"platform": level, "load": "1 kB"}
            value = 1e6 + 15_000 * place + repetition
            values.append(
                RunValue(run, place, levels, repetition, "simulated", "probe", "rtt", "mean", value, "ns", 10)
            )
            played[run] = world
    return RunTable(tuple(values), worlds=played)


@pytest.mark.parametrize(
    "text",
    [
        "probe.rtt.mean: platform namespace < qemu",
        "probe.rtt.mean: platform namespace ~ qemu within 2 %",
        "probe.rtt.mean: platform equivalent within 2 %",
        "probe.rtt.mean: platform qemu - namespace > 0 us",
    ],
)
def test_a_claim_between_levels_that_are_one_world_is_not_judged(text: str) -> None:
    alike = judge_one(parse_claim(text), rows({"namespace": "w", "qemu": "w"}))
    assert (alike.ruling, alike.comparisons) == ("undecided", ())
    assert ": undecided, not judged: to this simulated world platform " in alike.text
    assert judge_one(parse_claim(text), rows({"namespace": "w", "qemu": "v"})).ruling == "holds"
    assert (
        judge_one(parse_claim(text), rows({"namespace": "w", "qemu": "v", "container": "u"})).ruling
        != "undecided"
    )


def test_levels_that_a_claim_does_not_name_may_be_one_world() -> None:
    claim = parse_claim("probe.rtt.mean: platform namespace < qemu")
    assert judge_one(claim, rows({"namespace": "w", "container": "w", "qemu": "v"})).ruling == "holds"


@pytest.mark.slow
def test_the_summary_of_simulated_machines_says_that_it_knows_no_difference(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        "version: 1\nname: two\nseed: 1\nfactors: {platform: [namespace, qemu]}\nhosts: 2\n"
        'host: {guests: 1, platform: "${platform}", vswitch: linux_bridge}\n'
        "topology: {shape: line, switches: 1}\nlink: {rate: 100 Mbit/s}\n"
        "roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, interval: 1 ms, count: 10}}\n"
        "repeat: 2\nclaims:\n"
        '  - {id: sooner, text: "probe.rtt.mean: platform namespace < qemu"}\n',
        encoding="utf-8",
    )
    command = [
        "run",
        str(file),
        "--backend",
        "simulator",
        "--jobs",
        "1",
        "--dataset",
        str(tmp_path / "two.results"),
        "--no-report",
    ]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 4, told.output
    text = " ".join(told.output.split())
    assert "platform namespace and qemu are the same" in text
    assert "platform qemu of guests.h1.g1, guests.h2.g1 changes nothing" in text


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "said"), [("one", ["services.two"]), ("two", ["services.one"])])
def test_a_server_that_nobody_asks_writes_nothing_and_that_is_said(asked: str, said: list[str]) -> None:
    server = "kind: demand_server, on: h1.server, demand: 1 ms, write: 4 KiB, idle_write: 10 ms"
    experiment = load_text(f"""
version: 1
name: idle
hosts: {{h1: {{guests: {{server: {{platform: qemu, disk: {{size: 64 MiB}}}}, clients: {{}}}}}}}}
services:
  one: {{{server}}}
  two: {{{server}, ready: {{port: 7001}}}}
roles:
  clients: {{workload: request_response, from: h1.clients, to: {asked}, rate: 100 request/s, duration: 100 ms}}
repeat: 1
""")
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert Simulator().check(plan) == []
    found = [one.path for one in without_effect(plan, IDEAL_PROFILE) if one.setting == "idle_write"]
    assert found == said
