"""Memory that guests of a pool share: its groups, what is counted of them, and what is refused before anything is
built.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.planner.check import mistakes
from virtlab.planner.guests.swap import swapping as planned_swap
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.simulator.limits import refusals as of_simulator
from virtlab.testbed.build.swap import swap_refusals
from virtlab.testbed.leader.groups import _v1, _v2, of_pools, pool_above
from virtlab.testbed.leader.memory_accounts import memory_of
from virtlab.testbed.platforms.container.bundle import Limits
from virtlab.testbed.platforms.container.containers import as_files
from virtlab.testbed.platforms.qemu.acceleration import FORCED
from virtlab.testbed.platforms.qemu.platform import machine_refusals
from virtlab.testbed.refusals import pool_memory_refusals

MIB = 1 << 20
FILE = """
version: 1
name: pooled
hosts: {h1: {pools: {cores: {cpus: 1, memory: POOL}}, guests: {app: {count: 3, GUEST}}}}
topology: none
roles: {probe: {workload: rtt, from: h1.app1, to: h1.app2, count: 2}}
"""


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine can."""
    monkeypatch.setenv(FORCED, "tcg")


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
    assert not list(mistakes(plan, "testbed", LayerTwo(plan)))


def test_machines_that_have_more_from_the_start_than_their_pool_are_refused() -> None:
    guest = "platform: qemu, memory: 256 MiB"
    [refusal] = pool_memory_refusals(plan_of("512 MiB", guest), 1 << 30, root=True)
    assert refusal.path == "pools.h1.cores.memory_bytes"
    assert "3 machines take 960 MiB from the start, including QEMU itself, and their pool" in refusal.reason
    [tight] = pool_memory_refusals(plan_of("959 MiB", guest), 1 << 30, root=True)
    assert tight.path == refusal.path
    assert not list(pool_memory_refusals(plan_of("960 MiB", guest), 1 << 30, root=True))


def test_of_machines_that_the_hardware_runs_nothing_more_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "kvm")
    guest = "platform: qemu, memory: 256 MiB"
    assert not list(pool_memory_refusals(plan_of("768 MiB", guest), 1 << 30, root=True))
    assert list(pool_memory_refusals(plan_of("767 MiB", guest), 1 << 30, root=True))


@pytest.mark.parametrize(
    ("has", "root", "what"), [(1 << 30, False, "by root here"), (32 * MIB, True, "this machine has")]
)
def test_memory_that_nobody_can_bound_or_that_is_not_there_is_refused(
    has: int, root: bool, what: str
) -> None:
    [refusal] = pool_memory_refusals(plan_of(), has, root=root)
    assert what in refusal.reason


def swapping(pool: str = "memory: 64 MiB, swap: 16 MiB", guest: str = "memory: 32 MiB, swap: 8 MiB") -> Plan:
    experiment = load_text(FILE.replace("memory: POOL", pool).replace("GUEST", guest))
    return plan_run(experiment, experiment.points()[0], 0)


def test_swap_of_a_pool_is_beyond_its_memory_and_that_of_its_guests_inside_of_it() -> None:
    plan = swapping()
    assert list(mistakes(plan, "testbed", LayerTwo(plan))) == []
    assert planned_swap(plan) == {"pools.h1.cores": 16 * MIB}
    [bound] = of_pools(plan).values()
    assert (bound.memory_bytes, bound.swap_bytes) == (64 * MIB, 16 * MIB)
    assert _v1("memory", bound, swaps=True) == {
        "memory.limit_in_bytes": str(64 * MIB),
        "memory.memsw.limit_in_bytes": str(80 * MIB),
    }


def test_version_2_bounds_swap_by_itself(tmp_path: Path) -> None:
    (tmp_path / "memory.swap.max").touch()
    [bound] = of_pools(swapping()).values()
    assert _v2(bound, tmp_path) == {"memory.max": str(64 * MIB), "memory.swap.max": str(16 * MIB)}
    [without] = of_pools(plan_of()).values()
    assert _v2(without, tmp_path) == {"memory.max": str(64 * MIB), "memory.swap.max": "0"}


@pytest.mark.parametrize(
    ("pool", "guest", "path", "what"),
    [
        ("by: affinity, swap: 16 MiB", "memory: 8 MiB", "pools.h1.cores.swap_bytes", "is not bounded"),
        ("by: affinity", "swap: 8 MiB", "guests.h1.app1.swap_bytes", "is not bounded"),
        ("memory: 64 MiB", "memory: 8 MiB, swap: 8 MiB", "guests.h1.app1.swap_bytes", "in a pool that has 0 B"),
        ("memory: 64 MiB, swap: 4 MiB", "memory: 8 MiB, swap: 8 MiB", "guests.h1.app1.swap_bytes", "that has 4194304 B"),
    ],
)  # fmt: skip
def test_swap_is_of_a_bounded_memory_and_no_more_than_the_pool_has(
    pool: str, guest: str, path: str, what: str
) -> None:
    plan = swapping(pool, guest)
    found = [one for one in mistakes(plan, "testbed", LayerTwo(plan)) if "swap" in one.path]
    assert found[0].path == path
    assert what in found[0].reason


def test_swap_of_a_machine_is_its_pools() -> None:
    with pytest.raises(ExperimentError, match="write 'swap' at their pool"):
        swapping(guest="platform: qemu, memory: 96 MiB, swap: 8 MiB")
    tight, guest = "memory: 512 MiB, swap: 447 MiB", "platform: qemu, memory: 256 MiB"
    [refusal] = pool_memory_refusals(swapping(tight, guest), 1 << 30, root=True)
    assert "512 MiB and 447 of swap" in refusal.reason
    assert not list(pool_memory_refusals(swapping(tight.replace("447", "448"), guest), 1 << 30, root=True))


@pytest.mark.parametrize(
    ("has", "accounts", "inside", "what", "cure"),
    [
        (0, True, None, "may have 16 MiB of swap together, and this machine has none", "swapon"),
        (16 * MIB - 1, True, None, "this machine has 16 MiB", "swapon"),
        (1 << 30, False, None, "does not bound what a control group has of swap", "swapaccount=1"),
        (1 << 30, True, "the laboratory machine", "no swap inside the laboratory machine", "--in"),
    ],
)
def test_swap_that_is_not_there_is_refused_with_the_cure(
    has: int, accounts: bool, inside: str | None, what: str, cure: str
) -> None:
    assert not list(swap_refusals(swapping(), 16 * MIB, accounts=True, inside=None))
    assert not list(swap_refusals(plan_of(), has, accounts=accounts, inside=inside)), "nothing wants any"
    [refusal] = swap_refusals(swapping(), has, accounts=accounts, inside=inside)
    assert refusal.path == "pools.h1.cores.swap_bytes"
    assert what in refusal.reason
    assert cure in refusal.cure


def test_a_container_is_told_its_memory_and_swap_together() -> None:
    limits = Limits(memory_bytes=32 * MIB, swaps=True, swap_bytes=8 * MIB)
    assert limits.json()["memory"] == {"limit": 32 * MIB, "swap": 40 * MIB}
    assert as_files(limits, version_2=True)["memory.swap.max"] == str(8 * MIB)
    assert as_files(limits, version_2=False)["memory.memsw.limit_in_bytes"] == str(40 * MIB)


def test_a_guest_with_a_larger_limit_than_its_pool_is_a_mistake() -> None:
    plan = plan_of("64 MiB", "memory: 65 MiB")
    assert {one.path for one in mistakes(plan, "testbed", LayerTwo(plan))} == {
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
    (first / "memory.stat").write_text(
        "pgfault 1\npgmajfault 0\ntotal_pgfault 7\ntotal_pgmajfault 2\ntotal_swap 12288\n"
        "total_workingset_refault_anon 3\n"
    )
    (second / "memory.current").write_text("4096\n")
    (second / "memory.peak").write_text("8192\n")
    (second / "memory.swap.current").write_text("12288\n")
    (second / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\n")
    (second / "memory.stat").write_text("anon 5\npgfault 7\npgmajfault 2\nworkingset_refault_anon 3\n")
    (second / "memory.pressure").write_text(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 total=1\n"
    )
    counted = {
        "memory_bytes": 4096, "memory_max_bytes": 8192, "memory_limit_hits": 3, "page_faults": 7, "major_page_faults": 2,
        "swap_bytes": 12288, "swapped_in_pages": 3,
    }  # fmt: skip
    assert dict(memory_of(first)) == counted
    assert dict(memory_of(second)) == counted | {"memory_stalled_ns": 5000}
    assert dict(memory_of(other)) == {}


def test_a_balloon_makes_room_for_machines_that_have_more_together_than_their_pool() -> None:
    guest = "platform: qemu, memory: 256 MiB, balloon: {} MiB"
    assert not list(pool_memory_refusals(plan_of("512 MiB", guest.format(150)), 1 << 30, root=True))
    [refusal] = pool_memory_refusals(plan_of("512 MiB", guest.format(144)), 1 << 30, root=True)
    assert "3 machines take 528 MiB" in refusal.reason
    assert "a larger 'balloon'" in refusal.cure


@pytest.mark.parametrize(
    ("guest", "what"),
    [
        ("platform: qemu, memory: 256 MiB, balloon: 256 MiB", "leaves nothing of its"),
        ("platform: qemu, balloon: 64 MiB", "how much memory it gives that back of is not said"),
    ],
)
def test_a_balloon_is_of_a_part_of_a_memory_that_is_said(guest: str, what: str) -> None:
    found = list(mistakes(plan_of("512 MiB", guest), "testbed", LayerTwo(plan_of("512 MiB", guest))))
    assert {one.path for one in found} == {f"guests.h1.app{number}.balloon_bytes" for number in (1, 2, 3)}
    assert all(what in one.reason for one in found)


def test_a_guest_without_a_kernel_of_its_own_has_no_balloon() -> None:
    with pytest.raises(ExperimentError, match="have no balloon to give memory back by"):
        plan_of("512 MiB", "memory: 256 MiB, balloon: 64 MiB")


def test_a_host_says_it_for_those_of_its_guests_that_can_have_one() -> None:
    text = FILE.replace("POOL", "512 MiB").replace("GUEST", "memory: 256 MiB")
    text = text.replace("hosts: {h1: {", "hosts: {h1: {balloon: 96 MiB, platform: qemu, ")
    text = text.replace("guests: {app", "guests: {beside: {platform: namespace, pool: none}, app")
    experiment = load_text(text)
    guests = plan_run(experiment, experiment.points()[0], 0).world.guests
    assert {name: guest.balloon_bytes for name, guest in guests.items() if guest.balloon_bytes} == {
        f"h1.app{number}": 96 * MIB for number in (1, 2, 3)
    }


def test_a_plan_without_balloons_says_nothing_of_them() -> None:
    assert "balloon" not in plan_of().canonical()


def test_what_a_balloon_leaves_has_to_be_enough_for_the_system_inside() -> None:
    plan = plan_of("512 MiB", "platform: qemu, memory: 256 MiB, balloon: 200 MiB")
    found = [
        one for one in machine_refusals("guests.h1.app1", "h1.app1", plan, HERE) if "balloon" in one.path
    ]
    assert any("leaves 56 MiB" in one.reason and "'64 MiB'" in one.cure for one in found)


def test_a_kernel_that_was_kept_without_the_driver_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "virtlab" / "images" / "cloud"
    (home / "modules").mkdir(parents=True)
    (home / "vmlinuz").write_bytes(b"kernel")
    (home / "kernel.json").write_text('{"version": "6.1", "package": "linux"}')
    plan = plan_of("512 MiB", "platform: qemu, memory: 256 MiB, balloon: 96 MiB")

    def about() -> list[str]:
        found = machine_refusals("guests.h1.app1", "h1.app1", plan, HERE)
        return [f"{one.reason}; {one.cure}" for one in found if one.path.endswith("balloon_bytes")]

    assert about() == [
        "the cloud kernel was kept here without virtio_balloon; run `virtlab image build --kernel cloud` again"
    ]
    (home / "modules" / "virtio_balloon.ko").write_bytes(b"module")
    assert about() == []
