"""Requests in a guest that shares its processors, against closed forms of processor sharing.

With as many threads as requests and one processor a server is M/G/1-PS: the mean response is E[S] / (1 - rho) whatever
the distribution of demands. Source: Kleinrock 1976, 4.4; Yashkov 1987.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.theory.simulated import parsed, simulated, values_of
from tests.theory.test_simulated_requests import DEMAND_NS, MS, WAY_NS, held, times

from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE
from virtlab.simulator.without_effect import without_effect

Rows = dict[str, NDArray[Any]]


def world(guest: dict[str, Any], **roles: dict[str, Any]) -> dict[str, Any]:
    """Roles from a to b, where b has what it says of processors; without the network's own time."""
    values = values_of(switches=1)
    values["world"]["guests"]["b"] |= guest
    own = {
        "workload": "request_response", "connections": 1, "duration_ns": 1000 * MS, "request_bytes": 64,
        "response_bytes": 64, "timeout_ns": 60_000 * MS,
    }  # fmt: skip
    values["roles"] = {name: {"from": "a", "to": "b", **own, **role} for name, role in roles.items()}
    values["timeline"] = [{"id": f"run-{name}", "do": "run", "role": name} for name in roles]
    first = next(iter(roles))
    values["windows"] = {"measured": {"from": f"run-{first}.started", "to": f"run-{first}.finished"}}
    values["collect"]["packets"] = list(roles)
    for link in values["world"]["links"].values():
        link["rate_bit_per_s"] = 10_000_000_000
    return values


def played(values: dict[str, Any]) -> dict[str, Rows]:
    """The rows of each role in the order in which they were due."""
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    found = {}
    for name in values["roles"]:
        blocks = kept.blocks[name, "response/1"]
        rows = {column: np.concatenate([block[column] for block in blocks]) for column in blocks[0]}
        order = np.argsort(rows["intended_ns"], kind="stable")
        found[name] = {column: values[order] for column, values in rows.items()}
        assert not rows["error"].any()
    return found


def poisson(load: float, distribution: str, **more: Any) -> dict[str, Any]:
    return {
        "rate_per_s": round(load * 1e9 / DEMAND_NS), "arrivals": "poisson", "demand_ns": DEMAND_NS, "threads": 400,
        "demand_distribution": distribution, "connections": 400, "duration_ns": 60_000 * MS, **more,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["exponential", "constant", "lognormal"])
def test_one_processor_that_threads_share_answers_as_m_g_1_ps(distribution: str) -> None:
    load = 0.6
    more = {"demand_variation_ratio": 1.5} if distribution == "lognormal" else {}
    rows = played(world({"cpu_quota_ratio": 1.0}, probe=poisson(load, distribution, **more)))["probe"]
    held(times(rows), DEMAND_NS / (1 - load))


@pytest.mark.slow
def test_as_many_requests_are_under_way_as_littles_law_says() -> None:
    load = 0.5
    rows = played(world({"cpu_quota_ratio": 1.0}, probe=poisson(load, "exponential")))["probe"]
    instants = np.linspace(1000 * MS, 59_000 * MS, 20_000)
    first = rows["intended_ns"].min()
    come = np.searchsorted(np.sort(rows["intended_ns"] - first), instants)
    gone = np.searchsorted(np.sort(rows["finished_ns"] - first), instants)
    rate = rows["intended_ns"].size / 60e9
    assert (come - gone).mean() == pytest.approx(rate * times(rows).mean(), rel=0.05)
    assert (come - gone).mean() == pytest.approx(load / (1 - load), rel=0.1)


@pytest.mark.slow
def test_threads_beyond_the_processors_share_them_and_servers_of_one_guest_do_too() -> None:
    four = {"connections": 4, "threads": 4, "demand_ns": 10 * MS, "duration_ns": 100 * MS}
    alone = played(world({}, probe=four))["probe"]
    shared = played(world({"platform": "qemu", "vcpus": 2}, probe=four))["probe"]
    assert np.all((times(alone) >= 10 * MS) & (times(alone) < 10 * MS + WAY_NS))
    assert np.median(times(shared)) == pytest.approx(20 * MS, rel=0.001)
    assert times(shared).max() < 20 * MS + WAY_NS
    two = {"connections": 2, "threads": 2, "demand_ns": 10 * MS, "duration_ns": 100 * MS}
    beside = played(world({"cpu_quota_ratio": 1.0}, probe=two, other=two))
    for rows in beside.values():
        assert np.median(times(rows)) == pytest.approx(40 * MS, rel=0.02)


def test_a_pause_takes_the_processor_from_nobody_else() -> None:
    paused = {"demand_ns": 10 * MS, "duration_ns": 300 * MS, "pause_ns": 100 * MS, "pause_after_ns": 45 * MS}
    other = {"demand_ns": 10 * MS, "duration_ns": 300 * MS}
    rows = played(world({"cpu_quota_ratio": 1.0}, probe=paused, other=other))
    longest = times(rows["probe"]).max()
    assert longest == pytest.approx(120 * MS, rel=0.01), (
        "the pause, and twice its demand of a shared processor"
    )
    meanwhile = times(rows["other"]).min()
    assert meanwhile == pytest.approx(10 * MS, rel=0.01), "alone while the other server stands still"


def test_what_decides_is_not_listed_as_without_effect() -> None:
    server = {"demand_ns": MS}
    listed = [
        one.setting
        for one in without_effect(parsed(world({"cpu_quota_ratio": 0.5}, probe=server)), IDEAL_PROFILE)
    ]
    assert not any(what.startswith("CPU quota") for what in listed)
    idle = parsed(world({"cpu_quota_ratio": 0.5}, probe={}))
    assert any(one.setting.startswith("CPU quota") for one in without_effect(idle, IDEAL_PROFILE))
    assert Simulator().check(idle) == []
