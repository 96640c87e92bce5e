"""Where the control groups of services are, in both versions: a plain folder stands for the kernel's, which keeps what is
written to it."""

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


def test_where_nothing_is_bounded_no_group_is_made(tmp_path: Path) -> None:
    made = groups.Groups(root=tmp_path / "none", folder=tmp_path / "ledger")
    assert made.create(plan({}), rootless=False) == {}
    assert not (tmp_path / "ledger").exists()
