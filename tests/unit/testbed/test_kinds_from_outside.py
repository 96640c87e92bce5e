"""Kinds from outside are played, or refused with one line on each arm, and no file of virtlab names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests import outside
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.analysis.context import RoleContext
from virtlab.analysis.workloads.stream import clock_bound_ns
from virtlab.catalogue import ACTIONS, PLATFORMS, SERVICES, VSWITCHES
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.plan import Action, Plan, Refusal
from virtlab.planner import plan_run
from virtlab.simulator.limits import refusals as not_simulated
from virtlab.testbed.build.lower import lower
from virtlab.testbed.kinds.registry import Registry
from virtlab.testbed.lab.rules import refusals as not_inside
from virtlab.testbed.refusals import capabilities, refusals
from virtlab.testbed.steps.operations import (
    BridgeAdd,
    BridgePortSet,
    Discipline,
    ForwardingAdd,
    QdiscAdd,
)

FILE = """
version: 1
name: outside
hosts: {h: {platform: PLATFORM, guests: 3, vswitch: SWITCH}}
roles: {probe: {workload: rtt, from: h.g1, to: h.g2, size: 100 B ip_packet, interval: 10 ms, count: 5}}
"""
QUEUED = """
version: 1
name: outside
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, realise: REALISE, queue: {kind: short}}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 10 ms, count: 5}}
"""
NODDED = (
    FILE
    + """
timeline:
  - {id: measure, do: run, role: probe}
  - {id: yes, do: nod, after: measure.started}
"""
)
EVERYTHING = """
version: 1
name: outside
hosts: 2
host: {guests: 2, platform: pause, vswitch: hub}
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, realise: shaping, queue: {kind: short}}
roles: {line: {workload: morse, from: h1.g1, to: h2.g1}}
timeline:
  - {id: send, do: run, role: line}
  - {id: yes, do: nod, after: send.started}
"""
ABLE = replace(HERE, qdiscs={**HERE.qdiscs, "pfifo": None})


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    outside.declare(monkeypatch)


def planned(platform: str = "pause", vswitch: str = "hub") -> Plan:
    return plan_of(FILE.replace("PLATFORM", platform).replace("SWITCH", vswitch))


def plan_of(text: str) -> Plan:
    experiment = load_text(text)
    return plan_run(experiment, experiment.points()[0], 0)


def said(found: list[Refusal]) -> dict[str, str]:
    assert all(refusal.cure and "\n" not in refusal.reason for refusal in found)
    return {refusal.path: refusal.reason for refusal in found}


def test_a_file_can_name_both_and_the_testbed_refuses_neither() -> None:
    assert refusals(planned(), HERE) == []
    here = capabilities(HERE, {})
    assert (here.platforms["pause"], here.vswitches["hub"]) == (None, None)


def test_without_its_declaration_neither_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PLATFORMS, "pause")
    monkeypatch.delitem(VSWITCHES, "hub")
    with pytest.raises(ExperimentError, match="pause"):
        planned(vswitch="linux_bridge")
    with pytest.raises(ExperimentError, match="hub"):
        planned(platform="namespace")


def test_what_is_declared_and_not_implemented_is_refused_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PLATFORMS, "stop", outside.PAUSE._replace(name="stop"))
    monkeypatch.setitem(VSWITCHES, "tee", outside.HUB._replace(name="tee"))
    paths = said(refusals(planned("stop", "tee"), HERE))
    assert paths.pop("vswitches.h.br.kind") == "'tee' cannot be built here"
    assert paths == {
        f"guests.h.{guest}.platform": "'stop' guests cannot be started here" for guest in ("g1", "g2", "g3")
    }
    with pytest.raises(AssertionError, match="tee"):
        lower(planned(vswitch="tee"))


def test_the_simulator_refuses_both_with_the_reason_of_their_declarations() -> None:
    assert said(not_simulated(planned(vswitch="linux_bridge"))) == {
        f"guests.h.{guest}.platform": f"'pause' guests are not modelled: {outside.UNMEASURED}"
        for guest in ("g1", "g2", "g3")
    }
    assert said(not_simulated(planned("namespace"))) == {"vswitches.h.br.kind": "'hub' is not modelled"}


def test_the_laboratory_machine_refuses_both() -> None:
    paths = said(not_inside(planned(), HERE))
    assert paths["vswitches.h.br.kind"] == "'hub' is not inside the laboratory machine"
    assert {f"guests.h.{guest}.platform" for guest in ("g1", "g2", "g3")} < paths.keys()


def test_a_hub_is_a_bridge_of_which_no_port_learns_and_which_is_told_no_address() -> None:
    operations = [step.op for step in lower(planned()).steps]
    assert [type(op) for op in operations if isinstance(op, (BridgeAdd, ForwardingAdd))] == [BridgeAdd]
    ports = [op.rules.learning for op in operations if isinstance(op, BridgePortSet)]
    assert ports == [False, False, False]


def test_guests_that_share_the_kernel_share_its_clock_and_keep_their_one_way_delays() -> None:
    plan = planned()
    record = SimpleNamespace(clocks={}, plan=plan)
    context = SimpleNamespace(record=record, name="probe", role=plan.roles["probe"])
    assert clock_bound_ns(cast("RoleContext", context)) == 0.0


def test_a_guest_is_reset_by_its_links_where_its_platform_says_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone: Any = Action(id="gone", do="reset", guest="h.g3")
    plan = planned()
    plan = plan.model_copy(update={"timeline": (*plan.timeline, gone)})
    assert refusals(plan, HERE) == []
    monkeypatch.setitem(PLATFORMS, "pause", outside.PAUSE._replace(reset=None))
    assert list(said(refusals(plan, HERE))) == ["timeline.gone.guest"]


def test_what_nobody_declared_is_refused_by_every_arm_with_one_line_each() -> None:
    plan = planned("namespace", "linux_bridge")
    world = plan.world
    guest, switch = world.guests["h.g3"], world.vswitches["h.br"]
    changed = {
        "guests": {**world.guests, "h.g3": guest.model_copy(update={"platform": "unheard"})},
        "vswitches": {"h.br": switch.model_copy(update={"kind": "unheard"})},
    }
    plan = plan.model_copy(update={"world": world.model_copy(update=changed)})
    for found in (refusals(plan, HERE), not_simulated(plan), not_inside(plan, HERE)):
        assert said(found).keys() == {"guests.h.g3.platform", "vswitches.h.br.kind"}


def test_a_discipline_is_the_kernels_where_the_kernel_has_what_it_is_made_of() -> None:
    plan = plan_of(QUEUED.replace("REALISE", "shaping"))
    assert refusals(plan, ABLE) == []
    ends = ("links.h1-s1", "links.s1-h2")
    made = [step.op for step in lower(plan).steps if step.because in ends and isinstance(step.op, QdiscAdd)]
    inner = [op.discipline for op in made if op.handle == "10:"]
    assert inner == [Discipline("pfifo", {"limit_packets": outside.ROOM_PACKETS})] * 4
    lacking = replace(ABLE, qdiscs={**ABLE.qdiscs, "pfifo": "unknown kind"})
    assert set(said(refusals(plan, lacking)).values()) == {"this kernel has no pfifo (unknown kind)"}


def test_a_discipline_that_virtlab_has_no_state_machine_for_is_refused_by_the_soft_switch_and_the_simulator() -> (
    None
):
    plan = plan_of(QUEUED.replace("REALISE", "soft_switch"))
    paths = {f"links.{link}.queue.{way}.kind" for link in ("h1-s1", "s1-h2") for way in ("ab", "ba")}
    assert said(refusals(plan, ABLE)) == dict.fromkeys(paths, "the soft switch has no queue 'short'")
    why = f"the simulator does not play short: {outside.UNMEASURED}"
    assert said(not_simulated(plan)) == dict.fromkeys(paths, why)


def test_an_action_is_played_where_something_plays_it_and_refused_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(NODDED.replace("PLATFORM", "namespace").replace("SWITCH", "linux_bridge"))
    assert refusals(plan, HERE) == []
    assert capabilities(HERE, {}).actions["nod"] is None
    assert said(not_simulated(plan)) == {"timeline.yes": "cannot nod: nobody nods in virtual time"}
    monkeypatch.setitem(ACTIONS, "wink", outside.NOD._replace(name="wink"))
    changed = [
        action.model_copy(update={"do": "wink"}) if action.id == "yes" else action for action in plan.timeline
    ]
    winked = plan.model_copy(update={"timeline": tuple(changed)})
    assert said(refusals(winked, HERE)) == {"timeline.yes": "'wink' is declared, and nothing plays it here"}
    assert capabilities(HERE, {}).actions["wink"] is not None


def test_a_file_of_kinds_from_outside_alone_is_refused_by_each_arm_in_one_line_for_each_that_it_lacks() -> (
    None
):
    plan = plan_of(EVERYTHING)
    assert said(refusals(plan, ABLE)) == {
        "roles.line.workload": "the testbed does not play morse: no agent has a key"
    }
    guests = {f"guests.h{host}.g{guest}.platform" for host in (1, 2) for guest in (1, 2)}
    switches = {f"vswitches.h{host}.br.kind" for host in (1, 2)}
    queues = {f"links.{link}.queue.{way}.kind" for link in ("h1-s1", "s1-h2") for way in ("ab", "ba")}
    lacking = {*guests, *switches, *queues, "roles.line.workload", "timeline.yes"}
    assert set(said(not_simulated(plan))) == lacking
    assert {*guests, *switches, "roles.line.workload"} == set(said(not_inside(plan, ABLE)))


def test_a_registry_takes_kinds_of_which_this_testbed_has_no_room_yet() -> None:
    declared = {"depot": Service({"testbed": None}), "elsewhere": Service({"testbed": "not here"})}
    services: Registry[str] = Registry(declared, "virtlab.testbed.services.{}")
    assert (services.played(), services.find("depot")) == ((), None)
    services.register("depot", "its implementation")
    assert (services.played(), services.of("depot")) == (("depot",), "its implementation")


@dataclass
class Service:
    """A declaration as small as one can be."""

    arms: Mapping[str, str | None]


def test_a_service_is_played_where_something_plays_it_and_refused_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = FILE.replace("PLATFORM", "namespace").replace("SWITCH", "linux_bridge")
    plan = plan_of(text + 'services: {door: {kind: bell, on: h.g1, ready: {line: "ding"}}}\n')
    assert refusals(plan, HERE) == []
    assert list(said(not_simulated(plan)).values()) == [
        "the simulator does not play bell: nobody hears it in virtual time"
    ]
    monkeypatch.setitem(SERVICES, "gong", replace(outside.BELL, name="gong"))
    silent = plan.world.services["door"].model_copy(update={"kind": "gong"})
    plan = plan.model_copy(update={"world": plan.world.model_copy(update={"services": {"door": silent}})})
    assert list(said(refusals(plan, HERE))) == ["services.door.kind"]
