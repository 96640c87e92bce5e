"""Many guests on one host: do they fit, on how many cores, with which (P, B) each, and how many more.

A host file lists guests with their tasks; each virtual CPU is a server. Where a guest's period and budget are not
stated they are chosen together: each its own best pair, one common period, or harmonic periods (powers of two of a
base), the choice that needs the fewest cores and then the least share. A machine that is started s times a period
(preemptions counted) loses s X, so budgets are found again with it until nothing changes; at the end every guest is
proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from virtlab.documents import read_yaml
from virtlab.errors import ExperimentError
from virtlab.realtime.analysis import analyze, ask, front, least_budget
from virtlab.realtime.files import load_tasks, tasks_of
from virtlab.realtime.quantities import parse_time_ns
from virtlab.realtime.tasks import POLICIES, Task, TaskSet
from virtlab.units import show_time

SCHEDULERS = ("edf", "rm", "dm")
ROUNDS = 6
MOST_GUESTS = 1000


@dataclass(frozen=True, slots=True)
class Vcpu:
    """One virtual CPU: its tasks and, where stated, its period and budget."""

    name: str
    guest: str
    tasks: TaskSet
    server: str
    period_ns: int | None
    budget_ns: int | None


@dataclass(frozen=True, slots=True)
class Host:
    """The content of a host file."""

    cores: int
    scheduler: str
    preemptive: bool
    switch_cost_ns: int
    overhead_ns: int
    exact: bool
    vcpus: tuple[Vcpu, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """One virtual CPU's core, period and budget; `starts` per period at most, each losing the overhead."""

    name: str
    guest: str
    core: int
    period_ns: int
    budget_ns: int
    starts: int

    @property
    def share(self) -> float:
        """B / P."""
        return self.budget_ns / self.period_ns


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer; `cores` 0 and no `placed`: they do not fit."""

    fits: bool
    cores: int
    placed: tuple[Placed, ...]
    choice: str
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "fits": self.fits,
            "cores_used": self.cores,
            "choice": self.choice,
            "reason": self.reason,
            "vcpus": [
                {
                    "name": one.name,
                    "guest": one.guest,
                    "core": one.core,
                    "period_ns": one.period_ns,
                    "budget_ns": one.budget_ns,
                    "share": one.share,
                    "starts_per_period": one.starts,
                }
                for one in self.placed
            ],
        }


def load_host(path: Path) -> Host:
    """A host file. ExperimentError names the guest and the key."""
    content = read_yaml(path)
    if not isinstance(content, dict) or not isinstance(content.get("guests"), list):
        raise ExperimentError(str(path), "has no list 'guests'", "write 'guests: [{name: a, tasks: ...}]'")
    _only(content, {"version", "host", "overhead", "guests"}, str(path))
    host = content.get("host") or {}
    if not isinstance(host, dict):
        raise ExperimentError(f"{path}: host", "is not a mapping", "write 'host: {cores: 4}'")
    _only(host, {"cores", "scheduler", "preemptive", "switch_cost", "packing"}, f"{path}: host")
    scheduler, packing = host.get("scheduler", "edf"), host.get("packing", "exact")
    if scheduler not in SCHEDULERS:
        raise ExperimentError(
            f"{path}: host.scheduler", f"'{scheduler}' is unknown", f"choose {', '.join(SCHEDULERS)}"
        )
    if packing not in {"exact", "first_fit"}:
        raise ExperimentError(f"{path}: host.packing", f"'{packing}' is unknown", "choose exact or first_fit")
    vcpus: list[Vcpu] = []
    names: set[str] = set()
    for number, row in enumerate(content["guests"], 1):
        for vcpu in _guest(row, number, path):
            if vcpu.name in names:
                raise ExperimentError(
                    f"{path}: guest {vcpu.guest}", "two guests have this name", "give each its own"
                )
            names.add(vcpu.name)
            vcpus.append(vcpu)
    if not vcpus or len(vcpus) > MOST_GUESTS:
        raise ExperimentError(
            str(path), f"{len(vcpus)} virtual CPUs cannot be placed", f"write 1 to {MOST_GUESTS}"
        )
    return Host(
        cores=_count(host, "cores", 1, f"{path}: host"),
        scheduler=scheduler,
        preemptive=bool(host.get("preemptive", True)),
        switch_cost_ns=_time(host, "switch_cost", f"{path}: host") or 0,
        overhead_ns=_time(content, "overhead", str(path)) or 0,
        exact=packing == "exact",
        vcpus=tuple(vcpus),
    )


def place(host: Host) -> Placement:
    """Whether all fit on the host's cores: the choice with the fewest cores, then the least share."""
    best: tuple[tuple[int, float], Placement] | None = None
    reason = "no period and budget are enough for every guest"
    for name, chosen in _choices(host):
        found, why = _settle(host, chosen, name)
        if found is None:
            reason = why
            continue
        cost = (found.cores, sum(one.share for one in found.placed))
        if best is None or cost < best[0]:
            best = cost, found
    return best[1] if best else Placement(fits=False, cores=0, placed=(), choice="", reason=reason)


def how_many_more(host: Host, guest: str, most: int = 64) -> int:
    """How many copies of a guest fit beside all that is there."""
    names = [vcpu.guest for vcpu in host.vcpus]
    pattern = next((name for name in (guest, f"{guest}-0") if name in names), None)
    template = [vcpu for vcpu in host.vcpus if vcpu.guest == pattern]
    if not template:
        raise ExperimentError(
            "--more", f"no guest is called '{guest}'", f"there are {', '.join(dict.fromkeys(names))}"
        )
    for count in range(1, most + 1):
        extra = [
            replace(vcpu, name=f"{vcpu.name}+{copy}", guest=f"{guest}+{copy}")
            for copy in range(1, count + 1)
            for vcpu in template
        ]
        if not place(replace(host, vcpus=host.vcpus + tuple(extra))).fits:
            return count - 1
    return most


def _guest(row: Any, number: int, path: Path) -> Iterator[Vcpu]:
    if not isinstance(row, dict):
        raise ExperimentError(f"{path}: guest {number}", "is not a mapping", "write '{name: a, tasks: ...}'")
    name = str(row.get("name", f"guest{number}"))
    where = f"{path}: guest {name}"
    _only(row, {"name", "tasks", "policy", "period", "budget", "vcpus", "copies", "server"}, where)
    policy = row.get("policy", "rm")
    if policy not in POLICIES:
        raise ExperimentError(
            f"{where}.policy", f"'{policy}' is unknown", f"choose one of {', '.join(POLICIES)}"
        )
    server = row.get("server", "periodic")
    listed = row.get("tasks")
    if isinstance(listed, str):
        tasks = load_tasks(path.parent / listed, policy)
    elif isinstance(listed, list) and all(isinstance(task, dict) for task in listed):
        tasks = tasks_of(listed, where, policy)
    else:
        raise ExperimentError(
            f"{where}.tasks", "is not a list of tasks and no file", "write tasks, or a task file's name"
        )
    period, budget = _time(row, "period", where), _time(row, "budget", where)
    if budget is not None and period is None:
        raise ExperimentError(
            f"{where}.budget", "is stated without a period", "write the period too, or neither"
        )
    count, copies = _count(row, "vcpus", 1, where), _count(row, "copies", 1, where)
    if copies > MOST_GUESTS:
        raise ExperimentError(f"{where}.copies", f"{copies} are too many", f"write at most {MOST_GUESTS}")
    parts = allocate(tasks, count, where)
    for copy in range(copies):
        guest = name if copies == 1 else f"{name}-{copy}"
        for place, part in enumerate(parts):
            vcpu = guest if count == 1 else f"{guest}.{place}"
            yield Vcpu(vcpu, guest, part, server, period, budget)


def allocate(tasks: TaskSet, vcpus: int, where: str = "") -> list[TaskSet]:
    """Tasks to virtual CPUs: where each says (`vcpu`, from 0), else the largest first to the least loaded one."""
    parts: list[list[Task]] = [[] for _ in range(vcpus)]
    free: list[Task] = []
    for task in tasks.tasks:
        if task.vcpu is None:
            free.append(task)
        elif 0 <= task.vcpu < vcpus:
            parts[task.vcpu].append(task)
        else:
            raise ExperimentError(
                f"{where}: task {task.name}", f"there is no vcpu {task.vcpu}", f"write 0 to {vcpus - 1}"
            )
    for task in sorted(free, key=lambda task: task.utilisation, reverse=True):
        min(parts, key=lambda part: sum((one.utilisation for one in part), Fraction(0))).append(task)
    if any(not part for part in parts):
        raise ExperimentError(
            where, f"{vcpus} virtual CPUs for {len(tasks.tasks)} tasks: one has none", "give fewer"
        )
    rank = {task.name: number for number, task in enumerate(tasks.tasks)}
    return [tasks.only(sorted(part, key=lambda task: rank[task.name])) for part in parts]


Chosen = dict[str, int]


def _choices(host: Host) -> Iterator[tuple[str, Chosen]]:
    """Periods (ns) by virtual CPU, for those that are free."""
    stated = {vcpu.name: vcpu.period_ns for vcpu in host.vcpus if vcpu.period_ns is not None}
    free = [vcpu for vcpu in host.vcpus if vcpu.period_ns is None]
    if not free:
        yield "as stated", stated
        return
    own: Chosen = {}
    curves: dict[int, list[int]] = {}
    for vcpu in free:
        key = id(vcpu.tasks)
        if key not in curves:
            # Without an overhead ever shorter periods would win: 1 us replaces it in the choice of periods.
            overhead = host.overhead_ns or 1000
            tasks = vcpu.tasks if vcpu.tasks.policy != "opa" else replace(vcpu.tasks, policy="dm")
            curves[key] = [
                int(choice.period_ns)
                for choice in front(tasks, overhead_ns=overhead, points=6, server=vcpu.server)
                if choice.period_ns >= 1 and choice.share <= Fraction(99, 100)
            ]
        if not curves[key]:
            return
        own[vcpu.name] = curves[key][0]
    yield "each its own best", stated | own
    common = sorted({period for curve in curves.values() for period in curve})
    for period in common[:12]:
        yield f"common period {show_time(period)}", stated | dict.fromkeys(own, period)
    base = min(own.values())
    harmonic = {name: base << max((period // base).bit_length() - 1, 0) for name, period in own.items()}
    yield "harmonic periods", stated | harmonic


def _settle(host: Host, chosen: Chosen, name: str) -> tuple[Placement | None, str]:
    """Budgets for the periods, packed; again with the starts that the packing brings, until nothing changes."""
    from virtlab._native import rt_pack, rt_starts

    starts = dict.fromkeys(chosen, 1)
    groups = {guest: number for number, guest in enumerate(dict.fromkeys(vcpu.guest for vcpu in host.vcpus))}
    memory: dict[tuple[int, int, int], int | None] = {}
    by_edf = host.scheduler == "edf"
    for _ in range(ROUNDS):
        budgets: list[int] = []
        for vcpu in host.vcpus:
            overhead, period = starts[vcpu.name] * host.overhead_ns, chosen[vcpu.name]
            key = (id(vcpu.tasks), period, overhead)
            if key not in memory or vcpu.budget_ns is not None:
                memory[key] = _budget(vcpu, period, overhead)
            budget = memory[key]
            if budget is None:
                return None, f"guest {vcpu.guest}: no budget is enough at period {show_time(period)}"
            budgets.append(budget)
        rows = [
            (chosen[vcpu.name], budget, vcpu.server in {"deferrable", "cbs"}, groups[vcpu.guest])
            for vcpu, budget in zip(host.vcpus, budgets, strict=True)
        ]
        cores: list[int] | None = ask(
            host.vcpus[0].tasks,
            [vcpu.name for vcpu in host.vcpus],
            partial(rt_pack, rows, by_edf, host.preemptive, host.switch_cost_ns, host.cores, host.exact),
        )
        if cores is None:
            return None, f"they do not fit on {host.cores} cores"
        now: dict[str, int] = {}
        for core in sorted(set(cores)):
            members = [place for place, at in enumerate(cores) if at == core]
            counts = rt_starts([rows[place] for place in members], by_edf, host.preemptive)
            now |= {host.vcpus[place].name: int(count) for place, count in zip(members, counts, strict=True)}
        if host.overhead_ns == 0 or all(now[key] <= starts[key] for key in now):
            placed = tuple(
                Placed(vcpu.name, vcpu.guest, core, chosen[vcpu.name], budget, now[vcpu.name])
                for vcpu, core, budget in zip(host.vcpus, cores, budgets, strict=True)
            )
            return Placement(fits=True, cores=len(set(cores)), placed=placed, choice=name), ""
        starts = {key: max(now[key], starts[key]) for key in now}
    return None, "preemptions keep adding overhead"


def _budget(vcpu: Vcpu, period_ns: int, overhead_ns: int) -> int | None:
    """The stated budget if it is enough, else the least one, in whole ns and proved."""
    if vcpu.budget_ns is not None:
        if vcpu.budget_ns <= overhead_ns or vcpu.budget_ns > period_ns:
            return None
        found = analyze(
            vcpu.tasks,
            period_ns=period_ns,
            budget_ns=vcpu.budget_ns,
            overhead_ns=overhead_ns,
            server=vcpu.server,
        )
        return vcpu.budget_ns if found.schedulable else None
    least = least_budget(vcpu.tasks, period_ns=period_ns, overhead_ns=overhead_ns, server=vcpu.server)
    return least.rounded.budget_ns if least.rounded is not None and least.rounded.schedulable else None


def _only(row: Mapping[Any, Any], known: set[str], where: str) -> None:
    for key in row:
        if key not in known:
            raise ExperimentError(f"{where}.{key}", "is unknown", f"there are {', '.join(sorted(known))}")


def _count(row: Mapping[str, Any], key: str, default: int, where: str) -> int:
    value = row.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ExperimentError(f"{where}.{key}", f"'{value}' is not a whole number above 0", "write e.g. 2")
    return value


def _time(row: Mapping[str, Any], key: str, where: str) -> int | None:
    value = row.get(key)
    if value is None:
        return None
    try:
        found = parse_time_ns(str(value))
    except ValueError as error:
        raise ExperimentError(f"{where}.{key}", str(error)) from None
    if found < 0 or found.denominator != 1:
        raise ExperimentError(
            f"{where}.{key}", f"'{value}' is not a whole number of ns", "write e.g. '10 ms'"
        )
    return int(found)
