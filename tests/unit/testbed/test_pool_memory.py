"""Memory that guests of a pool share: its groups, what is counted of them, and what is refused before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.planner.check import mistakes
from virtlab.planner.wiring import Wiring
from virtlab.simulator.refusals import refusals as of_simulator
from virtlab.testbed.leader.groups import of_pools, pool_above
from virtlab.testbed.leader.memory_accounts import memory_of
from virtlab.testbed.refusals import pool_memory_refusals

MIB = 1 << 20
FILE = """
version: 1
name: pooled
hosts: {h1: {pools: {cores: {cpus: 1, memory: POOL}}, guests: {app: {count: 3, GUEST}}}}
topology: none
roles: {probe: {workload: rtt, from: h1.app1, to: h1.app2, count: 2}}
"""


def plan_of(pool: str = "64 MiB", guest: str = "memory: 32 MiB") -> Plan:
    experiment = load_text(FILE.replace("POOL", pool).replace("GUEST", guest))
    return plan_run(experiment, experiment.points()[0], 0)


def test_a_pool_has_its_memory_in_a_group_above_those_of_its_guests() -> None:
    plan = plan_of()
    (bound,) = of_pools(plan).values()
    assert (bound.memory_bytes, bound.bandwidth) == (64 * MIB, None), "by affinity it has no quota"
    assert {pool_above(plan, guest) for guest in plan.world.guests.values()} == {"pools.h1.cores"}


def test_a_pool_without_memory_of_its_own_has_no_group() -> None:
    plan = load_text(FILE.replace(", memory: POOL", "").replace("GUEST", "memory: 32 MiB"))
    assert of_pools(plan_run(plan, plan.points()[0], 0)) == {}


def test_limits_of_guests_may_add_up_to_more_than_their_pool_has() -> None:
    plan = plan_of()
    assert not list(pool_memory_refusals(plan, 1 << 30, root=True))
    assert not list(mistakes(plan, "testbed", Wiring(plan)))


def test_machines_that_have_more_from_the_start_than_their_pool_are_refused() -> None:
    plan = plan_of("512 MiB", "platform: qemu, memory: 256 MiB")
    [refusal] = pool_memory_refusals(plan, 1 << 30, root=True)
    assert refusal.path == "pools.h1.cores.memory_bytes"
    assert "3 machines have 768 MiB from the start, and their pool 512 MiB" in refusal.reason
    assert not list(
        pool_memory_refusals(plan_of("768 MiB", "platform: qemu, memory: 256 MiB"), 1 << 30, root=True)
    )


@pytest.mark.parametrize(
    ("has", "root", "what"), [(1 << 30, False, "by root here"), (32 * MIB, True, "this machine has")]
)
def test_memory_that_nobody_can_bound_or_that_is_not_there_is_refused(
    has: int, root: bool, what: str
) -> None:
    [refusal] = pool_memory_refusals(plan_of(), has, root=root)
    assert what in refusal.reason


def test_a_guest_with_a_larger_limit_than_its_pool_is_a_mistake() -> None:
    plan = plan_of("64 MiB", "memory: 65 MiB")
    assert {one.path for one in mistakes(plan, "testbed", Wiring(plan))} == {
        f"guests.h1.app{number}.memory_bytes" for number in (1, 2, 3)
    }


def test_the_simulator_has_no_memory_and_says_so() -> None:
    [refusal] = of_simulator(plan_of())
    assert refusal.path == "pools.h1.cores.memory_bytes"


def test_what_a_group_counts_is_read_of_both_versions(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("v1", "v2", "cpu"))
    for folder in (first, second, other):
        folder.mkdir()
    (first / "memory.usage_in_bytes").write_text("4096\n")
    (first / "memory.max_usage_in_bytes").write_text("8192\n")
    (first / "memory.failcnt").write_text("3\n")
    (first / "memory.stat").write_text("pgfault 1\npgmajfault 0\ntotal_pgfault 7\ntotal_pgmajfault 2\n")
    (second / "memory.current").write_text("4096\n")
    (second / "memory.peak").write_text("8192\n")
    (second / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\n")
    (second / "memory.stat").write_text("anon 5\npgfault 7\npgmajfault 2\n")
    (second / "memory.pressure").write_text(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 total=1\n"
    )
    counted = {
        "memory_bytes": 4096, "memory_max_bytes": 8192, "memory_limit_hits": 3, "page_faults": 7, "major_page_faults": 2,
    }  # fmt: skip
    assert dict(memory_of(first)) == counted
    assert dict(memory_of(second)) == counted | {"memory_stalled_ns": 5000}
    assert dict(memory_of(other)) == {}
