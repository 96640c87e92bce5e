"""Processors of hosts and pools of them, as a file says them: what becomes of them in a Plan, and what is a mistake."""

from __future__ import annotations

import pytest

from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.plan import Plan, Pool
from virtlab.planner import plan_run
from virtlab.planner.guests.weights import weights

HEAD = """
version: 1
name: pooled
topology: none
roles: {probe: {workload: rtt, from: h1.a1, to: h2.g1, interval: 10 ms, count: 10}}
"""
HOSTS = """
hosts:
  h1:
    cpus: 24
    pools: {cores: {cpus: 20}, storage: {cpus: 4, by: quota}}
    guests: {a: {count: 2, pool: cores}, disk: {pool: storage}}
  h2: {guests: 1}
"""


def plan_of(text: str, point: int = 0) -> Plan:
    experiment = load_text(HEAD + text)
    return plan_run(experiment, experiment.points()[point], 0)


def test_pools_become_nouns_of_the_plan_by_host_and_name() -> None:
    world = plan_of(HOSTS).world
    assert {name: host.cpus for name, host in world.hosts.items()} == {"h1": 24, "h2": None}
    assert world.pools == {
        "h1.cores": Pool(host="h1", cpus=20),
        "h1.storage": Pool(host="h1", cpus=4, by="quota"),
    }
    pools = {name: guest.pool for name, guest in world.guests.items()}
    assert pools == {"h1.a1": "h1.cores", "h1.a2": "h1.cores", "h1.disk": "h1.storage", "h2.g1": None}


def test_a_plan_says_where_in_the_file_a_pool_is() -> None:
    assert plan_of(HOSTS).because["pools.h1.cores"] == "hosts.h1.pools.cores"


def test_all_guests_of_a_host_are_in_its_only_pool() -> None:
    text = "hosts: {h1: {pools: {cores: {cpus: 2}}, guests: [a1, a2]}, h2: {guests: 1}}"
    pools = [guest.pool for guest in plan_of(text).world.guests.values()]
    assert pools == ["h1.cores", "h1.cores", None]


def test_a_guest_may_say_that_it_is_in_no_pool_of_its_host() -> None:
    text = "hosts: {h1: {pools: {cores: {cpus: 2}}, guests: {a1: {}, b: {pool: none}}}, h2: {guests: 1}}"
    pools = {name: guest.pool for name, guest in plan_of(text).world.guests.items()}
    assert pools == {"h1.a1": "h1.cores", "h1.b": None, "h2.g1": None}


def test_a_factor_may_say_how_many_processors_a_pool_has() -> None:
    text = "factors: {p: [1, 2]}\n" + HOSTS.replace("cpus: 20", 'cpus: "${p}"')
    assert [plan_of(text, point).world.pools["h1.cores"].cpus for point in (0, 1)] == [1, 2]


def test_a_host_takes_pools_from_what_hosts_have_in_common_unless_it_says_that_it_has_none() -> None:
    text = "host: {pools: {cores: {cpus: 2}}}\nhosts: {h1: {guests: [a1]}, h2: {pools: null, guests: 1}}"
    assert [guest.pool for guest in plan_of(text).world.guests.values()] == ["h1.cores", None]


@pytest.mark.slow
def test_a_guest_of_a_pool_may_have_a_weight_and_others_in_it_have_the_kernels() -> None:
    text = "factors: {w: [1, 10000]}\n" + HOSTS.replace("{count: 2, pool", '{count: 2, weight: "${w}", pool')
    assert [plan_of(text, point).world.guests["h1.a2"].weight for point in (0, 1)] == [1, 10_000]
    text = "hosts: {h1: {pools: {p: {cpus: 2}}, guests: {a1: {weight: 300}, b: {}}}, h2: {guests: 1}}"
    assert weights(plan_of(text)) == {"h1.a1": 300, "h1.b": 100}


def test_a_plan_without_pools_says_nothing_of_processors() -> None:
    plan = plan_of("hosts: {h1: {guests: [a1]}, h2: {guests: 1}}")
    assert "cpus" not in plan.canonical()
    assert "pool" not in plan.canonical()
    assert "weight" not in plan.canonical()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cpus: 24", "cpus: 23", "hosts.h1.pools: pools of 24 processors on a host that has 23; write 'cpus: 24'"),
        ("cpus: 24", "cpus: 2.5", "hosts.h1.cpus: '2.5' is not a whole number"),
        ("cpus: 20", "cpus: 0", "hosts.h1.pools.cores.cpus: '0' is less than what is possible"),
        ("cpus: 20", "by: affinity", "hosts.h1.pools.cores.cpus: 'cpus' is missing"),
        ("by: quota", "by: magic", "hosts.h1.pools.storage.by: 'magic' is not one of affinity, quota"),
        ("disk: {pool: storage}", "disk: {pool: none}", "no guest is in pool 'storage'"),
        ("storage: {cpus", "none: {cpus", "pools.none: is what a guest says that is in no pool"),
        ("disk: {pool: storage}", "disk: {}", "hosts.h1.guests.disk: its host has 2 pools, and nothing says which"),
        ("disk: {pool: storage}", "disk: {pool: stroage}", "its host has no pool 'stroage'; did you mean 'storage'"),
        ("disk: {pool: storage}", "disk: {pool: cores}", "no guest is in pool 'storage'; write 'pool: storage'"),
        ("h2: {guests: 1}", "h2: {guests: {g1: {pool: cores}}}", "h2.guests.g1.pool: its host has no pools; remove it"),
        ("disk: {pool", "disk: {platform: xen, pool", "guests of platform xen cannot be confined to processors"),
        ("h2: {guests: 1}", "h2: {guests: {g1: {weight: 50}}}", "h2.guests.g1.weight: a weight is of guests that share"),
        ("count: 2, pool", "count: 2, weight: 10001, pool", "h1.guests: a weight of '10001' is more than the kernel has"),
        ("count: 2, pool", "count: 2, weight: 0, pool", "hosts.h1.guests: '0' is less than what is possible"),
        ("{cores: {cpus: 20}, storage: {cpus: 4, by: quota}}", "[cores]", "'a list' names no pool; write e.g."),
    ],
)  # fmt: skip
def test_a_file_may_not_say(old: str, new: str, words: str) -> None:
    assert old in HOSTS
    with pytest.raises(ExperimentError) as caught:
        load_text(HEAD + HOSTS.replace(old, new))
    assert words in str(caught.value)
