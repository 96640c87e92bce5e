"""Open vSwitch as a virtual switch: private, all ports at once, rules that hold, and nothing of it left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError, MachineError
from virtlab.plan import Match, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.queues.ovs import Qos
from virtlab.testbed.vswitches import ovs
from virtlab.testbed.vswitches.ovs_rules import OvsBridge, Port

pytestmark = [
    pytest.mark.skipif(
        (worlds.missing() or ovs.missing()) is not None, reason=str(worlds.missing() or ovs.missing())
    ),
    pytest.mark.timeout(300),
]
COUNT = 20


def on_ovs(world: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """The world with Open vSwitch in place of every bridge."""
    for vswitch in world["vswitches"].values():
        vswitch |= {"kind": "ovs-netdev", **properties}
    return world


def systems_own() -> tuple[list[str], list[str]]:
    """What the system's Open vSwitch has lying about."""
    return tuple(
        sorted(str(path) for path in Path(place).glob("*"))
        for place in ("/run/openvswitch", "/etc/openvswitch")
    )  # type: ignore[return-value]


def test_echoes_cross_two_private_switches_and_their_flow_caches_count_them() -> None:
    before = systems_own()
    plan = worlds.echo_plan(on_ovs(worlds.bridged(switches=1)), count=COUNT)
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        begin, end = sink.counters("begin"), sink.counters("end")
        for host in ("h1", "h2"):
            received = (f"hosts.{host}.ovs", "flow_cache_received_packets")
            assert end[received] - begin[received] >= 2 * COUNT
        realised = session.realised.objects["vswitches.h1.br"]
        assert (realised.by, realised.read_back["datapath"]) == ("ovs-netdev", "netdev")
        assert any("actions=output" in rule for rule in realised.read_back["rules"])
    assert systems_own() == before


def test_fifty_ports_are_one_transaction() -> None:
    plan = worlds.plan(on_ovs(worlds.one_host(50)))
    with Testbed().open(plan, worlds.Patient()) as session:
        assert len(session.realised.objects["vswitches.h.br"].read_back["ports"]) == 50


@pytest.mark.parametrize("kind", ["linux_bridge", "ovs-netdev"])
def test_names_that_no_interface_may_have_are_those_of_switches_all_the_same(kind: str) -> None:
    world = worlds.one_host(4)
    world["vswitches"] = {f"h.{name}": {"kind": kind, "host": "h"} for name in ("all", "default")}
    for guest, name in {"g1": "all", "g2": "all", "g3": "default", "g4": "default"}.items():
        world["guests"][guest]["vnics"]["eth0"]["vswitch"] = f"h.{name}"
    plan = worlds.echo_plan(world, count=COUNT, source="g1", target="g2")
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
        assert sink.rows("probe", "rtt/1") == COUNT


def two_isolated() -> dict[str, Any]:
    """Three guests, of which the first two stand behind isolated ports."""
    world = on_ovs(worlds.one_host(3))
    for name in ("g1", "g2"):
        world["guests"][name]["vnics"]["eth0"]["isolated"] = True
    return world


def test_isolated_ports_reach_the_others_and_not_each_other() -> None:
    world = two_isolated()
    with Testbed().open(
        worlds.echo_plan(world, count=COUNT, source="g1", target="g3"), worlds.Patient()
    ) as session:
        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
        assert sink.rows("probe", "rtt/1") == COUNT
    with pytest.raises(GuestError, match=r"guests\.g1: does not reach g2"):
        Testbed().open(worlds.echo_plan(world, source="g1", target="g2"), worlds.Patient())


def test_isolated_ports_are_learned_and_what_is_for_one_reaches_no_other() -> None:
    world = two_isolated() | {"arp": "live"}
    with Testbed().open(
        worlds.echo_plan(world, count=COUNT, source="g1", target="g3"), worlds.Patient()
    ) as session:
        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
        assert sink.rows("probe", "rtt/1") == COUNT
        begin, end = sink.counters("begin"), sink.counters("end")
        reached = {
            name: end[vnic, "received_packets"] - begin[vnic, "received_packets"]
            for name in ("g1", "g2")
            if (vnic := f"guests.{name}.vnics.eth0")
        }
        assert reached["g1"] >= COUNT > reached["g2"]
        switches = session._guests.switches["h.br"]
        assert isinstance(switches, ovs.OpenVswitches)
        (bridge,) = switches._bridges()
        control = f"{ovs.RUN}/{switches._places[bridge.namespace]}/switch.ctl"
        mac = world["guests"]["g1"]["vnics"]["eth0"]["mac"]

        def traced(number: int) -> str:
            flow = f"in_port={number},dl_src=02:00:00:00:77:01,dl_dst={mac}"
            return switches._run(
                bridge.namespace, ["ovs-appctl", "-t", control, "ofproto/trace", bridge.link, flow]
            )

        isolated, free = (bridge.number(port.link) for port in bridge.ports if port.link != "g1.eth0")
        assert "Datapath actions: drop" in traced(isolated), "the other one, to an address that was learned"
        assert "Datapath actions: drop" not in traced(free)
    with pytest.raises(GuestError, match=r"guests\.g1: does not reach g2"):
        Testbed().open(worlds.echo_plan(world, source="g1", target="g2"), worlds.Patient())


def test_ports_that_are_not_isolated_as_they_should_be_end_a_run_before_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = ovs.transaction
    monkeypatch.setattr(
        ovs, "transaction", lambda bridges: [word.replace("protected=true", "protected=false") for word in asked(bridges)]
    )  # fmt: skip
    world = on_ovs(worlds.one_host(2))
    world["guests"]["g1"]["vnics"]["eth0"]["isolated"] = True
    with pytest.raises(MachineError, match=r"has port .* as one that is not isolated") as caught:
        Testbed().open(worlds.plan(world), worlds.Patient())
    assert caught.value.where == "vswitches.h.br"


def test_without_flooding_nobody_is_asked_who_is_where() -> None:
    world = on_ovs(worlds.one_host(2), flooding=False, learning=False)
    with Testbed().open(
        worlds.echo_plan(world, count=COUNT, source="g1", target="g2"), worlds.Patient()
    ) as session:
        assert session.realised.objects["vswitches.h.br"].read_back["rules"][-1] == "priority=0 actions=drop"
    world["arp"] = "live"
    with pytest.raises(GuestError, match=r"guests\.g1: does not reach g2"):
        Testbed().open(worlds.echo_plan(world, source="g1", target="g2"), worlds.Patient())


@pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
def test_a_virtual_machine_stands_on_it() -> None:
    world = on_ovs(machines.machines(worlds.one_host(2), "g1"))
    with Testbed().open(
        worlds.echo_plan(world, count=COUNT, source="g1", target="g2"), worlds.Patient()
    ) as session:
        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
        assert sink.rows("probe", "rtt/1") == COUNT


def test_a_switch_that_does_not_start_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ovs, "_PREPARE", "echo no room >&2; exit 1; :")
    before = worlds.own_processes()
    with pytest.raises(MachineError, match="no room"):
        Testbed().open(worlds.plan(on_ovs(worlds.one_host(2))), worlds.Patient())
    assert worlds.own_processes() <= before


def instead_of(daemon: str, script: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script is found where the daemon would be."""
    fake = place / daemon
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")


DAEMONS = pytest.mark.parametrize("daemon", [ovs.DATABASE, ovs.SWITCH])


@DAEMONS
def test_a_daemon_that_fails_at_its_start_is_named_with_its_words_and_the_cure(
    daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of(daemon, "echo there is no lock to take >&2; exit 1", tmp_path, monkeypatch)
    before = worlds.own_processes()
    with pytest.raises(MachineError) as error:
        Testbed().open(worlds.plan(on_ovs(worlds.one_host(2))), worlds.Patient())
    assert error.value.where == "vswitches"
    assert error.value.what == f"{daemon} of h ended with code 1: there is no lock to take"
    assert error.value.cure == ovs.CURE_DAEMON.format(daemon)
    assert worlds.own_processes() <= before


@DAEMONS
def test_a_daemon_that_hangs_at_its_start_is_given_up_by_name_with_its_words(
    daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of(daemon, "echo waiting for a lock >&2; exec sleep 600", tmp_path, monkeypatch)
    # Before the switch is waited for, the database serves for real.
    bound_s = 8 if daemon == ovs.SWITCH else 4
    monkeypatch.setattr(ovs, "START_TIMEOUT_S", float(bound_s))
    before = worlds.own_processes()
    with pytest.raises(MachineError) as error:
        Testbed().open(worlds.plan(on_ovs(worlds.one_host(2))), worlds.Patient())
    assert (
        error.value.what
        == f"{daemon} of h runs but does not answer after {bound_s} s; it wrote: waiting for a lock"
    )
    assert error.value.cure == ovs.CURE_DAEMON.format(daemon)
    assert worlds.own_processes() <= before


def test_a_switch_that_hangs_at_its_start_does_not_keep_anybody_who_cancels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    instead_of(ovs.SWITCH, f"echo > {begun}; exec sleep 600", tmp_path, monkeypatch)
    monkeypatch.setattr(ovs, "START_TIMEOUT_S", 500.0)
    observe = worlds.Patient()
    monkeypatch.setattr(observe, "cancelled", begun.exists)
    before = worlds.own_processes()
    with pytest.raises(GuestError, match="was still starting when the run was cancelled"):
        Testbed().open(worlds.plan(on_ovs(worlds.one_host(2))), observe)
    assert worlds.own_processes() <= before


@pytest.mark.parametrize(
    ("done", "what"),
    [
        (["add-flow", "{}", "priority=7,in_port=1,actions=drop"], "has a rule that it was not given: .*in_port"),
        (["del-flows", "{}", "dl_dst=02:00:00:00:00:02"], "lacks the rule .*dl_dst=02:00:00:00:00:02"),
        (["mod-flows", "{}", "dl_dst=02:00:00:00:00:02,actions=NORMAL"], "actions=NORMAL, lacks .* actions=output:2"),
    ],
    ids=["more", "fewer", "others"],
)  # fmt: skip
def test_rules_that_are_not_those_it_was_given_end_a_run_before_it_begins(
    done: list[str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = ovs.OpenVswitches.start

    def meddled(self: ovs.OpenVswitches, observe: worlds.Patient) -> None:
        start(self, observe)
        (bridge,) = self._bridges()
        self._run(bridge.namespace, ["ovs-ofctl", *(word.format(bridge.link) for word in done)])

    monkeypatch.setattr(ovs.OpenVswitches, "start", meddled)
    with pytest.raises(MachineError, match=what) as caught:
        Testbed().open(worlds.plan(on_ovs(worlds.one_host(2))), worlds.Patient())
    assert (caught.value.where, caught.value.cure) == ("vswitches.h.br", ovs.CURE_RULES)


def test_a_command_that_warns_and_succeeds_has_succeeded_and_one_that_fails_is_told_with_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, heard = ovs.OpenVswitches.start, []

    def meddled(self: ovs.OpenVswitches, observe: worlds.Patient) -> None:
        start(self, observe)
        (bridge,) = self._bridges()
        words = ["sh", "-c", "echo slow >&2; echo done; exit $1", "command"]
        heard.append(self._run(bridge.namespace, [*words, "0"]))
        self._run(bridge.namespace, [*words, "1"])

    monkeypatch.setattr(ovs.OpenVswitches, "start", meddled)
    with pytest.raises(MachineError, match="sh: slow"):
        Testbed().open(worlds.plan(on_ovs(worlds.one_host(2))), worlds.Patient())
    assert heard == ["done\n"]


def test_ports_with_other_numbers_than_the_rules_go_by_end_a_run_before_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = ovs.transaction
    swapped = {"ofport_request=1": "ofport_request=2", "ofport_request=2": "ofport_request=1"}
    monkeypatch.setattr(
        ovs, "transaction", lambda bridges: [swapped.get(word, word) for word in asked(bridges)]
    )
    world = on_ovs(worlds.one_host(2)) | {"arp": "live"}  # no rule names a port yet, and echoes arrive
    with pytest.raises(
        MachineError, match=r"as number 2, not 1 as its rules say, .* as number 1, not 2"
    ) as caught:
        Testbed().open(worlds.plan(world), worlds.Patient())
    assert (caught.value.where, caught.value.cure) == ("vswitches.h.br", ovs.CURE_PORTS)


MATCHES: list[dict[str, Any]] = [
    {}, {"pcp": (0, 5)}, {"dscp": (0, 46)}, {"pcp": (5,), "dscp": (46,), "protocol": 17}, {"protocol": 1},
    {"source": "10.0.0.7/16"}, {"source": "10.0.0.0/8", "destination": "10.0.0.9/32", "protocol": 6},
    {"source": "fd00::/8", "protocol": 58}, {"destination": "fd00::1/128"}, {"source_port": (1, 65_534)},
    {"destination_port": (0, 65_535), "protocol": 132}, {"source_port": (5, 5), "destination_port": (8, 15), "protocol": 17},
]  # fmt: skip


def test_no_rule_that_a_file_can_ask_for_is_taken_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ovs.rules
    rules = tuple(Match.model_validate({"class": "gold", **each}) for each in MATCHES)
    ports = [
        Port("a", isolated=True),
        Port("b", isolated=True, qos=Qos("linux-htb", names={"gold": 1}, match=rules)),
        Port("c"),
    ]
    addresses = {f"02:00:00:00:01:0{number}": port.link for number, port in enumerate(ports)}
    every = [
        rule
        for own in (False, True)
        for flooding in (False, True)
        for rule in given(
            OvsBridge("h", "br", flooding, own_entries=own, ports=ports, addresses=dict(addresses))
        )
    ]
    monkeypatch.setattr(ovs, "rules", lambda bridge: [*given(bridge), *every])
    with Testbed().open(worlds.plan(on_ovs(worlds.one_host(3))), worlds.Patient()) as session:
        told = session.realised.objects["vswitches.h.br"].read_back["rules"]
    assert len(told) > len(given(OvsBridge("h", "br", ports=ports, addresses=dict(addresses))))


def test_what_it_cannot_do_is_refused() -> None:
    world = on_ovs(worlds.one_host(2), learning=False)
    world["guests"]["g1"]["vnics"]["eth0"]["offloads"] = "default"
    paths = [refusal.path for refusal in Testbed().check(worlds.plan(world))]
    assert paths == ["vswitches.h.br.learning", "guests.g1.vnics.eth0.offloads"]


def test_hundreds_of_commands_one_after_another_have_one_channel_and_each_its_own_words() -> None:
    with Testbed().open(worlds.plan(on_ovs(worlds.one_host(2))), worlds.Patient()) as session:
        switches = session._guests.switches["h.br"]
        assert isinstance(switches, ovs.OpenVswitches)
        (namespace,) = switches._places
        for number in range(300):
            assert switches._run(namespace, ["echo", str(number)]) == f"{number}\n"
        assert session.leader.control._listeners.keys() == switches._names.keys(), (
            "only daemons are listened to"
        )
