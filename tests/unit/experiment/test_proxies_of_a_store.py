"""Proxies of a store are a choice beside who sends the copies, but for clients that send these themselves."""

from __future__ import annotations

import pytest

from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.planner import plan_run


def text(store: str) -> str:
    return f"""
version: 1
name: proxies
hosts:
  h1: {{guests: {{client: {{}}, n1: {{}}, n2: {{}}, p1: {{}}}}}}
services:
  depot: {{kind: store, on: [h1.n1, h1.n2], copies: 2, ack: memory, cache: 1 MiB, {store}}}
roles:
  load: {{workload: objects, from: h1.client, to: depot, operations: {{create: 2, open: 1, list: 1}}}}
"""


@pytest.mark.parametrize("writer", ["proxy", "primary"])
def test_proxies_are_beside_a_proxy_or_a_primary_that_sends_the_copies(writer: str) -> None:
    experiment = load_text(text(f"written_by: {writer}, proxies: h1.p1, proxy_time: 20 us"))
    parameters = plan_run(experiment, experiment.points()[0], 0).world.services["depot"].parameters
    assert (parameters["written_by"], parameters["proxies"]) == (writer, ["h1.p1"])


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("written_by: client, proxies: h1.p1", "asks no proxy; write 'written_by: proxy' or 'primary'"),
        ("proxies: h1.p1", "asks no proxy; write 'written_by: proxy' or 'primary'"),
        ("written_by: proxy", "no guest is a proxy; name some in 'proxies'"),
        (
            "written_by: primary, proxy_time: 20 us",
            "no guest is a proxy; name some in 'proxies', or remove it",
        ),
    ],
)
def test_proxies_that_nobody_asks_and_those_that_are_not_there_are_refused(store: str, expected: str) -> None:
    with pytest.raises(ExperimentError, match=expected):
        load_text(text(store))
