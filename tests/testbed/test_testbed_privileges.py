"""An ordinary user builds the same worlds; root adds control groups, kept in a ledger."""

from __future__ import annotations

import os
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy  # noqa: F401 - loaded before the identity changes: the interpreter may lie where only root reads
import pytest
import testbed_world as worlds

from virtlab import _native  # noqa: F401 - as above
from virtlab.plan import Trial
from virtlab.testbed import Testbed, refusals, session  # noqa: F401 - as above
from virtlab.testbed.build.machine import findings
from virtlab.testbed.leader import groups, ledger
from virtlab.testbed.leader.memory_accounts import CGROUP_ROOT

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, to become somebody else or to make control groups"
)
NOBODY = 65534


def as_nobody(work: Callable[[], None]) -> str:
    """Runs `work` in a child of the user nobody; what it raised, or an empty text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            findings.cache_clear()
            work()
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-8000:])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said.decode()


@ROOT
@pytest.mark.parametrize("shape", ["bridged", "native", "routed"])
def test_an_ordinary_user_plays_the_same_plan(shape: str) -> None:
    plan = worlds.echo_plan(getattr(worlds, shape)())

    def work() -> None:
        assert Testbed().check(plan) == []
        with Testbed().open(plan, worlds.Patient()) as built:
            sink = worlds.MemorySink()
            outcome = built.run(Trial("t0", 1), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") > 0

    assert as_nobody(work) == ""


@ROOT
def test_an_ordinary_user_is_told_what_needs_root() -> None:
    world = worlds.bridged()
    world["guests"]["a"]["cpu_quota_ratio"] = 0.5

    def work() -> None:
        found = Testbed().check(worlds.plan(world))
        assert [(refusal.path, refusal.cure) for refusal in found] == [
            ("guests.a.cpu_quota_ratio", "run as root")
        ]

    assert as_nobody(work) == ""


def has_control_groups() -> bool:
    root = CGROUP_ROOT
    return (root / "cgroup.controllers").exists() or ((root / "cpu").is_dir() and (root / "memory").is_dir())


@ROOT
@pytest.mark.skipif(not has_control_groups(), reason="no control groups for CPU and memory are mounted here")
def test_limits_of_a_guest_hold_while_the_session_lives_and_are_gone_afterwards(tmp_path: Path) -> None:
    world = worlds.bridged()
    world["guests"]["a"] |= {"cpu_quota_ratio": 0.25, "memory_bytes": 64 << 20}
    plan = worlds.plan(world)
    assert Testbed().check(plan) == []
    made = groups.Groups(folder=tmp_path)
    tasks = made.create(plan, rootless=False)["a"]
    directories = {Path(task).parent for task in tasks}
    assert all(directory.is_dir() for directory in directories)
    has = made.read_back["a"]
    assert has.get("cpu.cfs_quota_us") == "25000" or has.get("cpu.max") == "25000 100000"
    assert str(64 << 20) in has.values()
    assert len(list(tmp_path.glob("*.json"))) == 1
    burn = [
        "sh",
        "-c",
        "for file; do echo $$ > $file || exit 1; done; timeout 0.6 sh -c 'while :; do :; done'",
        "-",
    ]
    subprocess.run([*burn, *tasks], check=False)
    counted = {(entity, counter): value for entity, counter, value in made.counters()}
    assert {entity for entity, _ in counted} == {"guests.a"}
    assert counted["guests.a", "throttled_ns"] > 0, "a quarter of a processor was less than it wanted"
    assert counted["guests.a", "page_faults"] > 0
    made.remove()
    assert not any(directory.exists() for directory in directories)
    assert list(tmp_path.glob("*.json")) == []


@ROOT
@pytest.mark.skipif(not has_control_groups(), reason="no control groups for CPU and memory are mounted here")
def test_a_guest_with_limits_plays(tmp_path: Path) -> None:
    world = worlds.bridged()
    world["guests"]["a"] |= {"cpu_quota_ratio": 0.9, "memory_bytes": 256 << 20}
    with Testbed().open(worlds.echo_plan(world), worlds.Patient()) as built:
        sink = worlds.MemorySink()
        outcome = built.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert built.realised.objects["guests.a"].read_back


def test_the_ledger_sweeps_what_a_dead_owner_left_and_nothing_else(tmp_path: Path) -> None:
    left, lives = tmp_path / "left", tmp_path / "lives"
    folder = tmp_path / "ledger"
    child = os.fork()
    if child == 0:
        entry = ledger.open_entry(folder)
        entry.plan(left)
        left.mkdir()
        os._exit(0)  # dies without closing
    os.waitpid(child, 0)
    living = ledger.open_entry(folder)
    living.plan(lives)
    lives.mkdir()
    assert ledger.sweep(folder) == [str(left)]
    assert not left.exists()
    assert lives.is_dir()
    living.close()
    assert not lives.exists()
    assert list(folder.glob("*.json")) == []
