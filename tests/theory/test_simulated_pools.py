"""Guests that share the processors of a pool, against closed forms.

With vCPUs enough, guests on P processors are one M/M/P queue under processor sharing, whose mean is that of M/M/P: at
rate 80/s, service rate 10/s and P = 10 the probability of waiting is C = 0.40918 (Erlang's C formula) and the mean
response 1 / mu + C / (P mu - lambda) = 120.459 ms. Threads of one server that each have a processor wait in one line,
as M/G/c. Sources: L. Kleinrock, 'Queueing Systems', volume 1 (1975), 3.5, and volume 2 (1976), 4.4; A. O. Allen,
'Probability, Statistics, and Queueing Theory' (1990), 5.3.4, for the formula of Allen and Cunneen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.contract.test_backend_contract import Kept, Watcher
from tests.theory.simulated import parsed, values_of
from tests.theory.test_simulated_requests import MS, held, times

from virtlab.plan import Guest, Trial
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile
from virtlab.simulator.usage import may_use
from virtlab.simulator.without_effect import without_effect

Rows = dict[str, NDArray[Any]]
WAITING, RESPONSE_NS = 0.40918, 120.459 * MS
FEW = 100  # requests: of fewer a law of means says nothing
SERVER = {"workload": "request_response", "connections": 400, "threads": 400, "request_bytes": 64, "response_bytes": 64,
          "timeout_ns": 60_000 * MS, "arrivals": "poisson", "demand_distribution": "exponential"}  # fmt: skip


def world(
    guests: int, role: dict[str, Any], *, cpus: int | None, host: int | None = None, **guest: Any
) -> Any:
    """Servers in so many guests of one host, each asked by a role of its own; on `cpus` processors together, if any."""
    values = values_of(switches=1)
    own = values["world"]["guests"].pop("b")
    names = [f"b{number}" for number in range(guests)]
    for number, name in enumerate(names, 2):
        vnic = own["vnics"]["eth0"] | {"mac": f"02:00:00:00:00:{number:02x}", "ip": [f"10.0.0.{number}/24"]}
        values["world"]["guests"][name] = own | {"vnics": {"eth0": vnic}} | guest
        if cpus is not None:
            values["world"]["guests"][name]["pool"] = "h2.cores"
    if cpus is not None:
        values["world"]["pools"] = {"h2.cores": {"host": "h2", "cpus": cpus}}
    if host is not None:
        values["world"]["hosts"]["h2"]["cpus"] = host
    for link in values["world"]["links"].values():
        link["rate_bit_per_s"] = 10_000_000_000
    values["limits"]["run_ns"] = 10**13
    values["roles"] = {f"to-{name}": {"from": "a", "to": name, **SERVER, **role} for name in names}
    values["timeline"] = [{"id": name, "do": "run", "role": name} for name in values["roles"]]
    values["windows"] = {"measured": {"from": "to-b0.started", "to": "to-b0.finished"}}
    values["collect"] |= {
        "packets": list(values["roles"]),
        "series": [{"source": source, "every_ns": 1000 * MS} for source in ("guest.cpu", "host.cpu")],
    }
    return values


def played(values: Any, profile: Profile = IDEAL_PROFILE) -> tuple[list[Rows], dict[tuple[str, str], float]]:
    """The rows of each role in the order in which they were due, which follow Little's law; the mean of each series."""
    kept = Kept()
    with Simulator(profile).open(parsed(values), Watcher()) as session:
        outcome = session.run(Trial("t0", 1), kept)
    assert outcome.status == "ok", outcome.reasons
    found = []
    for name in values["roles"]:
        blocks = kept.blocks[name, "response/1"]
        rows = {column: np.concatenate([block[column] for block in blocks]) for column in blocks[0]}
        assert not rows["error"].any()
        order = np.argsort(rows["intended_ns"], kind="stable")
        found.append({column: values[order] for column, values in rows.items()})
        follow_littles_law(found[-1], values["roles"][name])
    means: dict[tuple[str, str], float] = {}
    for block in kept.blocks.get(("series", "series/1"), []):
        for key in dict.fromkeys(zip(block["entity"], block["metric"], strict=True)):
            at = (block["entity"] == key[0]) & (block["metric"] == key[1])
            means[key] = float(block["value"][at][:-1].mean()) if at.sum() > 1 else float("nan")
    return found, means


def follow_littles_law(rows: Rows, role: dict[str, Any]) -> None:
    """From the first request to the last answer as many are under way, counted at regular instants, as came in the time
    that one takes; when they came, the file says and not the rows. In a closed loop the number is known: each
    connection has one.
    """
    come, gone = np.sort(rows["intended_ns"]), np.sort(rows["finished_ns"])
    if come.size < FEW:
        return
    instants = np.linspace(0, 1, 20_000) * gone[-1]
    under_way = np.searchsorted(come, instants, "right") - np.searchsorted(gone, instants, "right")
    takes_s, span_s = float(times(rows).mean()) / 1e9, float(gone[-1]) / 1e9
    if role["arrivals"] is None:
        assert np.median(under_way) == role["connections"]
        assert come.size / span_s * takes_s == pytest.approx(role["connections"], rel=0.02)
        return
    came = role["rate_per_s"] * float(come[-1]) / 1e9
    # Of a Poisson process, four standard deviations; 1 % for the instants.
    assert under_way.mean() * span_s == pytest.approx(came * takes_s, rel=4 / np.sqrt(come.size) + 0.01)


def waiting(rows: Rows, servers: int) -> float:
    """The share of requests that find all servers busy."""
    order = np.argsort(rows["intended_ns"])
    come = np.arange(order.size)
    gone = np.searchsorted(np.sort(rows["finished_ns"]), rows["intended_ns"][order])
    return float((come - gone >= servers).mean())


@pytest.mark.slow
def test_threads_wait_as_erlangs_c_formula_says() -> None:
    role = {
        "rate_per_s": 80,
        "demand_ns": 100 * MS,
        "threads": 10,
        "backlog": 100_000,
        "duration_ns": 1_000_000 * MS,
    }
    (rows,), _ = played(world(1, role, cpus=None))
    held(times(rows), RESPONSE_NS)
    assert waiting(rows, 10) == pytest.approx(WAITING, abs=0.02)


@pytest.mark.slow
def test_threads_with_other_demands_wait_as_allen_and_cunneen_say_about() -> None:
    """Their formula is exact for exponential demands alone; they give its error as some per cent of the wait."""
    variation = 0.5
    role = {"rate_per_s": 80, "demand_ns": 100 * MS, "threads": 10, "backlog": 100_000, "duration_ns": 1_000_000 * MS,
            "demand_distribution": "lognormal", "demand_variation_ratio": variation}  # fmt: skip
    (rows,), _ = played(world(1, role, cpus=None))
    wait_ns = (RESPONSE_NS - 100 * MS) * (1 + variation**2) / 2
    assert times(rows).mean() - 100 * MS == pytest.approx(wait_ns, rel=0.1)


@pytest.mark.slow
def test_guests_of_a_pool_with_vcpus_enough_answer_as_one_queue_of_its_processors() -> None:
    role = {"rate_per_s": 16, "demand_ns": 100 * MS, "duration_ns": 1_000_000 * MS}
    every, means = played(world(5, role, cpus=10, host=16))
    assert np.mean(np.concatenate([times(rows) for rows in every])) == pytest.approx(RESPONSE_NS, rel=0.02)
    together = {column: np.concatenate([rows[column] for rows in every]) for column in every[0]}
    assert waiting(together, 10) == pytest.approx(WAITING, abs=0.02)
    used = sum(means[f"guests.b{number}", "cpu"] for number in range(5))
    assert used == pytest.approx(8, rel=0.02), "rate by demand"
    assert means["pools.h2.cores", "cpu"] == pytest.approx(used)
    assert means["pools.h2.cores", "cpu_share"] == pytest.approx(used / 10)
    assert means["pools.h2.cores", "host_cpu_share"] == pytest.approx(used / 16)
    assert means["hosts.h2", "cpu"] == pytest.approx(used / 16)
    assert means["guests.b0", "cpu_share"] == pytest.approx(means["guests.b0", "cpu"] / 10)


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["exponential", "constant", "lognormal"])
def test_two_guests_on_one_processor_answer_as_m_g_1_ps_whatever_the_demands(distribution: str) -> None:
    more = {"demand_variation_ratio": 1.5} if distribution == "lognormal" else {}
    role = {
        "rate_per_s": 300,
        "demand_ns": MS,
        "duration_ns": 60_000 * MS,
        "demand_distribution": distribution,
    }
    every, _ = played(world(2, role | more, cpus=1))
    held(np.concatenate([times(rows) for rows in every]), MS / (1 - 0.6))


@pytest.mark.slow
def test_a_host_with_processors_of_its_own_shares_them_among_all_its_guests() -> None:
    role = {"arrivals": None, "connections": 4, "threads": 4, "demand_distribution": "constant", "demand_ns": 10 * MS,
            "duration_ns": 10_000 * MS}  # fmt: skip
    every, means = played(world(2, role, cpus=None, host=4))
    for rows in every:
        assert np.median(times(rows)) == pytest.approx(20 * MS, rel=0.001)
    assert means["hosts.h2", "cpu"] == pytest.approx(1, rel=0.01)
    assert means["guests.b1", "cpu_share"] == pytest.approx(0.5, rel=0.01), "2 of 4 processors"
    assert ("pools.h2.cores", "cpu") not in means


@pytest.mark.slow
def test_machines_work_on_their_vcpus_alone_and_at_one_speed_where_these_are_too_many() -> None:
    role = {"arrivals": None, "connections": 8, "threads": 8, "demand_distribution": "constant", "demand_ns": 10 * MS,
            "duration_ns": 1000 * MS}  # fmt: skip
    machine = {"platform": "qemu", "vcpus": 4}
    few, _ = played(world(1, role, cpus=8, **machine))
    assert np.median(times(few[0])) == pytest.approx(20 * MS, rel=0.001), "8 tasks on 4 vCPUs"
    many, _ = played(world(4, role, cpus=8, **machine))
    assert np.median(times(many[0])) == pytest.approx(40 * MS, rel=0.001), "16 vCPUs on 8 processors"


def test_idle_vcpus_and_contention_cost_what_a_profile_says() -> None:
    role = {"arrivals": None, "connections": 8, "threads": 8, "demand_distribution": "constant", "demand_ns": 10 * MS,
            "duration_ns": 10_000 * MS}  # fmt: skip
    profile = Profile(
        "made",
        parameters={
            "platform.namespace.idle_vcpu_ratio": Parameter(0.1),
            "pool.contention_ratio": Parameter(0.5),
            "vswitch.linux_bridge.packet_ns": Parameter(0.0),
            "links.departure_ns": Parameter(0.0),
        },
    )
    (rows,), means = played(world(1, role, cpus=2, host=4), profile)
    left = 2 - 8 * 0.1
    speed = left / 8 * (1 - 0.5 * (1 - left / 8))
    assert np.median(times(rows)) == pytest.approx(10 * MS / speed, rel=0.001)
    assert means["guests.b0", "cpu"] == pytest.approx(left, rel=0.01)
    assert means["pools.h2.cores", "cpu_share"] == pytest.approx(1, rel=0.01), (
        "idle vCPUs are part of its use"
    )
    assert means["hosts.h2", "cpu"] == pytest.approx(0.5, rel=0.01)
    assert not any("vcpus" in one.setting for one in without_effect(parsed(world(1, role, cpus=2)), profile))


def test_idle_vcpus_that_take_the_whole_pool_are_refused() -> None:
    profile = Profile("made", parameters={"platform.qemu.idle_vcpu_ratio": Parameter(0.5)})
    plan = parsed(world(1, {"demand_ns": MS, "rate_per_s": 1}, cpus=2, platform="qemu", vcpus=4))
    found = [refusal for refusal in Simulator(profile).check(plan) if refusal.path == "pools.h2.cores"]
    assert [refusal.reason for refusal in found] == [
        "the idle vCPUs of its guests take 2.00 processors, and it has 2"
    ]


@pytest.mark.slow
def test_what_works_in_no_pool_fares_as_before() -> None:
    role = {"rate_per_s": 300, "demand_ns": MS, "duration_ns": 2000 * MS}
    alone, means = played(world(1, role, cpus=None, cpu_quota_ratio=1.0))
    assert means == {}, "nothing is sampled of guests that share nothing"
    pooled, _ = played(world(1, role, cpus=1))
    assert np.abs(times(alone[0]) - times(pooled[0])).max() < 100, "a pool of one guest is its quota"


def test_a_machine_of_which_the_file_says_no_vcpus_has_one() -> None:
    """As on the testbed: its share is of that, whatever its servers' threads are."""
    machine, namespace = (Guest(platform=platform, host="h", vnics={}) for platform in ("qemu", "namespace"))
    assert (may_use(machine, 2), may_use(namespace, 2)) == (1.0, 2.0)
    assert may_use(machine.model_copy(update={"vcpus": 4}), 2) == 4.0


@pytest.mark.parametrize("pool", [8, None])
def test_threads_in_such_a_machine_take_turns_on_its_one_processor(pool: int | None) -> None:
    """In a pool and outside, as on the testbed, where it boots with one; those of a namespace have one each."""
    role = {"arrivals": None, "connections": 4, "threads": 4, "demand_distribution": "constant", "demand_ns": 10 * MS,
            "duration_ns": 1000 * MS}  # fmt: skip
    for platform, takes in (("qemu", 40 * MS), ("namespace", 10 * MS)):
        (rows,), _ = played(world(1, role, cpus=pool, platform=platform))
        assert np.median(times(rows)) == pytest.approx(takes, rel=0.01), platform


@pytest.mark.slow
def test_one_thread_in_such_a_machine_answers_as_one_in_a_namespace() -> None:
    role = {"rate_per_s": 60, "threads": 1, "demand_ns": 10 * MS, "duration_ns": 5000 * MS}
    (machine,), _ = played(world(1, role, cpus=None, platform="qemu"))
    (namespace,), _ = played(world(1, role, cpus=None))
    assert all(np.array_equal(machine[column], namespace[column]) for column in machine)
