"""A role's program in a file: its words, and metrics of its own that claims, stopping rules and searches may name."""

from __future__ import annotations

import pytest

from virtlab.catalogue.references import replaced
from virtlab.experiment import Experiment, FileMistakesError, load_text
from virtlab.planner import plan_run
from virtlab.planner.topology.addresses import resolved
from virtlab.simulator import Simulator

FILE = """
version: 1
name: own
hosts: 2
topology: line
roles:
  client:
    workload: program
    from: h1.g1
    to: h2.g1
    argv: [client, "--host={to}", "{h2.g1}", '{"a": 1}', "3"]
    metrics:
      answer_time: {json: "$.ms", unit: ms, better: lower}
      served: {csv: rate, unit: request/s, better: higher, meaning: answers per second}
  load: {workload: udp_stream, from: h1.g1, to: h2.g1, rate: 1 Mbit/s, as: load}
repeat: {minimum: 2, maximum: 5, until: {metric: client.answer_time.p99, relative_interval: 5 %}}
claims:
  - client.answer_time.median < 3 ms
  - client.served.mean > 100 request/s
  - client.program_time.total < 5 s
"""
SEARCH = """
search: {variable: load.rate, low: 1 Mbit/s, high: 9 Mbit/s, until: client.answer_time.p99 > 1 ms}
"""


def changed(text: str, change: tuple[str, str]) -> str:
    assert change[0] in text
    return text.replace(*change)


def mistakes_of(text: str) -> list[str]:
    with pytest.raises(FileMistakesError) as caught:
        load_text(text)
    return [str(mistake) for mistake in caught.value.mistakes]


@pytest.fixture
def own() -> Experiment:
    return load_text(FILE)


def test_a_declared_metric_is_looked_up_like_any_other(own: Experiment) -> None:
    first = own.claims[0].parsed()
    path = first.expression.terms[0].path
    assert (path.unit, path.declaration.better, path.declaration.title()) == (
        "ns", "lower", "answer time",
    )  # fmt: skip
    assert own.repeat.until is not None
    assert own.repeat.until.path.declaration is own.declared["client"]["answer_time"]
    assert own.declared["client"]["served"].unit == "1/s"
    assert own.declared["client"]["served"].definition == "answers per second"


def test_a_search_may_end_at_a_declared_metric() -> None:
    found = load_text(FILE + SEARCH)
    search = found.study(found.points()[0]).search
    assert search is not None
    assert search.until is not None
    assert (search.until.path, search.until.limit) == ("client.answer_time.p99", 1e6)


def test_a_plan_holds_the_words_and_the_metrics_as_written(own: Experiment) -> None:
    role = plan_run(own, own.points()[0], 0).roles["client"]
    assert role.parameters["argv"] == ["client", "--host={to}", "{h2.g1}", '{"a": 1}', "3"]
    assert role.parameters["metrics"]["answer_time"] == {"json": "$.ms", "unit": "ms", "better": "lower"}


def test_two_roles_may_give_one_name_to_two_quantities() -> None:
    other = (
        "  other: {workload: program, from: h2.g1, to: h1.g1, argv: [x], "
        "metrics: {answer_time: {json: $.b, unit: B, better: neither}}}\n"
    )
    found = load_text(FILE.replace("  load:", other + "  load:") + "  - other.answer_time.mean < 3 kB\n")
    assert found.claims[-1].parsed().expression.unit == "bytes"
    (mistake,) = mistakes_of(
        FILE.replace("  load:", other + "  load:") + "  - other.answer_time.mean < 3 ms\n"
    )
    assert "'ms' is not a unit of this quantity" in mistake


def test_the_simulator_refuses_it_with_the_cure(own: Experiment) -> None:
    refusals = Simulator().check(plan_run(own, own.points()[0], 0))
    assert [refusal.path for refusal in refusals] == ["roles.client.workload"]
    assert "runs no programs" in refusals[0].reason
    assert "simulated_as: {service: web, connections: 8, duration: 5 s}" in refusals[0].cure


@pytest.mark.parametrize(
    ("change", "place", "expected"),
    [
        (("{h2.g1}", "{h2.g7}"), "roles.client.argv[2]", "there is no guest 'h2.g7'; did you mean 'h2.g1'?"),
        (("[client,", "[[x],"), "roles.client.argv", "is not a list of words; write e.g."),
        (("[client,", "client #"), "roles.client.argv", "is not a list of words; write e.g."),
        (("unit: ms", "time: t, unit: ms"), "answer_time.time", "'t' does not begin with '$', the whole output; write"),
        (("unit: ms", "clock: epoch, unit: ms"), "answer_time.clock", "no 'time' says where they are; write 'time'"),
        (("unit: ms", "time: $.t, clock: utc, unit: ms"), "answer_time.clock", "write one of start, epoch, iso8601"),
        (("unit: ms", "time: $.t, time_unit: h, unit: ms"), "answer_time.time_unit", "write one of s, ms, us, ns"),
        (("csv: rate", "prometheus: up, time: x"), "served.time", "unknown key 'time' of a metric"),
        (("csv: rate", "regex: '(?P<served>.)', time: x"), "served.time", "no group is called 'x'; write '(?P<x>...)'"),
        (("unit: ms", "http: 'http://{h9.g1}:1/m', unit: ms"), "answer_time.http", "there is no guest 'h9.g1'"),
        (("unit: ms", "http: 'http://web:1/m', unit: ms"), "answer_time.http", "'web:1' is not an IP address; guests ask"),
        (("unit: ms", "http: 'https://{to}/', unit: ms"), "answer_time.http", "is not the address of a page; write e.g. 'http://"),
        (("unit: ms", "every: 1 s, unit: ms"), "answer_time.every", "write 'http' or 'file', too, or remove it"),
        (("unit: ms", "file: x, every: 1 ms, unit: ms"), "answer_time.every", "write at least 10 ms"),
        (("unit: ms", "file: x, every: soon, unit: ms"), "answer_time.every", "write e.g. '1 s'"),
        (("unit: ms", "file: x, http: 'http://{to}/', unit: ms"), "answer_time.file", "this names two; write 'http' or"),
        (("unit: ms", "file: x, time: $.t, unit: ms"), "answer_time.time", "a poll has the time at which it was made"),
        (("csv: rate", "hdr_histogram: x, file: y"), "served.file", "unknown key 'file' of a metric"),
        (("unit: ms", "unit: mz"), "roles.client.metrics.answer_time.unit", "'mz' is not a unit of a metric"),
        (("served:", "Served:"), "roles.client.metrics.Served", "is not a valid name of a metric"),
        (("served:", "goodput:"), "roles.client.metrics.goodput", "is a metric of virtlab's own: goodput; give"),
        (("from: h1.g1\n", "from: h1.g1\n    as: load\n"), "roles.client.as", "program cannot be a load"),
        (("client.answer_time.p99,", "client.answer_tim.p99,"), "repeat.until.metric", "did you mean 'answer_time'?"),
        (("client.served.mean", "client.srved.mean"), "claims[1].text", "did you mean 'served'?"),
        (("client.served.mean", "load.served.mean"), "claims[1].text", "'served' is not a metric"),
        (("client.program_time.total < 5 s", "client.rtt.mean < 5 s"), "claims[2]", "rtt is not measured by program"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_place_and_cure(change: tuple[str, str], place: str, expected: str) -> None:
    found = mistakes_of(changed(FILE, change))
    assert any(f"{place}:" in one and expected in one for one in found), found


def test_metrics_do_not_vary_with_a_factor() -> None:
    factors = "factors: {unit: [ms, us]}\n"
    (mistake, *_) = mistakes_of(FILE.replace("unit: ms", 'unit: "${unit}"') + factors)
    assert "metrics cannot vary with a factor; write them in the role itself" in mistake


def test_all_mistakes_of_the_metrics_are_told_and_their_uses_are_not() -> None:
    wrong = FILE.replace("unit: ms, better: lower", "unit: mz, better: less").replace("served:", "Served:")
    places = [
        mistake.split(": ")[1]
        for mistake in mistakes_of(wrong.replace("client.served", "client.Served") + SEARCH)
    ]
    assert places == [
        "roles.client.metrics.answer_time.unit",
        "roles.client.metrics.answer_time.better",
        "roles.client.metrics.Served",
    ]


def test_a_metric_beside_a_mistaken_one_is_still_looked_up() -> None:
    found = mistakes_of(FILE.replace("unit: ms", "unit: mz").replace("served.mean", "served.meam"))
    assert [mistake.split(": ")[1] for mistake in found] == [
        "roles.client.metrics.answer_time.unit",
        "claims[1].text",
    ]


@pytest.mark.parametrize(
    "change", [("workload: program", "workload: progam"), ("    metrics:\n", "    metrics: 3 #\n#")]
)
def test_a_role_that_is_wrong_as_a_whole_is_told_alone(change: tuple[str, str]) -> None:
    text = FILE.replace(*change)
    if change[1].endswith("#"):
        text = "\n".join(line for line in text.splitlines() if "json:" not in line and "csv:" not in line)
    (mistake,) = mistakes_of(text)
    assert "roles.client" in mistake


@pytest.mark.parametrize(
    ("metric", "cure"),
    [
        (
            "client.zzz.mean",
            "'client' declares answer_time, served, and docs/reference/metrics.md has virtlab's own",
        ),
        ("load.zzz.mean", "docs/reference/metrics.md lists all"),
    ],
)
def test_an_unknown_metric_is_not_answered_with_all_there_are(metric: str, cure: str) -> None:
    (mistake,) = mistakes_of(FILE.replace("client.served.mean", metric))
    assert cure in mistake
    assert len(mistake) < 200


SERVED = FILE.replace(
    "roles:",
    """services:
  web: {kind: program, on: h2.g1, argv: [server, "{on}"], environment: {AT: "{h1.g1}"}, ready: {port: 8080}}
  mute: {kind: program, on: h2.g1, argv: [server, "{web.address}", "{a}", "{web.port}"]}
roles:""",
).replace('"{h2.g1}",', '"{web.address}:{web.port}",')


def test_words_may_refer_to_services() -> None:
    experiment = load_text(SERVED)
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert "{web.address}:{web.port}" in plan.roles["client"].parameters["argv"]
    names = ["h1.g1", "web.address", "web.port"]
    found = resolved(plan, ["on", *names], "h2.g1", {"on": "h2.g1"})
    address = {name: guest.vnics["eth0"].ip[0].split("/")[0] for name, guest in plan.world.guests.items()}
    assert found == {
        "on": address["h2.g1"], "h1.g1": address["h1.g1"], "web.address": address["h2.g1"], "web.port": "8080",
    }  # fmt: skip
    assert replaced("{web.address}:{web.port}{a}", found) == f"{address['h2.g1']}:8080{{a}}"


@pytest.mark.parametrize(
    ("change", "place", "expected"),
    [
        (("{web.address}:{web.port}", "{mute.port}"), "roles.client.argv[2]", "'mute' has no port; say the 'port'"),
        (("{web.address}:{web.port}", "{web.prot}"), "roles.client.argv[2]", "a service has no 'prot'; write {web.address}"),
        (('server, "{on}"', 'server, "{h3.g1}"'), "services.web.argv[1]", "there is no guest 'h3.g1'; did you mean"),
        (('AT: "{h1.g1}"', 'AT: "{h1.g7}"'), "services.web.environment.AT", "there is no guest 'h1.g7'"),
        (('"{web.address}", "{a}"', '"{wbe.address}", "{a}"'), "services.mute.argv[1]", "did you mean 'web.address'?"),
    ],
)  # fmt: skip
def test_a_reference_to_nothing_is_a_mistake(change: tuple[str, str], place: str, expected: str) -> None:
    (mistake,) = mistakes_of(changed(SERVED, change))
    assert f"{place}:" in mistake
    assert expected in mistake


def test_a_service_that_is_wrong_itself_is_told_alone() -> None:
    (mistake,) = mistakes_of(SERVED.replace('on: h2.g1, argv: [server, "{on}"]', "on: h2.g1, argv: server"))
    assert "services.web.argv" in mistake


@pytest.mark.parametrize("user", ["Post Gres", "-1", "[a]", "true"])
def test_a_user_is_a_name_or_a_number(user: str) -> None:
    (mistake,) = mistakes_of(FILE.replace("to: h2.g1\n    argv", f"to: h2.g1\n    user: {user}\n    argv"))
    assert "roles.client.user: " in mistake
    assert "write a name or number, e.g. postgres or 1000" in mistake


def test_a_user_by_number_is_kept_as_a_name_is() -> None:
    experiment = load_text(FILE.replace("to: h2.g1\n    argv", "to: h2.g1\n    user: 1000\n    argv"))
    assert plan_run(experiment, experiment.points()[0], 0).roles["client"].parameters["user"] == "1000"


def test_words_may_be_absent_where_an_image_says_them() -> None:
    argv = """    argv: [client, "--host={to}", "{h2.g1}", '{"a": 1}', "3"]\n"""
    without = changed(FILE, (argv, ""))
    (mistake,) = mistakes_of(without)
    assert "roles.client: 'argv' of program is missing" in mistake
    assert "a container with an 'image'" in mistake
    image = (
        "hosts: 2\n",
        "hosts: {h1: {guests: {g1: {platform: container, image: bench}}}, h2: {guests: 1}}\n",
    )
    found = load_text(changed(without, image))
    assert "argv" not in found.study(found.points()[0]).roles["client"].parameters
