"""Roles that end at a service: what the file may say of them, what the Plan makes of it, and what the simulator
says.
"""

from __future__ import annotations

import pytest

from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Role
from virtlab.planner import plan_run
from virtlab.simulator.limits import refusals

FILE = """
version: 1
name: served
hosts: 3
topology: {{shape: star}}
services:
  web: {{kind: program, on: h2.g1, argv: [serve], ready: {{port: 8080}}}}
  mute: {{kind: program, on: h2.g1, argv: [serve]}}
  both: {{kind: program, on: [h2.g1, h3.g1], argv: [serve], ready: {{port: 80}}}}
roles:
  clients: {{workload: {workload}, from: h1.g1, to: {to}{more}}}
"""


def text(to: str = "web", workload: str = "request_response", **more: str) -> str:
    said = "".join(f", {key}: {value}" for key, value in more.items())
    return FILE.format(workload=workload, to=to, more=said)


def role(**written: str) -> Role:
    experiment = load_text(text(**written))
    return plan_run(experiment, experiment.points()[0], 0).roles["clients"]


def test_a_role_ends_at_the_guest_and_the_port_of_its_service() -> None:
    found = role(protocol="http", path="/a", rate="100 request/s")
    assert (found.from_, found.to) == ("h1.g1", "h2.g1")
    values = found.parameters
    assert (values["service"], values["port"], values["protocol"], values["path"]) == (
        "web",
        8080,
        "http",
        "/a",
    )
    assert not {"threads", "backlog", "full", "response_bytes", "request_bytes"} & values.keys()


def test_a_role_may_name_another_port_than_the_check_of_its_service() -> None:
    assert role(workload="http_get", to="mute", port="9000").parameters["port"] == 9000
    assert "response_bytes" not in role(workload="http_get").parameters


@pytest.mark.parametrize(("server", "guest"), [("first", "h2.g1"), ("h2.g1", "h2.g1"), ("h3.g1", "h3.g1")])
@pytest.mark.parametrize("workload", ["request_response", "http_get"])
def test_of_a_service_on_several_guests_a_role_asks_the_one_that_it_names(
    workload: str, server: str, guest: str
) -> None:
    over = {"protocol": "http"} if workload == "request_response" else {}
    found = role(workload=workload, to="both", server=server, **over)
    assert (found.to, found.parameters["service"], found.parameters["port"]) == (guest, "both", 80)
    assert "server" not in found.parameters


def test_a_role_between_guests_says_what_it_said_before() -> None:
    assert not {"service", "port", "protocol"} & role(to="h2.g1").parameters.keys()


OUTSIDE = """
version: 1
name: outside
hosts: {a: {platform: ssh, address: one.example}, b: {platform: ssh, address: two.example}}
roles:
  clients: {workload: http_get, from: a.g1, to: "%s"}
"""


@pytest.mark.parametrize(
    ("to", "address", "port"), [("192.0.2.7:80", "192.0.2.7", 80), ("[fd00::7]:8080", "fd00::7", 8080)]
)
def test_a_host_that_exists_already_may_ask_an_address_outside(to: str, address: str, port: int) -> None:
    experiment = load_text(OUTSIDE % to)
    found = plan_run(experiment, experiment.points()[0], 0).roles["clients"]
    assert (found.to, found.parameters["address"], found.parameters["port"]) == (None, address, port)


@pytest.mark.parametrize(
    ("written", "place", "what", "cure"),
    [
        ({"to": "mute", "protocol": "http"}, "to", "'mute' does not say its port", "write 'port' here"),
        ({"to": "both", "protocol": "http"}, "to", "'both' is on 2 guests", "write 'server: h3.g1' or another of h2.g1"),
        ({"to": "both", "protocol": "http", "server": "h1.g1"}, "server", "is not on 'h1.g1'", "did you mean 'h3.g1'?"),
        ({"to": "both", "workload": "http_get", "server": "none"}, "server", "is not on 'none'", "write one of h2.g1"),
        (
            {"to": "both", "workload": "http_get", "server": "round_robin"},
            "server", "http_get asks one server", "write one of h2.g1, h3.g1",
        ),
        ({"to": "h2.g1", "server": "first"}, "server", "it is of a role that ends at a service", "remove it"),
        ({}, "to", "does not speak virtlab's own protocol", "write 'protocol: http'"),
        ({"workload": "rtt"}, "to", "'web' is a service, and rtt measures guests", "name its guest, h2.g1"),
        ({"protocol": "http", "threads": "2"}, "threads", "of virtlab's own server", "remove it"),
        ({"protocol": "http", "request": "1 KiB"}, "request", "its head alone", "remove it"),
        ({"workload": "http_get", "response": "1 KiB"}, "response", "as long as it makes them", "remove it"),
        ({"protocol": "http", "to": "h2.g1"}, "protocol", "speaks its own protocol", "to: SERVICE"),
        ({"path": "/", "to": "h2.g1"}, "path", "it is of HTTP", "write 'protocol: http'"),
        ({"to": "h2.g1", "port": "80"}, "port", "that its system chose", "remove it"),
        ({"protocol": "http", "port": "0"}, "port", "'0' is not a TCP port", "from 1 to 65535"),
        ({"to": "h2.g1", "protocol": "udp", "ecn": "true"}, "ecn", "it is of TCP", "write 'protocol: tcp'"),
        (
            {"to": "h2.g1", "protocol": "udp", "congestion_control": "cubic"},
            "congestion_control", "it is of TCP", "write 'protocol: tcp'",
        ),
        (
            {"to": "h2.g1", "protocol": "udp", "request": "65508 B"},
            "request", "one datagram, of at most 65507 B", "write a smaller size, or 'protocol: tcp'",
        ),
        (
            {"to": "h2.g1", "protocol": "udp", "response": "64 KiB"},
            "response", "one datagram, of at most 65507 B", "write a smaller size, or 'protocol: tcp'",
        ),
        ({"protocol": "udp"}, "to", "does not speak virtlab's own protocol over udp", "write 'protocol: http'"),
        ({"to": "h2.g1", "retries": "2"}, "retries", "without 'retry_after'", "write 'retry_after'"),
        ({"to": "h2.g1", "retry_after": "1 s"}, "retry_after", "without 'retries'", "write 'retries'"),
        ({"to": "h2.g1", "retries": "1001", "retry_after": "1 s"}, "retries", "1000 times at most", "write fewer"),
        ({"to": "192.0.2.7:80", "protocol": "http"}, "to", "a private world, which has no way out", "platform: ssh"),
        ({"to": "192.0.2.7:80"}, "to", "nothing outside answers in virtlab's own", "write 'protocol: http'"),
        ({"to": "192.0.2.7:99999", "workload": "http_get"}, "to", "is not a TCP port", "192.0.2.7:8080"),
        ({"to": "192.0.2.777:80", "workload": "http_get"}, "to", "192.0.2.777", "192.0.2.7:8080"),
        ({"to": "192.0.2.7:80", "workload": "rtt"}, "to", "rtt measures guests", "name a guest"),
        ({"to": "wob"}, "to", "there is no guest 'wob'", "there are"),
    ],
)  # fmt: skip
def test_what_cannot_end_at_a_service_is_one_line(
    written: dict[str, str], place: str, what: str, cure: str
) -> None:
    with pytest.raises(FileMistakesError) as caught:
        load_text(text(**written))
    [mistake] = caught.value.mistakes
    assert mistake.path == f"roles.clients.{place}"
    assert what in mistake.what
    assert cure in mistake.cure


def test_the_rate_at_which_a_service_is_asked_can_be_searched_for() -> None:
    ends = "low: 10 request/s, high: 1 krequest/s"
    search = f"search: {{variable: clients.rate, {ends}, until: clients.response_time.p99 > 1 s}}"
    experiment = load_text(text(protocol="http", rate="100 request/s") + search)
    study = experiment.study(experiment.points()[0])
    assert study.search is not None
    assert (study.search.role, study.search.parameter) == ("clients", "rate_per_s")


def test_a_wrong_service_is_the_only_mistake() -> None:
    wrong = text(protocol="http").replace("kind: program, on: h2.g1", "kind: program, on: h9.g1", 1)
    with pytest.raises(FileMistakesError) as caught:
        load_text(wrong)
    assert [mistake.path for mistake in caught.value.mistakes] == ["services.web.on"]


def test_the_simulator_refuses_clients_of_programs_with_the_cure() -> None:
    experiment = load_text(text(protocol="http"))
    found = refusals(plan_run(experiment, experiment.points()[0], 0))
    assert {refusal.path for refusal in found} == {
        f"services.{name}.kind" for name in ("web", "mute", "both")
    }
    assert all("testbed" in refusal.cure for refusal in found)
