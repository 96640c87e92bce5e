"""Control groups that bound a guest's CPU and memory: root only, and the one thing of a run that outlives its processes.

Version 1 (a hierarchy per controller) and version 2 (one for all). What is made is in the ledger before it is made.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from virtlab.catalogue import PLATFORMS, WORKLOADS
from virtlab.errors import MachineError
from virtlab.plan import Guest, Plan
from virtlab.planner.check import QUOTA_PERIOD_NS
from virtlab.testbed.leader import ledger
from virtlab.testbed.leader.memory_accounts import CGROUP_ROOT, accounts_for_swap, hierarchies

PERIOD_US = QUOTA_PERIOD_NS // 1000


class Bounds(Protocol):
    """The control groups of one session, wherever they are made."""

    read_back: dict[str, dict[str, str]]  # guest -> file -> value

    def create(self, plan: Plan, *, rootless: bool) -> dict[str, list[str]]:
        """Makes the groups that guests need; guest -> files that a process joins by."""

    def of_containers(self, guests: Sequence[str]) -> dict[str, str]:
        """Paths of groups that a container runtime is about to make, one per guest."""

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value): how long the share of a guest that is no container held it back."""

    def remove(self) -> None:
        """Removes all; a second call does nothing."""


@dataclass(slots=True)
class Groups:
    """The control groups of one session."""

    root: Path = CGROUP_ROOT
    folder: Path = ledger.ROOT_LEDGER
    read_back: dict[str, dict[str, str]] = field(default_factory=dict)  # guest -> file -> value
    _entry: ledger.Entry | None = None
    _bandwidth: dict[str, tuple[int, int]] = field(default_factory=dict)  # guest -> quota and period, us
    _groups: dict[str, list[Path]] = field(default_factory=dict)  # guest -> its groups, one of each hierarchy

    def create(self, plan: Plan, *, rootless: bool) -> dict[str, list[str]]:
        """Makes the groups that the Plan's guests need; guest -> files that a process joins by. MachineError if not."""
        self._bandwidth = bandwidths(plan)
        bounded = {
            name: guest
            for name, guest in plan.world.guests.items()
            if not PLATFORMS[guest.platform].own_groups
            and (name in self._bandwidth or _memory_bytes(guest) is not None)
        }
        if not bounded:
            return {}
        if rootless:
            raise MachineError("guests", "control groups can only be made by root here", "run as root")
        self._open()
        name = f"virtlab-{uuid.uuid4().hex[:12]}"
        try:
            if (self.root / "cgroup.controllers").exists():
                return self._version_2(name, bounded)
            return self._version_1(name, bounded)
        except OSError as error:
            self.remove()
            raise MachineError(
                "guests",
                f"a control group cannot be made ({error})",
                "see `virtlab doctor` about control groups",
            ) from error

    def of_containers(self, guests: Sequence[str]) -> dict[str, str]:
        """Paths of groups that a container runtime is about to make, one per guest, in every hierarchy; root only."""
        entry = self._open()
        name = f"virtlab-{uuid.uuid4().hex[:12]}"
        for hierarchy in hierarchies(self.root):
            for directory in (hierarchy / name, *(hierarchy / name / guest for guest in guests)):
                entry.directories.append(str(directory))
        entry.write()
        return {guest: f"/{name}/{guest}" for guest in guests}

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value): how long the share of a guest that is no container held it back."""
        for guest, groups in self._groups.items():
            for group in groups:
                with contextlib.suppress(OSError):
                    for counter, value in throttled((group / "cpu.stat").read_text(encoding="ascii")):
                        yield f"guests.{guest}", counter, value

    def remove(self) -> None:
        """Removes all; a second call does nothing."""
        self._groups.clear()
        if self._entry is not None:
            self._entry.close()
            self._entry = None

    def _open(self) -> ledger.Entry:
        if self._entry is None:
            ledger.sweep(self.folder)
            self._entry = ledger.open_entry(self.folder)
        return self._entry

    def _version_1(self, name: str, bounded: dict[str, Guest]) -> dict[str, list[str]]:
        tasks: dict[str, list[str]] = {guest: [] for guest in bounded}
        swaps = accounts_for_swap(self.root)
        for controller in ("cpu", "memory"):
            wanted = {
                guest: values
                for guest, each in bounded.items()
                if (values := _v1(controller, each, self._bandwidth.get(guest), swaps=swaps))
            }
            if not wanted:
                continue
            session = self._own_v1(controller) / name
            self._make(session)
            for guest, values in wanted.items():
                tasks[guest].append(str(self._bound(session, guest, values) / "tasks"))
        return tasks

    def _own_v1(self, controller: str) -> Path:
        """Where groups of a controller go: under the own group where it shows, else at the top."""
        mounted = self.root / controller
        if not mounted.is_dir():
            raise OSError(f"no control group hierarchy '{controller}' at {mounted}")
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, own = line.split(":", 2)
            if controller in controllers.split(",") and (mounted / own.lstrip("/")).is_dir():
                return mounted / own.lstrip("/")
        return mounted

    def _version_2(self, name: str, bounded: dict[str, Guest]) -> dict[str, list[str]]:
        (self.root / "cgroup.subtree_control").write_text("+cpu +memory", encoding="ascii")
        session = self.root / name
        self._make(session)
        (session / "cgroup.subtree_control").write_text("+cpu +memory", encoding="ascii")
        tasks = {}
        for guest, entry in bounded.items():
            values: dict[str, str] = {}
            if guest in self._bandwidth:
                values["cpu.max"] = "{} {}".format(*self._bandwidth[guest])
            if (memory_bytes := _memory_bytes(entry)) is not None:
                values["memory.max"] = str(memory_bytes)
                if (session / "memory.swap.max").exists():
                    values["memory.swap.max"] = "0"
            tasks[guest] = [str(self._bound(session, guest, values) / "cgroup.procs")]
        return tasks

    def _bound(self, session: Path, guest: str, values: dict[str, str]) -> Path:
        group = session / guest
        self._make(group)
        self._groups.setdefault(guest, []).append(group)
        for file, value in values.items():
            (group / file).write_text(value, encoding="ascii")
            has = (group / file).read_text(encoding="ascii").strip()
            self.read_back.setdefault(guest, {})[file] = has
            if has != value:
                raise OSError(f"{file} of guest {guest} reads {has}, not {value}")
        return group

    def _make(self, directory: Path) -> None:
        assert self._entry is not None
        self._entry.plan(directory)
        directory.mkdir()


def throttled(stat: str) -> Iterator[tuple[str, int]]:
    """`throttled_ns` in a `cpu.stat`: version 1 has nanoseconds, version 2 microseconds.

    >>> list(throttled("nr_periods 7\\nthrottled_time 1200\\n")), list(throttled("throttled_usec 3\\n"))
    ([('throttled_ns', 1200)], [('throttled_ns', 3000)])
    """
    for line in stat.splitlines():
        key, _, value = line.partition(" ")
        if key in {"throttled_time", "throttled_usec"} and value.isdigit():
            yield "throttled_ns", int(value) * (1000 if key.endswith("usec") else 1)


def bandwidths(plan: Plan) -> dict[str, tuple[int, int]]:
    """Quota and period of guests, us: their own share, or the budget of hard-deadline tasks inside."""
    found = {
        name: (round(guest.cpu_quota_ratio * PERIOD_US), PERIOD_US)
        for name, guest in plan.world.guests.items()
        if guest.cpu_quota_ratio is not None
    }
    for role in plan.roles.values():
        if (quota_us := WORKLOADS[role.workload].quota_us(role.parameters)) is not None:
            found[str(role.from_)] = quota_us
    return found


def _memory_bytes(guest: Guest) -> int | None:
    """What a group has to bound. A virtual machine has its memory from the start, and needs more around it."""
    return guest.memory_bytes if PLATFORMS[guest.platform].shares_kernel else None


def _v1(controller: str, guest: Guest, bandwidth: tuple[int, int] | None, *, swaps: bool) -> dict[str, str]:
    if controller == "cpu" and bandwidth is not None:
        return {"cpu.cfs_period_us": str(bandwidth[1]), "cpu.cfs_quota_us": str(bandwidth[0])}
    memory_bytes = _memory_bytes(guest)
    if controller == "memory" and memory_bytes is not None:
        pages = memory_bytes // 4096 * 4096
        # Memory and swap together, which cannot be less than memory alone: it is written after that.
        both = {"memory.memsw.limit_in_bytes": str(pages)} if swaps else {}
        return {"memory.limit_in_bytes": str(pages), **both}
    return {}
