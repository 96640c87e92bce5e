"""A cgroup with a CPU quota around one process: the guest's budget where SCHED_DEADLINE is not allowed.

A cgroup directory outlives its maker. So it is written down (boot, owner and its start time, path) before it is
made, and the next process removes those whose owner is gone: by that record, never by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.units import show_time


def ledger() -> Path:
    """Where directories that outlive a process are written down."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "virtlab" / "rt-quota"


@contextmanager
def quota_group(period_ns: int, budget_ns: int) -> Iterator[Callable[[int], None]]:
    """A group with `budget_ns` each `period_ns`; yields what moves a process into it. MachineError when refused."""
    if not 1_000_000 <= period_ns <= 1_000_000_000 or budget_ns < 1_000_000:
        raise MachineError(
            "cgroup quota",
            f"the kernel takes periods of 1 ms to 1 s and quotas of at least 1 ms, not {show_time(budget_ns)} in"
            f" {show_time(period_ns)}",
            "choose others, or use SCHED_DEADLINE (--by deadline)",
        )
    sweep()
    parent, unified = _parent()
    path = parent / f"virtlab-rt-{os.getpid()}"
    try:
        record = _write_down(path)
    except OSError as error:
        raise MachineError(
            str(ledger()), f"cannot be written: {error.strerror}", "set XDG_STATE_HOME to a folder of yours"
        ) from None
    try:
        try:
            path.mkdir()
            if unified:
                (path / "cpu.max").write_text(f"{budget_ns // 1000} {period_ns // 1000}")
            else:
                (path / "cpu.cfs_period_us").write_text(str(period_ns // 1000))
                (path / "cpu.cfs_quota_us").write_text(str(budget_ns // 1000))
        except OSError as error:
            raise MachineError(
                str(path),
                f"a cgroup with a CPU quota is refused: {error.strerror}",
                "run as root, or have it delegated",
            ) from None
        yield lambda process: _join(path, process)
    finally:
        _remove(path)
        record.unlink(missing_ok=True)


def sweep() -> list[Path]:
    """Removes groups whose owner is gone; the paths that were removed."""
    removed = []
    for record in sorted(ledger().glob("*.json")):
        try:
            entry = json.loads(record.read_text())
            if entry["boot"] == _boot() and _start_of(entry["owner"]) == entry["started"]:
                continue
            path = Path(entry["path"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        _remove(path)
        if not path.exists():
            with suppress(OSError):
                record.unlink()
            removed.append(path)
    return removed


def _join(path: Path, process: int) -> None:
    try:
        (path / "cgroup.procs").write_text(str(process))
    except OSError as error:
        raise MachineError(
            str(path), f"a process cannot be moved into it: {error.strerror}", "run as root"
        ) from None


def _parent() -> tuple[Path, bool]:
    """The group of this process that has a CPU controller, and whether it is of the unified hierarchy."""
    groups = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    for root in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpu,cpuacct")):
        if "cpu" in groups and (root / "cpu.cfs_quota_us").parent.is_dir() and (root / "tasks").exists():
            return root / groups["cpu"].lstrip("/"), False
    unified = Path("/sys/fs/cgroup") / groups.get("", "/").lstrip("/")
    if (unified / "cgroup.controllers").exists() and "cpu" in (
        unified / "cgroup.subtree_control"
    ).read_text():
        return unified, True
    raise MachineError(
        "cgroup quota", "no CPU controller can be used by this process", "run as root, or use SCHED_DEADLINE"
    )


def _write_down(path: Path) -> Path:
    ledger().mkdir(parents=True, exist_ok=True)
    record = ledger() / f"{path.name}.json"
    entry = {"boot": _boot(), "owner": os.getpid(), "started": _start_of(os.getpid()), "path": str(path)}
    with record.open("w") as file:
        json.dump(entry, file)
        file.flush()
        os.fsync(file.fileno())
    return record


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_of(process: int) -> str | None:
    """When a process started, in ticks since boot; None if none exists."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None
