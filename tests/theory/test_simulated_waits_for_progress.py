"""Waits of the simulator for what has come to a role of requests: at the first look at which enough has."""

from __future__ import annotations

import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.requests_file import requests_file

from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

MS = 1_000_000
# Each 10 ms a request is due, whose answer comes within a millisecond.
FILE = requests_file(
    "rate: 100 request/s, duration: 2 s",
    """timeline:
  - {id: ask, do: start, role: clients}
  - {id: some, do: wait, until: {metric: clients.progress, UNTIL}, timeout: 1 s, on_timeout: MEANS, after: ask.started}
  - {id: end, do: stop, role: clients, after: {any: [some.done, some.timeout, some.cancelled]}}
""",
)


def played(until: str, means: str = "censor") -> tuple[Outcome, dict[str, int]]:
    experiment = load_text(FILE.replace("UNTIL", until).replace("MEANS", means))
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert Simulator().check(plan) == []
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", 1), kept)
    happened = {event.what: event.t_ns for event in kept.events}
    return outcome, {what: t_ns - happened["ask.started"] for what, t_ns in happened.items() if "." in what}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("until", "at_ms"),
    [
        ("op: '>=', value: 20, every: 1 ms", 191),  # the twentieth answer is there
        ("op: '>', value: 20, every: 1 ms", 201),
        ("op: '==', value: 20, every: 1 ms", 191),
        ("op: '>=', value: 20, every: 150 ms", 300),  # as late as it looks
        ("op: '<', value: 1, every: 1 ms", 0),  # at its first look
    ],
)
def test_a_wait_is_over_at_the_first_look_at_which_enough_has_come(until: str, at_ms: int) -> None:
    outcome, happened = played(until)
    assert outcome.status == "ok", outcome.reasons
    assert happened["some.done"] == at_ms * MS


@pytest.mark.parametrize(
    ("means", "event", "status"),
    [
        ("censor", "some.timeout", "ok"),
        ("cancel", "some.cancelled", "ok"),
        ("fail", "some.timeout", "failed"),
    ],
)
def test_a_wait_in_vain_ends_as_the_file_says(means: str, event: str, status: str) -> None:
    outcome, happened = played("op: '>', value: 100000", means)
    assert outcome.status == status
    assert happened[event] == 1000 * MS
    assert "some.done" not in happened
    assert outcome.censored == (("some",) if means == "censor" else ())
