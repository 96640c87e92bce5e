"""Where the control groups of services are, in both versions: a plain folder stands for the kernel's, which keeps what
is written to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from virtlab.plan import Plan
from virtlab.testbed.leader import groups

MEMORY_BYTES = 64 << 20


def plan(service: dict[str, Any], **guest: Any) -> Plan:
    guests = {name: {"platform": "namespace", "host": "h", "vnics": {}} for name in ("a", "b")}
    guests["b"] |= guest
    db = {"kind": "program", "on": ["b"], "argv": ["sleep", "9"], **service}
    free = {"kind": "program", "on": ["b"], "argv": ["sleep", "9"]}
    return Plan.model_validate(
        {"world": {"hosts": {"h": {}}, "guests": guests, "services": {"db": db, "free": free}}}
    )


def written(root: Path) -> dict[str, str]:
    """Every file below, by its path without the session's name."""
    return {
        "/".join(("*" if word.startswith("virtlab-") else word) for word in path.relative_to(root).parts):
        path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.parent != root
    }  # fmt: skip


def joined(tasks: dict[str, list[str]], root: Path) -> dict[str, list[str]]:
    return {
        name: ["/".join(("*" if word.startswith("virtlab-") else word) for word in Path(each).relative_to(root).parts)
               for each in files]
        for name, files in tasks.items()
    }  # fmt: skip


def test_version_2_has_a_guests_own_processes_beside_its_services(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu memory")
    made = groups.Groups(root=root, folder=tmp_path / "ledger")
    limits = {"cpu_quota_ratio": 0.5, "memory_bytes": MEMORY_BYTES}
    tasks = made.create(plan(limits, cpu_quota_ratio=1.0), rootless=False)
    assert written(root) == {
        "*/cgroup.subtree_control": "+cpu +memory",
        "*/b/cpu.max": "100000 100000",
        "*/b/cgroup.subtree_control": "+cpu +memory",
        "*/b/service-db/cpu.max": "50000 100000",
        "*/b/service-db/memory.max": str(MEMORY_BYTES),
    }
    assert joined(tasks, root) == {
        "b": ["*/b/own/cgroup.procs"],
        "services.db/b": ["*/b/service-db/cgroup.procs"],
    }
    assert made.read_back["services.db/b"] == {"cpu.max": "50000 100000", "memory.max": str(MEMORY_BYTES)}


@pytest.mark.parametrize("guest", [{}, {"memory_bytes": 2 * MEMORY_BYTES}])
def test_version_1_has_a_group_of_each_controller_that_bounds_something(
    tmp_path: Path, guest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    for controller in ("cpu", "memory"):
        (root / controller).mkdir(parents=True)
    monkeypatch.setattr(groups.Groups, "_own_v1", lambda self, controller: self.root / controller)
    made = groups.Groups(root=root, folder=tmp_path / "ledger")
    tasks = made.create(plan({"cpu_quota_ratio": 0.5}, **guest), rootless=False)
    found = written(root)
    assert found["cpu/*/b/service-db/cpu.cfs_quota_us"] == "50000"
    bounded = {"memory/*/b/memory.limit_in_bytes": str(2 * MEMORY_BYTES)} if guest else {}
    assert {path: value for path, value in found.items() if path.startswith("memory/")} == bounded
    of_guest = ["memory/*/b/tasks"] if guest else []
    assert joined(tasks, root) == {
        "b": ["cpu/*/b/tasks", *of_guest],
        "services.db/b": ["cpu/*/b/service-db/tasks", *of_guest],
    }


SHARE = groups.Bound((5000, 100_000), MEMORY_BYTES, "c", "service-db")


def container(root: Path, *hierarchies: str) -> None:
    """The groups that a runtime made of a container with two processes."""
    for hierarchy in hierarchies:
        (root / hierarchy / "made" / "c").mkdir(parents=True)
        (root / hierarchy / "made" / "c" / "cgroup.procs").write_text("40\n41\n")


def test_the_group_of_a_service_is_below_that_of_its_container(tmp_path: Path) -> None:
    root = tmp_path / "root"
    container(root, "cpu", "memory")
    made = groups.Groups(root=root, folder=tmp_path / "ledger")
    made.below("/made/c", "services.db/c", SHARE)
    assert made.read_back["services.db/c"] == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "5000",
        "memory.limit_in_bytes": str(MEMORY_BYTES),
    }
    (noted,) = (tmp_path / "ledger").glob("*.json")
    assert "/cpu/made/c/service-db" in noted.read_text(), "noted before it is made, for whoever sweeps"
    groups_of = [root / each / "made" / "c" / "service-db" for each in ("cpu", "memory")]
    assert all(each.is_dir() for each in groups_of)


def test_a_container_of_version_2_has_its_own_processes_beside_its_services(tmp_path: Path) -> None:
    root = tmp_path / "root"
    container(root, ".")
    (root / "cgroup.controllers").write_text("cpu memory")
    made = groups.Groups(root=root, folder=tmp_path / "ledger")
    made.below("/made/c", "services.db/c", SHARE)
    made.below("/made/c", "services.free/c", groups.Bound(None, MEMORY_BYTES, "c", "service-free"))
    whole = root / "made" / "c"
    assert (whole / "own" / "cgroup.procs").read_text() == "41", "the last that was written there"
    assert (whole / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (whole / "service-db" / "cpu.max").read_text() == "5000 100000"
    assert not (whole / "service-free" / "cpu.max").exists()


def test_a_process_of_a_container_is_found_by_its_number_inside(tmp_path: Path) -> None:
    container(tmp_path, ".")
    for number, inside in (("40", 1), ("41", 7)):
        (tmp_path / "proc" / number).mkdir(parents=True)
        (tmp_path / "proc" / number / "status").write_text(f"Name:\tx\nNSpid:\t{number}\t3\t{inside}\n")
    found = [groups.process_of(tmp_path / "made" / "c", inside, tmp_path / "proc") for inside in (1, 7, 3)]
    assert found == [40, 41, None]


def test_where_nothing_is_bounded_no_group_is_made(tmp_path: Path) -> None:
    made = groups.Groups(root=tmp_path / "none", folder=tmp_path / "ledger")
    assert made.create(plan({}), rootless=False) == {}
    assert not (tmp_path / "ledger").exists()
