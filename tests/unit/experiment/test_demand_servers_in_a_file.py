"""Services of `kind: demand_server`: what the file may say of them, and what the Plan makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from virtlab.catalogue import SERVICES, WORKLOADS
from virtlab.catalogue.workloads.request_response import OF_OUR_SERVER
from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Plan, Role, Service
from virtlab.planner import plan_run
from virtlab.planner.check import mistakes
from virtlab.planner.guests.clusters import entries, ways_of_requests
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.simulator.limits import refusals

FILE = """
version: 1
name: served
hosts: 3
topology: {shape: star}
services:
  app: {kind: demand_server, on: h2.g1MORE}
roles:
  clients: {workload: request_response, from: h1.g1, to: appROLE}
"""


def plan(more: str = "", role: str = "") -> Plan:
    experiment = load_text(FILE.replace("MORE", more).replace("ROLE", role))
    return plan_run(experiment, experiment.points()[0], 0)


def test_a_server_has_the_parameters_of_a_roles_own_server_with_the_same_defaults() -> None:
    own = {each.name: each for each in WORKLOADS["request_response"].parameters}
    mine = {each.name: each for each in SERVICES["demand_server"].parameters}
    assert {name: mine.pop(name) for name in OF_OUR_SERVER} == {name: own[name] for name in OF_OUR_SERVER}
    assert mine.keys() == {"active", "forwards", "forward_timeout"}
    found = plan(", demand: 5 ms, threads: 2")
    service, role = found.world.services["app"], found.roles["clients"]
    assert service.parameters == {
        "demand_ns": 5_000_000, "threads": 2, "backlog": 1024, "full": "reject", "response_bytes": 1024
    }  # fmt: skip
    assert (role.to, role.parameters["port"], role.parameters["service"]) == ("h2.g1", 7000, "app")
    assert not service.parameters.keys() & role.parameters.keys()


@pytest.mark.parametrize(("server", "guest"), [("first", "h2.g1"), ("h3.g1", "h3.g1")])
def test_of_one_on_several_guests_a_role_asks_the_one_that_it_names(server: str, guest: str) -> None:
    several = FILE.replace("on: h2.g1", "on: [h2.g1, h3.g1]").replace("MORE", "")
    experiment = load_text(several.replace("ROLE", f", server: {server}"))
    role = plan_run(experiment, experiment.points()[0], 0).roles["clients"]
    assert (role.to, role.parameters["service"], role.parameters["port"]) == (guest, "app", 7000)
    with pytest.raises(FileMistakesError) as caught:
        load_text(several.replace("ROLE", ""))
    [mistake] = caught.value.mistakes
    assert "'app' is on 2 guests" in mistake.what
    assert "server: first" in mistake.cure


def test_it_listens_at_the_port_of_its_check() -> None:
    found = plan(", ready: {port: 81, timeout: 5 s}")
    ready = found.world.services["app"].ready
    assert ready is not None
    assert (ready.port, ready.timeout_ns) == (81, 5_000_000_000)
    assert found.roles["clients"].parameters["port"] == 81
    assert plan(", ready: {timeout: 5 s}").roles["clients"].parameters["port"] == 7000


@pytest.mark.parametrize(
    ("more", "role", "place", "what", "cure"),
    [
        (", ready: {line: up}", "", "services.app.ready.line", "ready when its port accepts", "write 'port'"),
        (", lock: 10 %", "", "services.app.lock", "there is no demand", "write 'demand'"),
        (", threads: 2000", "", "services.app.threads", "more than one role can keep", "at most 1024"),
        (", response: 8 B", "", "services.app.response", "a head of 16 B", "'64 B'"),
        (", argv: [a]", "", "services.app.argv", "not a parameter of demand_server", "it has"),
        ("", ", protocol: http", "roles.clients.to", "does not speak HTTP", "write 'protocol: tcp'"),
        ("", ", demand: 1 ms", "roles.clients.demand", "of virtlab's own server", "remove it"),
        ("", ", port: 81", "roles.clients.port", "listens at port 7000 alone", "remove it"),
        (
            ", response: 64 KiB",
            ", protocol: udp",
            "roles.clients.to",
            "of service 'app', a response over UDP is one datagram",
            "write a smaller size, or 'protocol: tcp'",
        ),
        ("", ", server: h3.g1", "roles.clients.server", "is not on 'h3.g1'", "did you mean 'h2.g1'?"),
    ],
)
def test_what_does_not_fit_is_one_line(more: str, role: str, place: str, what: str, cure: str) -> None:
    with pytest.raises(FileMistakesError) as caught:
        plan(more, role)
    [mistake] = caught.value.mistakes
    assert mistake.path == place
    assert what in mistake.what
    assert cure in mistake.cure


def test_a_workload_of_http_alone_is_told_which_one_asks_it() -> None:
    text = FILE.replace("MORE", "").replace("ROLE", "").replace("request_response", "http_get")
    with pytest.raises(FileMistakesError) as caught:
        load_text(text)
    [mistake] = caught.value.mistakes
    assert "does not speak HTTP" in mistake.what
    assert "ask it by request_response" in mistake.cure


def test_two_services_of_a_guest_cannot_listen_at_one_port() -> None:
    found = plan("}\n  too: {kind: demand_server, on: h2.g1")
    assert {refusal.path for refusal in mistakes(found, "testbed", LayerTwo(found))} == {
        "services.app.ready.port", "services.too.ready.port"
    }  # fmt: skip
    apart = plan("}\n  too: {kind: demand_server, on: h2.g1, ready: {port: 7001}")
    assert not list(mistakes(apart, "testbed", LayerTwo(apart)))


def test_the_simulator_says_at_the_role_that_asks_why_its_server_cannot_write() -> None:
    assert not refusals(plan(", demand: 1 ms"))
    [refusal] = refusals(plan(", write: 4 KiB"))
    assert refusal.path == "roles.clients.write_bytes"
    assert "no disk" in refusal.reason


CLUSTER = FILE.replace("on: h2.g1", "on: [h2.g1, h3.g1], active: h3.g1")


def clustered(more: str = "", role: str = "") -> Plan:
    experiment = load_text(CLUSTER.replace("MORE", more).replace("ROLE", role))
    return plan_run(experiment, experiment.points()[0], 0)


def test_a_role_ends_at_the_active_server_and_says_how_many_requests_enter_at_the_others() -> None:
    found = clustered(role=", passive_share: 25 %")
    role = found.roles["clients"]
    assert (role.to, role.parameters["passive_share_ratio"]) == ("h3.g1", 0.25)
    assert [(each.place, each.guest) for each in entries(found, role)] == [(1, "h3.g1"), (0, "h2.g1")]
    assert [(each.passive, each.active) for each in ways_of_requests(found)] == [("h2.g1", "h3.g1")]
    alone = clustered()
    assert alone.roles["clients"].parameters["passive_share_ratio"] == 0
    assert [each.guest for each in entries(alone, alone.roles["clients"])] == ["h3.g1"]


@pytest.mark.parametrize("share", ["0 %", "0.5 ratio", "100 %", "0 %, protocol: udp"])
def test_a_share_is_all_from_nothing_to_everything(share: str) -> None:
    assert not refusals(clustered(role=f", passive_share: {share}"))


@pytest.mark.parametrize(
    ("file", "more", "role", "place", "what", "cure"),
    [
        (CLUSTER, "", ", passive_share: 110 %", "roles.clients.passive_share", "between 0 % and 100 %", "30 %"),
        (
            CLUSTER, "", ", passive_share: 5 %, protocol: udp", "roles.clients.passive_share", "over TCP alone",
            "write 'protocol: tcp', or remove it",
        ),
        (CLUSTER, "", ", server: h2.g1", "roles.clients.server", "only h3.g1 is active", "'passive_share' says"),
        (CLUSTER, ", forwards: 100000", "", "services.app.forwards", "more than a server keeps", "65536"),
        (FILE, ", active: h2.g1", "", "services.app.active", "on one guest", "name more guests"),
        (FILE, ", active: h3.g1", "", "services.app.active", "not on 'h3.g1'", "did you mean 'h2.g1'?"),
        (FILE, ", forwards: 3", "", "services.app.forwards", "no server is passive", "write 'active: GUEST'"),
        (FILE, ", forward_timeout: 3 s", "", "services.app.forward_timeout", "no server is passive", "remove it"),
        (FILE, "", ", passive_share: 0 %", "roles.clients.passive_share", "is passive", "write 'active: h2.g1'"),
        (
            FILE.replace("to: app", "to: h2.g1"), "", ", passive_share: 5 %", "roles.clients.passive_share",
            "ends at a service", "remove it",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_cluster_is_one_line(
    file: str, more: str, role: str, place: str, what: str, cure: str
) -> None:
    with pytest.raises(FileMistakesError) as caught:
        load_text(file.replace("MORE", more).replace("ROLE", role))
    [mistake] = caught.value.mistakes
    assert mistake.path == place
    assert what in mistake.what
    assert cure in mistake.cure


def test_a_client_beside_a_passive_server_is_refused() -> None:
    text = (
        CLUSTER.replace("MORE", "")
        .replace("from: h1.g1", "from: h2.g1")
        .replace("ROLE", ", passive_share: SHARE")
    )
    for share, count in (("10 %", 1), ("0 %", 0)):
        experiment = load_text(text.replace("SHARE", share))
        found = plan_run(experiment, experiment.points()[0], 0)
        assert [each.path for each in mistakes(found, "testbed", LayerTwo(found))] == [
            "roles.clients.to"
        ] * count


def test_a_plan_that_contradicts_its_cluster_is_refused() -> None:
    found = clustered()
    role, service = found.roles["clients"], found.world.services["app"]

    def paths(role: Role = role, **more: Any) -> list[str]:
        own = Service.model_validate({**service.model_dump(), **more})
        world = found.world.model_copy(update={"services": {"app": own}})
        plan = found.model_copy(update={"world": world, "roles": {"clients": role}})
        return [each.path for each in mistakes(plan, "testbed", LayerTwo(plan))]

    assert not paths()
    assert paths(role.model_copy(update={"to": "h2.g1"})) == ["roles.clients.to"]
    assert paths(active=None) == ["roles.clients.passive_share_ratio"]
    assert paths(active="h1.g1") == ["roles.clients.to", "services.app.active"]


IN_TURN = ", server: round_robin"


def test_a_role_that_asks_all_in_turn_enters_at_each() -> None:
    found = plan("", IN_TURN)
    assert "round_robin" not in found.roles["clients"].parameters, "on one guest it is that one"
    found = plan_of_several(IN_TURN)
    role = found.roles["clients"]
    assert (role.to, role.parameters["round_robin"], "server" in role.parameters) == ("h2.g1", True, False)
    assert [(each.place, each.guest) for each in entries(found, role)] == [(0, "h2.g1"), (1, "h3.g1")]
    assert refusals(found) == []


def plan_of_several(role: str, more: str = "") -> Plan:
    several = FILE.replace("on: h2.g1", "on: [h2.g1, h3.g1]").replace("MORE", more).replace("ROLE", role)
    experiment = load_text(several)
    return plan_run(experiment, experiment.points()[0], 0)


@pytest.mark.parametrize(
    ("role", "more", "text"),
    [
        (f"{IN_TURN}, protocol: udp", "", "write 'protocol: tcp', or one of h2.g1, h3.g1"),
        (IN_TURN, ", active: h3.g1", "only h3.g1 is active"),
        (", server: round_robbin", "", "did you mean 'round_robin'?"),
    ],
)
def test_what_cannot_be_asked_in_turn_is_one_line(role: str, more: str, text: str) -> None:
    with pytest.raises(FileMistakesError) as caught:
        plan_of_several(role, more)
    [mistake] = caught.value.mistakes
    assert mistake.path == "roles.clients.server"
    assert text in f"{mistake.what}; {mistake.cure}"


def test_turns_of_servers_that_are_not_of_equal_rank_are_refused() -> None:
    for found in (plan(), plan_of_several("", ", active: h3.g1")):
        values = found.model_dump(mode="json", by_alias=True)
        values["roles"]["clients"]["round_robin"] = True
        wrong = Plan.model_validate(values)
        (refusal,) = mistakes(wrong, "simulator", LayerTwo(wrong))
        assert refusal.path == "roles.clients.round_robin"
