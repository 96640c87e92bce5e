"""What the testbed refuses of services, and how their output is kept and searched."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.testbed.test_testbed_refusals import HERE, put, refused

from virtlab.catalogue import PLATFORMS, SERVICES
from virtlab.errors import MachineError
from virtlab.plan import Guest, Plan, Ready, Service
from virtlab.planner.check import mistakes
from virtlab.planner.topology.ends import ends_between
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.testbed import refusals
from virtlab.testbed.image.entry import configuration_of, entry_point
from virtlab.testbed.services import store
from virtlab.testbed.services.output import LINE_MAX_BYTES, MOST_BYTES, Output
from virtlab.testbed.services.service import services

GUEST = Guest.model_validate({"platform": "namespace", "host": "h", "vnics": {}})


def test_the_agent_itself_is_the_server_of_virtlab() -> None:
    service = Service(kind="demand_server", on=("a",), ready=Ready(port=81), demand_ns=5, threads=2)
    found = services.of("demand_server").invocation("app", service, GUEST)
    assert found.ours
    assert found.argv == ()
    assert found.before[:2] == ("/proc/self/exe", "serve")
    assert json.loads(found.before[3]) == {"demand_ns": 5, "threads": 2}
    assert found.before[4:] == ("--port", "81")


def test_the_server_of_virtlab_writes_nothing_on_hosts_that_exist_already() -> None:
    service = Service(kind="demand_server", on=("a",), ready=Ready(port=81), write_bytes=5)
    for name, platform in PLATFORMS.items():
        guest = GUEST.model_copy(update={"platform": name})
        found = list(services.of("demand_server").refusals("services.app", service, guest))
        assert [each.path for each in found] == (["services.app.write"] if platform.existing else [])


@pytest.mark.parametrize("alone", [False, True])
def test_nodes_of_a_store_on_two_networks_are_looked_at_once_each(
    alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[str, str]] = []

    def between(plan: Plan, near: str, other: str, workload: str) -> Any:
        looked.append((near, other))
        return ends_between(plan, near, other, workload)

    def guest(number: int) -> dict[str, Any]:
        both = [f"10.0.0.{number + 1}/24", f"10.9.0.{number + 1}/24"]
        vnic = {
            "vswitch": "br",
            "ip": both[1:] if alone and number == 2 else both,
            "mac": f"02:00:00:00:00:{number:02x}",
        }
        return {"platform": "namespace", "host": "h", "vnics": {"eth0": vnic}}

    nodes = [f"n{number}" for number in range(60)]
    switches = {"br": {"kind": "linux_bridge", "host": "h"}}
    world = {
        "hosts": {"h": {}},
        "vswitches": switches,
        "guests": {node: guest(number) for number, node in enumerate(nodes)},
    }
    depot = {
        "kind": "store",
        "on": nodes,
        "copies": 2,
        "lookup": "elastic_hash",
        "ack": "memory",
        "cache_bytes": 9,
    }
    plan = Plan.model_validate({"world": world | {"services": {"depot": depot}}})
    monkeypatch.setattr(store, "ends_between", between)
    found = [
        each.reason for each in services.of("store").of_world(plan, "depot", plan.world.services["depot"])
    ]
    if alone:
        assert found == ["n2 reaches n0 at 10.9.0.1, and n1 at 10.0.0.1"]
    else:
        assert (found, len(looked)) == ([], len(nodes)), "not each from each other"


def with_services(**found: dict[str, Any]) -> Any:
    return put("world/services", found)


def program(**more: Any) -> dict[str, Any]:
    return {"kind": "program", "on": ["a"], "argv": ["sleep", "9"], **more}


def test_a_program_in_a_guest_is_not_refused() -> None:
    assert refused(with_services(db=program(ready={"port": 80}))) == []


@pytest.mark.parametrize(
    ("service", "path"),
    [
        (program(kind="shop"), "services.db.kind"),
        (program(argv=[]), "services.db.argv"),
        (program(shell=True), "services.db.shell"),
        (program(on=["nobody"]), "services.db.on"),
        (program(needs=["db"]), "services.db.needs"),
    ],
)
def test_a_service_that_cannot_be_is_refused_where_it_stands(service: dict[str, Any], path: str) -> None:
    assert refused(with_services(db=service)) == [path]


def test_a_guest_without_an_agent_serves_nothing() -> None:
    def change(values: dict[str, Any]) -> None:
        with_services(db=program())(values)
        values["world"]["guests"]["a"]["platform"] = "appliance"

    assert "services.db.on" in refused(change)


def test_a_guest_that_serves_is_not_booted_again() -> None:
    def change(values: dict[str, Any]) -> None:
        with_services(db=program(on=["b"]))(values)
        values["world"]["guests"]["b"]["platform"] = "qemu"
        values["timeline"][3] = {"id": "again", "do": "reset", "guest": "b"}

    assert "timeline.again.guest" in refused(change)


def calls(**action: Any) -> Any:
    def change(values: dict[str, Any]) -> None:
        with_services(db=program())(values)
        values["timeline"][3] = {"id": "drain", **action}

    return change


WAITS = {"do": "wait", "timeout_ns": 1, "on_timeout": "fail"}


def test_operations_and_progresses_of_a_program_are_not_refused() -> None:
    for op in ("fail", "heal", "restart"):
        assert refused(calls(do="call", service="db", op=op, args={"guest": "a"})) == []
    assert refused(calls(**WAITS, until={"call": "db.ready"})) == []


@pytest.mark.parametrize(
    ("action", "path"),
    [
        ({"do": "call", "service": "db", "op": "wipe"}, "timeline.drain.op"),
        ({"do": "call", "service": "db"}, "timeline.drain.op"),
        ({"do": "call", "op": "fail"}, "timeline.drain.service"),
        ({"do": "call", "service": "db", "op": "fail", "args": {"guest": "b"}}, "timeline.drain.args"),
        ({"do": "call", "service": "db", "op": "fail", "args": {"node": "a"}}, "timeline.drain.args"),
        ({**WAITS, "until": {"call": "db.full"}}, "timeline.drain.until"),
        ({**WAITS, "until": {"call": "db.ready", "op": ">", "value": 1}}, "timeline.drain.until"),
    ],
)
def test_what_a_program_does_not_have_is_refused(action: dict[str, Any], path: str) -> None:
    assert refused(calls(**action)) == [path]


def test_an_operation_ends_servers_or_starts_them_or_both_or_is_a_command_beside_them() -> None:
    heal, away = {"heal": (False, True, False)}, {"fail_node": (True, False, False)}
    nodes, replace = (
        heal | away | {"wipe_node": (True, True, True)},
        away | {"wipe_node": (False, False, True)},
    )
    reset = {"reset_brick": replace["wipe_node"]}
    whole = heal | {"fail": (True, False, False), "restart": (True, True, False)}
    for declared in [each for each in SERVICES.values() if each.arms["testbed"] is None]:
        does = {name: (each.ends, each.starts, each.empties) for name, each in declared.operations.items()}
        beside = services.of(declared.name).besides.keys()
        assert beside == {name for name, done in does.items() if not any(done)}
        does = {name: done for name, done in does.items() if name not in beside}
        assert does in (whole, whole | replace, whole | replace | reset, nodes), declared.name
        one = {name for name, each in declared.operations.items() if each.of_one}
        assert one == does.keys() & {"fail_node", "wipe_node", "reset_brick"}


def test_the_simulator_refuses_a_program_with_the_cure() -> None:
    world = {"hosts": {"h": {}}, "guests": {"a": {"platform": "namespace", "host": "h", "vnics": {}}}}
    plan = Plan.model_validate({"world": {**world, "services": {"db": program()}}})
    (refusal,) = mistakes(plan, "simulator", LayerTwo(plan))
    assert str(refusal.path) == "services.db.kind"
    assert "a simulated guest runs no programs" in refusal.reason
    assert (
        refusal.cure
        == "say what it costs, e.g. 'simulated_as: {demand: 2 ms}', or run the file on the testbed"
    )


def test_a_program_is_invoked_as_the_plan_has_it() -> None:
    service = Service.model_validate(program(environment={"MODE": "fast"}))
    found = services.of("program").invocation("db", service, GUEST)
    assert (found.argv, found.environment) == (("sleep", "9"), {"MODE": "fast"})


def test_nothing_is_written_on_a_host_that_exists_already() -> None:
    service = Service.model_validate(program(files={"a": "b"}))
    for name, platform in PLATFORMS.items():
        guest = GUEST.model_copy(update={"platform": name})
        found = list(services.of("program").refusals("services.db", service, guest))
        assert bool(found) is platform.existing, name


def test_without_a_command_only_a_container_with_an_image_is_one() -> None:
    paths = refused(with_services(db={"kind": "program", "on": ["a"]}))
    assert paths == ["services.db.argv"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"Cmd": "serve"}', "has a 'Cmd' that is not a list of words"),
        ("[]", "is not a mapping"),
        ("{", "Expecting"),
    ],
)
def test_words_of_an_image_that_cannot_be_read_are_told(tmp_path: Path, text: str, why: str) -> None:
    configuration_of(tmp_path / "one").write_text(text)
    with pytest.raises(MachineError, match="what 'one' starts cannot be read") as caught:
        entry_point("one", tmp_path / "one")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_group_of_an_image_is_not_dropped_in_silence(tmp_path: Path) -> None:
    configuration_of(tmp_path / "one").write_text('{"Cmd": ["serve"], "User": "web:staff"}')
    with pytest.raises(MachineError, match="wants user and group 'web:staff'"):
        entry_point("one", tmp_path / "one")


# Limits


@pytest.mark.parametrize(
    ("limits", "path"),
    [
        ({"cpu_quota_ratio": 0.001}, "cpu_quota_ratio"),
        ({"cpu_quota_ratio": 0.5, "memory_bytes": 1 << 20}, None),
    ],
)
def test_a_limit_that_no_kernel_holds_is_refused(limits: dict[str, Any], path: str | None) -> None:
    world = {"hosts": {"h": {}}, "guests": {"a": GUEST.model_dump()}, "services": {"db": program(**limits)}}
    plan = Plan.model_validate({"world": world})
    found = [each.path for each in mistakes(plan, "testbed", LayerTwo(plan))]
    assert found == ([f"services.db.{path}"] if path else [])


def test_the_simulator_refuses_the_limits_of_a_program_that_it_plays_by_its_cost() -> None:
    stands = program(simulated_as={"demand_ns": 2_000_000}, cpu_quota_ratio=0.5, memory_bytes=1 << 20)
    world = {"hosts": {"h": {}}, "guests": {"a": GUEST.model_dump()}, "services": {"db": stands}}
    plan = Plan.model_validate({"world": world})
    found = [each.path for each in mistakes(plan, "simulator", LayerTwo(plan))]
    assert found == ["services.db.cpu_quota_ratio", "services.db.memory_bytes"]


@pytest.mark.parametrize(
    ("changed", "refuses"),
    [({"root": True}, False), ({"root": False}, True), ({"root": True, "inside": "lab-vm"}, True)],
)
def test_only_root_on_this_machine_bounds_a_service(changed: dict[str, Any], refuses: bool) -> None:
    limits = {"cpu_quota_ratio": 0.5, "memory_bytes": 1 << 20}
    paths = refused(with_services(db=program(**limits)), replace(HERE, **changed))
    wanted = [f"services.db.{key}" for key in limits] if refuses else []
    assert [path for path in paths if path.startswith("services.")] == wanted


@pytest.mark.parametrize("name", PLATFORMS)
@pytest.mark.parametrize(
    "changed", [{"root": True}, {"root": False}, {"root": True, "inside": "lab-vm"}], ids=str
)
def test_who_can_bound_a_service_depends_on_whose_kernel_it_is(name: str, changed: dict[str, Any]) -> None:
    """By a machine's own kernel anybody can; root on this machine where it is ours; nobody on hosts that exist
    already.
    """
    platform, findings = PLATFORMS[name], replace(HERE, **changed)
    service = Service.model_validate(program(memory_bytes=1 << 20))
    found = list(refusals.limits_of_service("services.db", service, platform, findings))
    held = not platform.existing and (
        not platform.shares_kernel or (findings.root and findings.inside is None)
    )
    assert [each.path for each in found] == ([] if held else ["services.db.memory_bytes"])


# Output


def test_a_line_that_comes_in_pieces_is_found() -> None:
    output = Output(wanted="up and running")
    for piece in (b"starting\nup a", b"nd run"):
        output.take(piece)
        assert not output.arrived
    output.take(b"ning")
    assert output.arrived


def test_a_later_line_is_told_from_the_first() -> None:
    output = Output(wanted="ready", later="there again")
    output.take(b"ready\nnumbers: 1\nnumbers: 2\nnumbers: 3")
    assert (output.arrived, output.recovered, output.last("numbers: ")) == (True, False, "2")
    output.take(b"\nall is there again\n")
    assert (output.recovered, output.last("numbers: ")) == (True, "3")
    output.begin()
    assert (output.arrived, output.recovered) == (False, False)


def test_a_text_is_not_found_across_two_lines() -> None:
    output = Output(wanted="up")
    output.take(b"u\np")
    assert not output.arrived


def test_a_line_without_end_is_searched_at_its_beginning_only() -> None:
    output = Output(wanted="up")
    for _ in range(4):
        output.take(b"x" * LINE_MAX_BYTES)
    output.take(b"up")
    assert not output.arrived
    output.take(b"\nup")
    assert output.arrived


@pytest.mark.slow
def test_output_is_kept_up_to_its_bound_and_what_is_more_floods() -> None:
    output = Output()
    output.take(b"x" * MOST_BYTES)
    assert (len(output.content), output.flooded) == (MOST_BYTES, False)
    output.take(b"y")
    assert (len(output.content), output.flooded) == (MOST_BYTES, True)


def test_the_end_of_output_is_plain_text() -> None:
    output = Output()
    output.take(b"\x1b[31mred\x1b[0m\r\n\x07cannot bind\n")
    assert output.end() == "red | cannot bind"
