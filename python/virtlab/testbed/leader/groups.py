"""Control groups that bound CPU and memory of guests and services: root only, and the one thing of a run that outlives
its processes.

Version 1 (a hierarchy per controller) and version 2 (one for all). What is made is in the ledger before it is made. The
group of a service is below its guest's, also below that of a container, which its runtime made; that of a guest is
below its pool's, if the pool is a quota. Version 2 has processes in groups without groups below them alone: there the
guest's own are in one beside the services'.

Where guests of a pool have weights, each has a group below their pool's, and so competes with those of the pool alone.
Version 1 has no fractions of its default (1024), so it is given ten times the weight, which is exact between
neighbours.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from virtlab.catalogue import PLATFORMS, WORKLOADS
from virtlab.errors import MachineError
from virtlab.plan import Guest, Plan
from virtlab.planner.check import LIMITS, QUOTA_PERIOD_NS
from virtlab.planner.guests.weights import WEIGHT, weights
from virtlab.testbed.leader import ledger
from virtlab.testbed.leader.memory_accounts import CGROUP_ROOT, accounts_for_swap, hierarchies, memory_of
from virtlab.units import PAGE_BYTES

PERIOD_US = QUOTA_PERIOD_NS // 1000
OWN_GROUPS = Path("/proc/self/cgroup")
OWN = "own"  # below a guest's group in version 2, beside those of its services
SHARES_OF_WEIGHT = 10  # cpu.shares, 2 to 262144, for each 1 of cpu.weight, 1 to 10000
Bandwidth = tuple[int, int]  # quota and period, us


@dataclass(frozen=True, slots=True)
class Bound:
    """What a group holds its processes to. `above`: what is bounded by the group that it is below: the guest of a
    service, the pool of a guest.
    """

    bandwidth: Bandwidth | None
    memory_bytes: int | None
    above: str | None = None
    folder: str = ""  # its own
    weight: int | None = None  # against others below the same
    swap_bytes: int = 0  # beyond its memory

    @property
    def limits(self) -> dict[str, Any]:
        """As a Plan says them."""
        share = self.bandwidth[0] / self.bandwidth[1] if self.bandwidth is not None else None
        return {
            key: value
            for key, value in zip(LIMITS, (share, self.memory_bytes), strict=True)
            if value is not None
        }

    @property
    def is_one(self) -> bool:
        """Whether it bounds or weighs anything."""
        return self.bandwidth is not None or self.memory_bytes is not None or self.weight is not None


class Bounds(Protocol):
    """The control groups of one session, wherever they are made."""

    read_back: dict[str, dict[str, str]]  # guest, services.NAME/GUEST or pools.NAME -> file -> value

    def create(self, plan: Plan, *, rootless: bool) -> dict[str, list[str]]:
        """Makes the groups that guests and services (`services.NAME/GUEST`) need; -> files that a process joins by."""

    def of_containers(self, guests: Sequence[str]) -> dict[str, str]:
        """Paths of groups that a container runtime is about to make, one per guest."""

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value): how long the share of a guest that is no container, or of a pool, held it back."""

    def below(self, path: str, bounded: str, bound: Bound) -> None:
        """Makes a service's group below that of its container, which has that path in every hierarchy."""

    def weigh(self, path: str, guest: str, weight: int) -> dict[str, str]:
        """Gives a container's group, of that path, its weight; file -> value as the kernel has it."""

    def join(self, bounded: str, process: int) -> None:
        """Puts a process of such a container, by its number inside, into the groups made by `below`."""

    def ended_for_memory(self, bounded: str) -> int:
        """How many processes of a guest, or of `services.NAME/GUEST`, the kernel ended since its memory was used up."""

    def remove(self) -> None:
        """Removes all; a second call does nothing."""


@dataclass(slots=True)
class Groups:
    """The control groups of one session."""

    root: Path = CGROUP_ROOT
    folder: Path = ledger.ROOT_LEDGER
    read_back: dict[str, dict[str, str]] = field(default_factory=dict)  # guest -> file -> value
    _entry: ledger.Entry | None = None
    _groups: dict[str, list[Path]] = field(
        default_factory=dict
    )  # bounded -> its groups, one of each hierarchy
    _shared: dict[str, Bound] = field(default_factory=dict)  # pools.NAME -> what its guests share
    _remembering: set[str] = field(default_factory=set)  # guests and pools whose memory is bounded
    _pooled: dict[str, str] = field(default_factory=dict)  # container -> the path of its pool's group
    _for_containers: bool = False  # whether a runtime makes groups below those of pools

    def create(self, plan: Plan, *, rootless: bool) -> dict[str, list[str]]:
        """Makes the groups that the Plan's guests and services need; -> files that a process joins by. MachineError if
        they cannot be made.
        """
        shares, weighed = bandwidths(plan), weights(plan)
        self._shared = of_pools(plan)
        self._remembering = {name for name, each in self._shared.items() if each.memory_bytes is not None}
        self._remembering |= {
            name for name, guest in plan.world.guests.items() if guest.memory_bytes is not None
        }
        bounded = dict(self._shared)  # what is above others is before them
        bounded |= {
            name: Bound(
                shares.get(name),
                _memory_bytes(guest),
                pool_above(plan, guest),
                name,
                weighed.get(name),
                guest.swap_bytes or 0,
            )
            for name, guest in plan.world.guests.items()
            if not PLATFORMS[guest.platform].own_groups
        }
        bounded |= {
            name: each
            for name, each in of_services(plan).items()
            if PLATFORMS[plan.world.guests[str(each.above)].platform].shares_files
        }
        above = {each.above for each in bounded.values() if each.is_one}
        bounded = {
            name: each
            for name, each in bounded.items()
            if each.is_one or name in above or each.above in self._shared
        }
        if not bounded:
            return {}
        if rootless:
            raise MachineError("guests", "control groups can only be made by root here", "run as root")
        self._open()
        name = f"virtlab-{uuid.uuid4().hex[:12]}"
        self._for_containers = any(
            PLATFORMS[guest.platform].own_groups and pool_above(plan, guest)
            for guest in plan.world.guests.values()
        )
        try:
            joined = self._version_2 if (self.root / "cgroup.controllers").exists() else self._version_1
            tasks = {one: files for one, files in joined(name, bounded).items() if one not in self._shared}
        except OSError as error:
            self.remove()
            raise MachineError(
                "guests",
                f"a control group cannot be made ({error})",
                "see `virtlab doctor` about control groups",
            ) from error
        for name, guest in plan.world.guests.items():
            for group in self._groups.get(pool_above(plan, guest) or "", ()):
                hierarchy = next(each for each in hierarchies(self.root) if group.is_relative_to(each))
                self._pooled[name] = f"/{group.relative_to(hierarchy)}"
        return tasks

    def of_containers(self, guests: Sequence[str]) -> dict[str, str]:
        """Paths of groups that a container runtime is about to make, one per guest, in every hierarchy; root only."""
        entry = self._open()
        name = f"virtlab-{uuid.uuid4().hex[:12]}"
        found = {guest: f"{self._pooled.get(guest, f'/{name}')}/{guest}" for guest in guests}
        planned: dict[Path, None] = {}
        for hierarchy in hierarchies(self.root):
            for path in found.values():
                for directory in reversed([Path(path), *Path(path).parents][:-1]):
                    planned[hierarchy / directory.relative_to("/")] = None
        # What is there already is not ours to remove, or noted.
        entry.plan(*(each for each in planned if not each.exists()))
        return found

    def below(self, path: str, bounded: str, bound: Bound) -> None:
        """Makes a service's group below that of its container, which has that path in every hierarchy. MachineError if
        it cannot be made.
        """
        self._open()
        try:
            if (self.root / "cgroup.controllers").exists():
                container = self.root / path.lstrip("/")
                _make_room(container, self._make)
                self._bound(container / bound.folder, bounded, _v2(bound, container))
                return
            swaps = accounts_for_swap(self.root)
            for controller in ("cpu", "memory"):
                if values := _v1(controller, bound, swaps=swaps):
                    group = self.root / controller / path.lstrip("/") / bound.folder
                    self._bound(group, bounded, values)
        except OSError as error:
            what = f"a control group below that of its container cannot be made ({error})"
            raise MachineError(
                bounded.partition("/")[0], what, "see `virtlab doctor` about control groups"
            ) from error

    def weigh(self, path: str, guest: str, weight: int) -> dict[str, str]:
        """Gives a container's group, of that path, its weight; file -> value as the kernel has it. MachineError if it
        cannot be given.
        """
        version_2 = (self.root / "cgroup.controllers").exists()
        group = (self.root if version_2 else self.root / "cpu") / path.lstrip("/")
        ((file, value),) = (_weight_v2(weight) if version_2 else _weight_v1(weight)).items()
        try:
            (group / file).write_text(value, encoding="ascii")
            has = (group / file).read_text(encoding="ascii").strip()
        except OSError as error:
            what = f"its control group cannot be given a weight ({error})"
            raise MachineError(
                f"guests.{guest}.weight", what, "see `virtlab doctor` about control groups"
            ) from error
        if has != value:
            what = f"{file} of its control group reads {has}, not {value}"
            raise MachineError(f"guests.{guest}.weight", what, "see `virtlab doctor` about control groups")
        return {file: has}

    def join(self, bounded: str, process: int) -> None:
        """Puts a process of such a container, by its number inside, into the groups made by `below`. MachineError if
        that is not possible.
        """
        where = bounded.partition("/")[0]
        for group in self._groups[bounded]:
            found = process_of(group.parent, process)
            if found is None:
                what = f"process {process} of its container is not in {group.parent}"
                raise MachineError(where, what, "see `virtlab doctor` about control groups")
            try:
                (group / "cgroup.procs").write_text(str(found), encoding="ascii")
            except OSError as error:
                what = f"it cannot be put into its control group ({error})"
                raise MachineError(where, what, "see `virtlab doctor` about control groups") from error

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value): how long the share of a guest that is no container, or of a service, held it
        back; of a guest or pool whose memory is bounded, what they have of it, and what they waited for.
        """
        for bounded, groups in self._groups.items():
            entity = bounded if "/" in bounded or bounded in self._shared else f"guests.{bounded}"
            for group in groups:
                with contextlib.suppress(OSError):
                    for counter, value in throttled((group / "cpu.stat").read_text(encoding="ascii")):
                        yield entity, counter, value
                if bounded in self._remembering:
                    yield from ((entity, *row) for row in memory_of(group))

    def ended_for_memory(self, bounded: str) -> int:
        """How many processes of a guest, or of `services.NAME/GUEST`, the kernel ended since its memory was used up."""
        found = 0
        for group in self._groups.get(bounded, ()):
            for file in ("memory.oom_control", "memory.events"):
                with contextlib.suppress(OSError):
                    found += ended((group / file).read_text(encoding="ascii"))
        return found

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

    def _version_1(self, name: str, bounded: dict[str, Bound]) -> dict[str, list[str]]:
        tasks: dict[str, list[str]] = {each: [] for each in bounded}
        swaps = accounts_for_swap(self.root)
        for controller in ("cpu", "memory"):
            wanted = {
                one: values for one, each in bounded.items() if (values := _v1(controller, each, swaps=swaps))
            }
            above = {bounded[one].above for one in wanted}
            if not wanted:
                continue
            session = self._own_v1(controller) / name
            self._make(session)
            made: dict[str | None, Path] = {}  # with that of what is above, where it has none of its own
            for one, each in bounded.items():
                group = made.get(each.above, session)
                if one in wanted or one in above:
                    group = self._bound(group / each.folder, one, wanted.get(one, {}))
                made[one] = group
                if group != session:
                    tasks[one].append(str(group / "tasks"))
        return tasks

    def _own_v1(self, controller: str) -> Path:
        """Where groups of a controller go: under the own group where it shows, else at the top.

        A container's group has one path in all hierarchies, and the own group may have several: above containers it is
        the top, where those in no pool are, too.
        """
        mounted = self.root / controller
        if not mounted.is_dir():
            raise OSError(f"no control group hierarchy '{controller}' at {mounted}")
        if self._for_containers:
            return mounted
        for line in OWN_GROUPS.read_text(encoding="utf-8").splitlines():
            _, controllers, own = line.split(":", 2)
            if controller in controllers.split(",") and (mounted / own.lstrip("/")).is_dir():
                return mounted / own.lstrip("/")
        return mounted

    def _version_2(self, name: str, bounded: dict[str, Bound]) -> dict[str, list[str]]:
        (self.root / "cgroup.subtree_control").write_text("+cpu +memory", encoding="ascii")
        session = self.root / name
        self._make(session)
        (session / "cgroup.subtree_control").write_text("+cpu +memory", encoding="ascii")
        tasks = {}
        above = {each.above for each in bounded.values()}
        made: dict[str | None, Path] = {}
        for one, each in bounded.items():
            group = self._bound(made.get(each.above, session) / each.folder, one, _v2(each, session))
            made[one] = group
            if one in above or one in self._shared:
                (group / "cgroup.subtree_control").write_text("+cpu +memory", encoding="ascii")
            if one in self._shared:
                continue  # its guests have groups, and it no process of its own
            if one in above:
                group = group / OWN
                self._make(group)
            tasks[one] = [str(group / "cgroup.procs")]
        return tasks

    def _bound(self, group: Path, bounded: str, values: dict[str, str]) -> Path:
        self._make(group)
        self._groups.setdefault(bounded, []).append(group)
        for file, value in values.items():
            (group / file).write_text(value, encoding="ascii")
            has = (group / file).read_text(encoding="ascii").strip()
            self.read_back.setdefault(bounded, {})[file] = has
            if has != value:
                raise OSError(f"{file} of {bounded} reads {has}, not {value}")
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


def ended(events: str) -> int:
    """Processes that the kernel ended for want of memory, as `memory.oom_control` or `memory.events` counts them.

    >>> ended("under_oom 0\\noom_kill 2\\n"), ended("oom 1\\noom_kill 1\\n")
    (2, 1)
    """
    words = [line.partition(" ") for line in events.splitlines()]
    return sum(int(value) for key, _, value in words if key == "oom_kill")


def of_pools(plan: Plan) -> dict[str, Bound]:
    """The bounds of pools that are quotas, or have memory of their own, or guests with weights, as `pools.NAME`."""
    found = {}
    weighed = {str(plan.world.guests[guest].pool) for guest in weights(plan)}
    for name, pool in plan.world.pools.items():
        bandwidth = (pool.cpus * PERIOD_US, PERIOD_US) if pool.by == "quota" else None
        weight = WEIGHT if name in weighed else None  # against all else that runs on its processors
        each = Bound(
            bandwidth,
            pool.memory_bytes,
            folder=f"pool-{name}",
            weight=weight,
            swap_bytes=pool.swap_bytes or 0,
        )
        if each.is_one:
            found[f"pools.{name}"] = each
    return found


def pool_above(plan: Plan, guest: Guest) -> str | None:
    """The pool whose group is above a guest's, as of `of_pools`."""
    name = f"pools.{guest.pool}"
    return name if name in of_pools(plan) else None


def of_services(plan: Plan) -> dict[str, Bound]:
    """The bounds of services, as `services.NAME/GUEST`."""
    found = {}
    for name, service in plan.world.services.items():
        share, memory_bytes = (service.parameters.get(key) for key in LIMITS)
        for guest in service.on:
            bandwidth = (round(share * PERIOD_US), PERIOD_US) if share is not None else None
            each = Bound(bandwidth, memory_bytes, guest, f"service-{name}")
            if each.is_one:
                found[f"services.{name}/{guest}"] = each
    return found


def bandwidths(plan: Plan) -> dict[str, Bandwidth]:
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


def _make_room(container: Path, make: Callable[[Path], None]) -> None:
    """In version 2 a group with others below it holds no processes: those of a container go into one of their own."""
    if (container / OWN).exists():
        return
    make(container / OWN)
    for process in (container / "cgroup.procs").read_text(encoding="ascii").split():
        (container / OWN / "cgroup.procs").write_text(process, encoding="ascii")
    (container / "cgroup.subtree_control").write_text("+cpu +memory", encoding="ascii")


def process_of(container: Path, process: int, proc: Path = Path("/proc")) -> int | None:
    """Our number of a process in a container's group (or its own one) whose number inside is known."""
    for group in (container, container / OWN):
        with contextlib.suppress(OSError):
            for found in (group / "cgroup.procs").read_text(encoding="ascii").split():
                with contextlib.suppress(OSError):
                    status = (proc / found / "status").read_text(encoding="utf-8", errors="replace")
                    if f"\t{process}\n" in next(
                        (f"{line}\n" for line in status.splitlines() if line.startswith("NSpid:")), ""
                    ):
                        return int(found)
    return None


def _weight_v1(weight: int) -> dict[str, str]:
    return {"cpu.shares": str(SHARES_OF_WEIGHT * weight)}


def _weight_v2(weight: int) -> dict[str, str]:
    return {"cpu.weight": str(weight)}


def _v2(bound: Bound, folder: Path) -> dict[str, str]:
    values = _weight_v2(bound.weight) if bound.weight is not None else {}
    if bound.bandwidth is not None:
        values["cpu.max"] = "{} {}".format(*bound.bandwidth)
    if bound.memory_bytes is not None:
        values["memory.max"] = str(bound.memory_bytes // PAGE_BYTES * PAGE_BYTES)
        if (folder / "memory.swap.max").exists():
            values["memory.swap.max"] = str(bound.swap_bytes // PAGE_BYTES * PAGE_BYTES)
    return values


def _v1(controller: str, bound: Bound, *, swaps: bool) -> dict[str, str]:
    if controller == "cpu":
        values = _weight_v1(bound.weight) if bound.weight is not None else {}
        if bound.bandwidth is not None:
            values |= {
                "cpu.cfs_period_us": str(bound.bandwidth[1]),
                "cpu.cfs_quota_us": str(bound.bandwidth[0]),
            }
        return values
    if controller == "memory" and bound.memory_bytes is not None:
        pages = bound.memory_bytes // PAGE_BYTES * PAGE_BYTES
        # Memory and swap together, which cannot be less than memory alone: it is written after that.
        together = pages + bound.swap_bytes // PAGE_BYTES * PAGE_BYTES
        both = {"memory.memsw.limit_in_bytes": str(together)} if swaps else {}
        return {"memory.limit_in_bytes": str(pages), **both}
    return {}
