"""Waits until a metric reaches a bound, on real guests: what a program has printed so far, and what a role has seen."""

from __future__ import annotations

import pytest
import testbed_world as worlds

from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial, Unobserved
from virtlab.planner import plan_run
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

FILE = """
version: 1
name: waits
hosts: 1
host: {guests: 2}
topology: none
roles:
  client:
    workload: program
    from: h1.g1
    to: h1.g2
    argv: [sh, -c, "for n in 10 20 30 40; do echo took=$n; sleep 0.05; done; exec sleep 100"]
    metrics: {took: {regex: "took=(?P<took>[0-9]+)", unit: ms, better: lower}}
  asking: {workload: request_response, from: h1.g1, to: h1.g2, rate: 500 request/s, connections: 4, duration: 60 s}
timeline:
  - {id: begin, do: start, role: ROLE}
  - {id: reached, do: wait, until: {UNTIL, every: 20 ms}, timeout: TIMEOUT, on_timeout: THEN, after: begin.started}
  - {id: end, do: stop, role: ROLE, after: {any: [reached.done, reached.timeout, reached.cancelled]}}
collect: {series: {}, telemetry: off, counters: []}
"""


def played(
    role: str, until: str, timeout: str = "30 s", then: str = "fail"
) -> tuple[Outcome, worlds.MemorySink]:
    text = (
        FILE.replace("ROLE", role).replace("UNTIL", until).replace("TIMEOUT", timeout).replace("THEN", then)
    )
    experiment = load_text(text)
    plan = plan_run(experiment, experiment.points()[0], 0)
    sink = worlds.MemorySink()
    with Testbed().open(plan, Unobserved()) as session:
        return session.run(Trial("t0", plan.seed), sink), sink


def column(sink: worlds.MemorySink, role: str, name: str) -> list[float]:
    return [value for stream, _, columns in sink.blocks if stream == role for value in columns[name].tolist()]


def test_a_wait_ends_when_a_program_has_printed_such_a_value() -> None:
    """The bound is in the unit of the metric; what the program would print later is not waited for."""
    outcome, sink = played("client", "metric: client.took, op: '>=', value: 30")
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert "reached.done" in outcome.marks
    assert column(sink, "client", "value")[:3] == [10e6, 20e6, 30e6]


def test_a_wait_ends_when_a_role_has_had_so_many_answers() -> None:
    outcome, sink = played("asking", "metric: asking.progress, op: '>=', value: 100")
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    finished, errors = column(sink, "asking", "finished_ns"), column(sink, "asking", "error")
    reached = outcome.marks["reached.done"].t_ns
    assert sum(error == 0 and at <= reached for at, error in zip(finished, errors, strict=True)) >= 100
    assert len(errors) < 60 * 500


@pytest.mark.parametrize(
    ("then", "event", "fails"),
    [("censor", "timeout", False), ("fail", "timeout", True), ("cancel", "cancelled", False)],
)
def test_a_bound_that_is_never_reached_ends_as_the_file_says(then: str, event: str, fails: bool) -> None:
    outcome, _ = played("client", "metric: client.took, op: '>', value: 40", timeout="600 ms", then=then)
    assert "reached.done" not in outcome.marks
    assert f"reached.{event}" in outcome.marks
    assert (outcome.status == "failed") is fails, outcome.reasons
    assert ("reached" in " ".join(outcome.censored)) is (then == "censor")
