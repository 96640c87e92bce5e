"""A server as a service against closed forms: roles share it, and a search finds what it can serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.parity.test_searched_inputs import found
from tests.theory.simulated import simulated, values_of

MS = 1_000_000
WAY_NS = 100_000  # both ways of two switches at 10 Gbit/s, at most, with what waits behind others


def shared(
    server: dict[str, Any], *roles: dict[str, Any], guest: dict[str, Any] | None = None
) -> list[NDArray[np.float64]]:
    """Response times of roles that end at one service, each in the order in which its requests were due."""
    values = values_of(switches=1)
    for link in values["world"]["links"].values():
        link["rate_bit_per_s"] = 10_000_000_000
    values["world"]["guests"]["b"] |= guest or {}
    values["world"]["services"] = {
        "app": {"kind": "demand_server", "on": ["b"], "ready": {"port": 7000}, "response_bytes": 64, **server}
    }
    names = [f"r{number}" for number in range(len(roles))]
    values["roles"] = {
        name: {
            "workload": "request_response", "from": "a", "to": "b", "service": "app", "port": 7000,
            "request_bytes": 64, "connections": 1, "duration_ns": 1000 * MS, "timeout_ns": 60_000 * MS, **role,
        }
        for name, role in zip(names, roles, strict=True)
    }  # fmt: skip
    values["timeline"] = [{"id": name, "do": "run", "role": name} for name in names]
    values["collect"] = {"packets": names}
    values["windows"] = {}
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    times = []
    for name in names:
        blocks = kept.blocks[name, "response/1"]
        rows = {column: np.concatenate([block[column] for block in blocks]) for column in blocks[0]}
        assert not rows["error"].any()
        order = np.argsort(rows["intended_ns"], kind="stable")
        times.append((rows["finished_ns"] - rows["intended_ns"])[order].astype(np.float64))
    return times


def test_of_two_closed_loops_at_one_thread_each_waits_for_the_other() -> None:
    """2 clients that do not think: response time = 2 demands (Little's law, at a utilisation of 1)."""
    one, two = shared({"demand_ns": 10 * MS}, {}, {})
    for times in (one, two):
        assert np.all((times[2:-2] >= 20 * MS - WAY_NS) & (times[2:-2] < 20 * MS + WAY_NS))
    (alone,) = shared({"demand_ns": 10 * MS}, {})
    assert np.all((alone >= 10 * MS) & (alone < 10 * MS + WAY_NS))


@pytest.mark.slow
def test_poisson_streams_of_two_roles_wait_as_one_in_m_m_1() -> None:
    """Rates add up: E[T] = E[S] / (1 - (rate_1 + rate_2) E[S]), L. Kleinrock, 'Queueing Systems', volume 1 (1975)."""
    stream = {"arrivals": "poisson", "connections": 256, "duration_ns": 100_000 * MS}
    server = {"demand_ns": MS, "demand_distribution": "exponential", "full": "wait"}
    both = shared(server, {**stream, "rate_per_s": 300}, {**stream, "rate_per_s": 300})
    assert np.mean(np.concatenate(both)) == pytest.approx(2.5 * MS, rel=0.1)


def test_its_threads_share_the_processors_of_its_guest() -> None:
    """Four demands of 10 ms at a time on two processors take 20 ms each."""
    (times,) = shared(
        {"demand_ns": 10 * MS, "threads": 4}, {"connections": 4}, guest={"vcpus": 2, "platform": "qemu"}
    )
    assert np.median(times) == pytest.approx(20 * MS, rel=0.01)


@pytest.mark.slow
def test_a_search_finds_what_it_can_serve(tmp_path: Path) -> None:
    """Under one lock a demand of 2 ms leaves 500 requests per second, however many threads there are."""
    text = """
version: 1
name: capacity
hosts: [h1, h2]
host: {guests: 1}
topology: {shape: line, switches: 1}
link: {rate: 1 Gbit/s}
services:
  app: {kind: demand_server, on: h2.g1, demand: 2 ms, threads: 2, lock: 100 %}
roles:
  clients: {workload: request_response, from: h1.g1, to: app, rate: 10 request/s, connections: 64, duration: 4 s}
search:
  variable: clients.rate
  low: 100 request/s
  high: 2 krequest/s
  resolution: 5 request/s
  until: clients.response_time.p99 > 50 ms
repeat: 1
"""
    capacity, counts = found("simulator", text, tmp_path / "found.results")
    assert counts
    assert capacity == pytest.approx(500, rel=0.05)
