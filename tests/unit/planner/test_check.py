"""What is wrong with a Plan on any arm is found once, and both arms refuse it in the same words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.testbed.test_testbed_refusals import GOLDEN, HERE, put

from virtlab.catalogue import ACTIONS
from virtlab.plan import Plan
from virtlab.planner.check import mistakes
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.simulator import limits as simulator
from virtlab.testbed import refusals as testbed

MISTAKES = {
    "guests.a.host": put("world/guests/a/host", "h9"),
    "guests.a.cpu_quota_ratio": put("world/guests/a/cpu_quota_ratio", 0.0099),
    "guests.a.vnics.eth0.mtu_bytes": put("world/guests/a/vnics/eth0/mtu_bytes", 20),
    "guests.b.vnics.eth0.mac": put("world/guests/b/vnics/eth0/mac", "02:00:00:00:00:01"),
    "guests.b.vnics.eth0.ip": put("world/guests/b/vnics/eth0/ip", ["10.0.0.1/24"]),
    "vswitches.h1.br.host": put("world/vswitches/h1.br/host", "h9"),
    "vswitches.h1.br.parameters": put("world/vswitches/h1.br/parameters", {"stp": True}),
    "routes.a": put("world/routes", {"a": [{"to": "10.9.0.0/24", "via": "10.0.0.77", "vnic": "eth0"}]}),
    "links.h1-s1": put("world/links/h1-s1/ends", ["h1.up", "s9.p1"]),
    "roles.probe.from": put("roles/probe/from", "c"),
    "roles.probe.to": put("roles/probe/to", "a"),
    "roles.probe": put("world/guests/b/vnics/eth0/ip", ["fd00::2/64"]),
    "timeline.stop": put("timeline/2/do", "dance"),
    "timeline.stop.role": put("timeline/2/role", "nobody"),
    "timeline.drain.guest": put("timeline/3", {"id": "drain", "do": "reset", "guest": "c"}),
    "timeline.drain": put("timeline/3", {"id": "drain", "do": "exec", "guest": "a"}),
    "timeline.drain.args": put(
        "timeline/3", {"id": "drain", "do": "set", "role": "probe", "args": {"interval_ns": 10}}
    ),
    "timeline.drain.after": put("timeline/3/after", {"event": "stop.finished"}),
    "timeline.drain.service": put(
        "timeline/3", {"id": "drain", "do": "call", "service": "store", "op": "heal"}
    ),
    "timeline.drain.until": put(
        "timeline/3",
        {
            "id": "drain",
            "do": "wait",
            "until": {"call": "store.healed"},
            "timeout_ns": 1,
            "on_timeout": "fail",
        },
    ),
    "services.db.on": put("world/services", {"db": {"kind": "store", "on": ["a", "c"]}}),
    "services.db.needs": put("world/services", {"db": {"kind": "store", "on": ["a"], "needs": ["web"]}}),
    "services.web.needs": put(
        "world/services",
        {
            "db": {"kind": "store", "on": ["a"], "needs": ["web"]},
            "web": {"kind": "store", "on": ["b"], "needs": ["db"]},
        },
    ),
    "pools.h1.fast": put("world/pools", {"h1.fast": {"host": "h1", "cpus": 1}}),
    "pools.h1.fast.host": put("world/pools", {"h1.fast": {"host": "h9", "cpus": 1}}),
    "guests.a.pool": put("world/guests/a/pool", "h1.fast"),
    "guests.a.weight": put("world/guests/a/weight", 200),
    "windows.measured": put("windows/measured/to", "measure.over"),
    "collect.packets.nobody": put("collect/packets", ["nobody"]),
}


def changed(change: Callable[[dict[str, Any]], None]) -> Plan:
    values = copy.deepcopy(GOLDEN)
    change(values)
    return Plan.model_validate(values)


@pytest.mark.parametrize(("path", "change"), MISTAKES.items(), ids=MISTAKES)
def test_both_arms_refuse_a_mistake_of_a_plan_in_the_same_words(
    path: str, change: Callable[[dict[str, Any]], None]
) -> None:
    plan = changed(change)
    on_testbed = [each for each in testbed.refusals(plan, HERE) if each.path == path]
    in_simulator = [each for each in simulator.refusals(plan) if each.path == path]
    found = [each for each in mistakes(plan, "testbed", LayerTwo(plan)) if each.path == path]
    assert found
    assert set(found) <= set(on_testbed)
    assert set(found) <= set(in_simulator)


@pytest.mark.parametrize("arm", ["testbed", "simulator"])
def test_an_action_that_an_arm_does_not_play_is_refused_with_its_reason(
    arm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, why = "reset", "it has nothing to reset"
    monkeypatch.setitem(
        ACTIONS, name, ACTIONS[name]._replace(arms={"testbed": None, "simulator": None, arm: why})
    )
    plan = changed(put("timeline/2/do", name))
    found = testbed.refusals(plan, HERE) if arm == "testbed" else simulator.refusals(plan)
    assert f"cannot {name}: {ACTIONS[name].arms[arm]}" in [each.reason for each in found]


def test_roles_write_to_no_more_memory_than_their_guest_has() -> None:
    values = copy.deepcopy(GOLDEN)
    parameters = {"rate_byte_per_s": 1_000_000, "working_set_bytes": 64 << 20, "duration_ns": 1_000_000_000}
    for name in ("one", "two"):
        values["roles"][name] = {"workload": "dirty", "from": "a", **parameters}
    for memory, reasons in ((128 << 20, []), ((128 << 20) - 1, ["its roles write to 134217728 B of memory"])):
        values["world"]["guests"]["a"]["memory_bytes"] = memory
        plan = Plan.model_validate(values)
        found = [
            each.reason
            for each in mistakes(plan, "simulator", LayerTwo(plan))
            if each.path == "guests.a.memory_bytes"
        ]
        assert [reason.partition(", and")[0] for reason in found] == reasons
