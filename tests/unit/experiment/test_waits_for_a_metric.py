"""Waits until a metric reaches a bound: what the file may say, what the Plan has of it, and what the simulator says."""

from __future__ import annotations

import pytest

from virtlab.experiment import FileMistakesError, load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

FILE = """
version: 1
name: waits
hosts: 2
topology: line
roles:
  client:
    workload: program
    from: h1.g1
    to: h2.g1
    argv: [client]
    metrics: {answer_time: {regex: "t=(?P<answer_time>[0-9]+)", unit: ms, better: lower}}
  load: {workload: udp_stream, from: h1.g1, to: h2.g1, rate: 1 Mbit/s, as: load}
timeline:
  - {id: begin, do: start, role: load}
  - {id: work, do: run, role: client}
  - {id: slow, do: wait, until: UNTIL, timeout: 5 s, on_timeout: censor}
  - {id: end, do: stop, role: load, after: {any: [slow.done, slow.timeout]}}
"""


def plan_of(until: str) -> Plan:
    experiment = load_text(FILE.replace("UNTIL", until))
    return plan_run(experiment, experiment.points()[0], 0)


def test_a_bound_is_in_the_unit_that_the_role_declares_and_in_the_plan_in_its_si_unit() -> None:
    until = plan_of('{metric: client.answer_time, op: ">=", value: 2.5, every: 50 ms}').timeline[2].until
    assert until is not None
    assert (until.metric, until.op, until.value, until.every_ns) == (
        "client.answer_time",
        ">=",
        2.5e6,
        50_000_000,
    )


def test_a_role_without_a_program_has_a_progress() -> None:
    until = plan_of('{metric: load.progress, op: ">", value: 1000}').timeline[2].until
    assert until is not None
    assert (until.metric, until.value) == ("load.progress", 1000.0)


def test_plans_that_wait_for_no_metric_are_what_they_were() -> None:
    until = plan_of('{series: host.cpu, op: ">", value: 0.5}').timeline[2].until
    assert until is not None
    assert until.metric is None
    assert "metric" not in until.model_dump(exclude_none=True)


@pytest.mark.parametrize(
    ("until", "place", "expected"),
    [
        ("{metric: client, op: '>', value: 1}", ".metric", "'client' is not ROLE.METRIC"),
        ("{metric: clint.answer_time, op: '>', value: 1}", ".metric", "did you mean 'client'?"),
        ("{metric: client.answer_tim, op: '>', value: 1}", ".metric", "did you mean 'answer_time'?"),
        ("{metric: client.progress, op: '>', value: 1}", ".metric", "it has answer_time"),
        ("{metric: load.goodput, op: '>', value: 1}", ".metric", "it has progress"),
        ("{metric: load.progress, op: '>', value: 1 s}", "", "is not a number; write e.g. 'value: 0.1'"),
        ("{metric: load.progress, op: more, value: 1}", ".op", "'more'"),
        ("{metric: load.progress, series: host.cpu, op: '>', value: 1}", "", "is not a condition"),
    ],
)
def test_a_condition_that_is_wrong_has_its_place_and_cure(until: str, place: str, expected: str) -> None:
    with pytest.raises(FileMistakesError) as raised:
        plan_of(until)
    (mistake,) = raised.value.mistakes
    assert mistake.path == f"timeline[2].until{place}"
    assert expected in f"{mistake.what}; {mistake.cure}"


def test_the_simulator_does_not_know_meanwhile_what_has_come_to_a_stream_and_says_so() -> None:
    found = Simulator().check(plan_of("{metric: load.progress, op: '>', value: 1}"))
    (refusal,) = [each for each in found if each.path == "timeline.slow.until"]
    assert "does not know while it plays what has come to a udp_stream" in refusal.reason
    assert "run the file on the testbed" in refusal.cure
