"""Requests in the simulator against closed forms of queueing theory, and a pause that no client can hide.

A server of one thread is M/G/1 when arrivals are a Poisson process: the mean wait is rho (1 + c^2) / (2 mu (1 - rho))
of demands of mean 1 / mu and variation c, which is 1 for M/M/1 and 0 for M/D/1. Means of long batches of a run are
nearly independent; their spread gives the interval, four standard errors wide, and seeds are fixed. Source: Kleinrock
1975, 3.2 and 5.6.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.parity.test_searched_inputs import found
from tests.requests_file import requests_file
from tests.theory.simulated import simulated, values_of

MS = 1_000_000
BATCHES = 40
DEMAND_NS = MS
WAY_NS = 150_000  # both ways of two switches at 100 Mbit/s, at most, with what waits behind others


def requests(seed: int = 1, **role: Any) -> tuple[Any, dict[str, NDArray[Any]]]:
    """A run of requests from a to b, and its rows in the order in which they were due."""
    own = {"workload": "request_response", "connections": 1, "duration_ns": 1000 * MS, "request_bytes": 64,
           "response_bytes": 64, "timeout_ns": 60_000 * MS} | role  # fmt: skip
    values = values_of(switches=1)
    values["roles"]["probe"] = {"from": "a", "to": "b", **own}
    for link in values["world"]["links"].values():
        link["rate_bit_per_s"] = 10_000_000_000
    outcome, kept = simulated(values, seed)
    blocks = kept.blocks["probe", "response/1"]
    rows = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    order = np.argsort(rows["intended_ns"], kind="stable")
    return outcome, {name: column[order] for name, column in rows.items()}


def times(rows: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    return (rows["finished_ns"] - rows["intended_ns"]).astype(np.float64)


def held(times_ns: NDArray[np.float64], expected_ns: float) -> None:
    """The mean is the closed form's, within four standard errors of means of batches and the way there and back."""
    batches = np.array([batch.mean() for batch in np.array_split(times_ns, BATCHES)])
    error = batches.std(ddof=1) / np.sqrt(BATCHES)
    assert error < 0.05 * expected_ns, "too few requests to say anything"
    assert -4 * error < batches.mean() - expected_ns < 4 * error + WAY_NS / 10


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize(
    ("distribution", "variation"), [("exponential", 1.0), ("constant", 0.0), ("lognormal", 0.5)]
)
def test_one_thread_answers_as_m_m_1_m_d_1_and_m_g_1(
    distribution: str, variation: float, load: float
) -> None:
    rate = round(load * 1e9 / DEMAND_NS)
    own = {"demand_variation_ratio": variation} if distribution == "lognormal" else {}
    outcome, rows = requests(
        rate_per_s=rate, arrivals="poisson", demand_ns=DEMAND_NS, demand_distribution=distribution, connections=400,
        duration_ns=100_000 * MS, **own,
    )  # fmt: skip
    assert outcome.status == "ok", outcome.reasons
    assert not rows["error"].any()
    wait_ns = DEMAND_NS * load / (1 - load) * (1 + variation**2) / 2
    held(times(rows), DEMAND_NS + wait_ns)


@pytest.mark.slow
def test_two_threads_answer_as_m_m_2() -> None:
    load = 0.7  # of each: Erlang's C for two servers is 2 rho^2 / (1 + rho)
    _, rows = requests(
        rate_per_s=round(2 * load * 1e9 / DEMAND_NS), arrivals="poisson", demand_ns=DEMAND_NS,
        demand_distribution="exponential", connections=400, threads=2, duration_ns=60_000 * MS,
    )  # fmt: skip
    waits = 2 * load**2 / (1 + load)
    held(times(rows), DEMAND_NS + waits * DEMAND_NS / (2 * (1 - load)))


@pytest.mark.slow
def test_k_exponential_subtasks_on_k_idle_threads_take_the_k_th_harmonic_number_of_their_mean() -> None:
    """The longest of k exponential parts of mean m takes m (1 + 1/2 + ... + 1/k), behind the serial stage."""
    for subtasks in (2, 5):
        _, rows = requests(
            serial_demand_ns=2 * MS, demand_ns=10 * MS, subtasks=subtasks, threads=subtasks,
            demand_distribution="exponential", duration_ns=100_000 * MS,
        )  # fmt: skip
        harmonic = sum(1 / part for part in range(1, subtasks + 1))
        held(times(rows), 2 * MS + 10 * MS / subtasks * harmonic)


@pytest.mark.slow
def test_k_exponential_subtasks_on_one_thread_answer_as_m_e_k_1() -> None:
    """The sum of k exponential parts has Erlang's distribution, of variation 1 / sqrt(k)."""
    load, subtasks = 0.7, 4
    _, rows = requests(
        rate_per_s=round(load * 1e9 / DEMAND_NS), arrivals="poisson", demand_ns=DEMAND_NS, subtasks=subtasks,
        demand_distribution="exponential", connections=400, duration_ns=60_000 * MS,
    )  # fmt: skip
    held(times(rows), DEMAND_NS + DEMAND_NS * load / (1 - load) * (1 + 1 / subtasks) / 2)


@pytest.mark.parametrize(
    ("subtasks", "threads", "turns"), [(1, 4, 1), (4, 4, 1), (4, 3, 2), (7, 2, 4), (4, 1, 4)]
)
def test_constant_subtasks_take_as_many_turns_as_the_threads_need(
    subtasks: int, threads: int, turns: int
) -> None:
    _, rows = requests(
        serial_demand_ns=MS, demand_ns=28 * MS, subtasks=subtasks, threads=threads, duration_ns=300 * MS
    )
    expected_ns = MS + turns * 28 * MS // subtasks
    assert np.all((times(rows) >= expected_ns) & (times(rows) < expected_ns + WAY_NS))


@pytest.mark.slow
@pytest.mark.parametrize(("distribution", "variation"), [("exponential", 1.0), ("constant", 0.0)])
@pytest.mark.parametrize("threads", [1, 3, 16])
def test_a_server_whose_work_is_all_under_its_lock_is_m_m_1_or_m_d_1_of_any_threads(
    threads: int, distribution: str, variation: float
) -> None:
    load = 0.7
    outcome, rows = requests(
        rate_per_s=round(load * 1e9 / DEMAND_NS), arrivals="poisson", demand_ns=DEMAND_NS, lock_ratio=1.0,
        demand_distribution=distribution, connections=400, threads=threads, duration_ns=60_000 * MS,
    )  # fmt: skip
    assert outcome.status == "ok", outcome.reasons
    held(times(rows), DEMAND_NS + DEMAND_NS * load / (1 - load) * (1 + variation**2) / 2)


@pytest.mark.parametrize(("share", "rate"), [(1.0, 100), (0.5, 200), (0.25, 400), (0.1, 800)])
def test_a_lock_bounds_the_rate_by_what_is_done_under_it(share: float, rate: float) -> None:
    """Of 10 ms a share under the lock: at most 1 / (share * 10 ms), and at most 8 threads / 10 ms."""
    _, rows = requests(connections=16, threads=8, demand_ns=10 * MS, lock_ratio=share, duration_ns=2000 * MS)
    assert not rows["error"].any()
    assert (rows["intended_ns"].size - 16) / 2 == pytest.approx(rate, rel=0.02)  # but those at the beginning


@pytest.mark.slow
def test_an_empirical_demand_answers_as_m_g_1_of_its_samples() -> None:
    load, samples = 0.7, np.array([0.2, 0.4, 0.4, 3.0]) * MS
    variation = samples.std() / samples.mean()
    _, rows = requests(
        rate_per_s=round(load * 1e9 / samples.mean()), arrivals="poisson", demand_distribution="empirical",
        demand_samples_ns=[int(sample) for sample in samples], connections=400, duration_ns=100_000 * MS,
    )  # fmt: skip
    assert samples.mean() == DEMAND_NS
    held(times(rows), DEMAND_NS + DEMAND_NS * load / (1 - load) * (1 + variation**2) / 2)


def test_clients_that_think_are_as_many_as_little_s_law_says() -> None:
    _, rows = requests(connections=5, think_ns=9 * MS, demand_ns=MS // 10, duration_ns=2000 * MS)
    assert not rows["error"].any()
    rate = rows["intended_ns"].size / 2.0
    mean_s = times(rows).mean() / 1e9
    assert abs(rate * (mean_s + 9e-3) - 5) < 0.05


@pytest.mark.slow
def test_a_pause_of_five_seconds_is_in_the_response_times() -> None:
    outcome, rows = requests(
        rate_per_s=100,
        connections=600,
        demand_ns=MS,
        pause_ns=5000 * MS,
        pause_after_ns=20_000 * MS,
        duration_ns=60_000 * MS,
    )
    assert outcome.status == "ok"
    assert rows["intended_ns"].size == 6000
    assert not rows["error"].any()
    assert np.quantile(times(rows), 0.99) >= 4e9
    assert abs(times(rows).max() - 5e9) < 20 * MS


def test_few_connections_move_the_wait_to_the_client_and_change_no_response_time() -> None:
    """FIFO at the client and FIFO at the server are one queue, but for the way between two requests of a connection."""
    common = {
        "rate_per_s": 100,
        "demand_ns": MS,
        "pause_ns": 1000 * MS,
        "pause_after_ns": 1000 * MS,
        "duration_ns": 4000 * MS,
    }
    _, many = requests(connections=200, **common)
    _, few = requests(connections=2, **common)
    assert np.abs(times(many) - times(few)).max() < 10 * MS
    assert (few["sent_ns"] - few["intended_ns"]).max() > 900 * MS
    assert (many["sent_ns"] - many["intended_ns"]).max() < MS


def test_what_the_backlog_has_no_room_for_is_refused_or_waits() -> None:
    common = {"rate_per_s": 2000, "demand_ns": MS, "connections": 64, "backlog": 4, "duration_ns": 500 * MS}
    _, refusing = requests(**common)
    assert refusing["intended_ns"].size == 1000
    assert 400 < (refusing["error"] == 1).sum() < 600
    assert times(refusing)[refusing["error"] == 0].max() < 7 * MS
    _, waiting = requests(full="wait", **common)
    assert not waiting["error"].any()
    assert waiting["intended_ns"].size == 1000


def test_requests_without_an_answer_in_time_are_lost_and_counted() -> None:
    _, rows = requests(
        rate_per_s=100, connections=4, demand_ns=MS, pause_ns=2000 * MS, pause_after_ns=500 * MS, timeout_ns=300 * MS,
        duration_ns=1000 * MS,
    )  # fmt: skip
    assert rows["intended_ns"].size == 100
    lost = rows["error"] == 2
    assert 45 <= lost.sum() <= 51
    assert np.abs(times(rows)[lost] - 300 * MS).max() < MS
    waited = (rows["sent_ns"] - rows["intended_ns"])[lost]
    assert waited.max() > 200 * MS, "most waited for a connection first"


def test_another_rate_begins_where_it_is_set() -> None:
    values = values_of()
    values["roles"]["probe"] = {
        "workload": "request_response", "from": "a", "to": "b", "rate_per_s": 100, "connections": 4, "request_bytes": 64,
        "response_bytes": 64, "timeout_ns": 1000 * MS, "duration_ns": 2000 * MS, "tunable": ["rate_per_s"],
    }  # fmt: skip
    more = {"id": "more", "do": "set", "role": "probe", "args": {"rate_per_s": 1000},
            "after": {"event": "measure.started", "plus_ns": 1000 * MS}}  # fmt: skip
    values["timeline"].insert(1, more)
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    (block,) = kept.blocks["probe", "response/1"]
    assert 1099 <= block["intended_ns"].size <= 1101


def test_what_is_open_at_the_end_is_censored() -> None:
    values = values_of()
    values["roles"]["probe"] = {
        "workload": "request_response", "from": "a", "to": "b", "rate_per_s": 100, "connections": 4, "request_bytes": 64,
        "response_bytes": 64, "timeout_ns": 60_000 * MS, "duration_ns": 60_000 * MS, "pause_ns": 60_000 * MS,
        "pause_after_ns": 500 * MS,
    }  # fmt: skip
    values["timeline"] = [
        {"id": "measure", "do": "start", "role": "probe"},
        {
            "id": "end",
            "do": "stop",
            "role": "probe",
            "after": {"event": "measure.started", "plus_ns": 1000 * MS},
        },
    ]
    _, kept = simulated(values)
    (block,) = kept.blocks["probe", "response/1"]
    assert 100 <= block["error"].size <= 101
    assert 49 <= (block["error"] == 4).sum() <= 51


@pytest.mark.slow
def test_a_search_finds_the_capacity_of_a_server(tmp_path: Path) -> None:
    """One thread and a demand of 2 ms: 500 requests per second, by the search as it is for every other input."""
    search = """search:
  variable: clients.rate
  low: 100 request/s
  high: 2 krequest/s
  resolution: 5 request/s
  until: clients.response_time.p99 > 50 ms
"""
    text = requests_file("rate: 10 request/s, connections: 64, demand: 2 ms, duration: 4 s", search)
    capacity, counts = found("simulator", text, tmp_path / "found.results")
    assert counts
    assert capacity == pytest.approx(500, rel=0.05)
