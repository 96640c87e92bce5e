"""Control groups of the kernel inside a laboratory machine: the same bounds as here, made and read by asking.

The machine has one hierarchy (version 2), and one world at a time. Groups of an earlier world are empty by then and are
removed as the next one's are made; with the machine all of them are gone, so no ledger knows of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from virtlab.agents.requests.leader import Apply
from virtlab.catalogue import PLATFORMS
from virtlab.errors import AgentError, MachineError
from virtlab.plan import Plan
from virtlab.testbed.lab.queries import output_of
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.groups import Bound, bandwidths, throttled
from virtlab.testbed.leader.memory_accounts import CGROUP_ROOT, Account
from virtlab.testbed.steps.operations import NamespaceAdd

NAMESPACE = "lab:groups"
CURE = "write a share 'cpu' or 'memory' that it can keep, or leave out --in lab-vm"
SESSION = CGROUP_ROOT / "virtlab"
_READY = (
    f"[ -e {CGROUP_ROOT}/cgroup.controllers ] || mount -t cgroup2 none {CGROUP_ROOT} || exit; "
    f"for group in {SESSION}/*/ {SESSION}/; do [ -d $group ] && rmdir $group; done 2>/dev/null; "
    f"echo '+cpu +memory +pids' > {CGROUP_ROOT}/cgroup.subtree_control && mkdir -p {SESSION} && "
    f"echo '+cpu +memory +pids' > {SESSION}/cgroup.subtree_control"
)


@dataclass(frozen=True, slots=True)
class AccountInside(Account):
    """The control groups of a container inside."""

    ask: Callable[[Sequence[str]], str] | None = None

    @property
    def version_2(self) -> bool:
        """The one hierarchy there is."""
        return True

    def _read(self, controller: str, file: str) -> str | None:
        del controller
        assert self.ask is not None
        try:
            return self.ask(["cat", f"{self.root}{self.path}/{file}"])
        except (AgentError, MachineError):
            return None  # there is no such file, or no agent left to ask


@dataclass(slots=True)
class GroupsInside:
    """The control groups of one session inside."""

    control: Control
    read_back: dict[str, dict[str, str]] = field(default_factory=dict)
    _ready: bool = False

    def create(self, plan: Plan, *, rootless: bool) -> dict[str, list[str]]:
        """Makes the groups that guests need; guest -> files that a process joins by. MachineError if they cannot be
        made.
        """
        del rootless
        shares = bandwidths(plan)
        tasks: dict[str, list[str]] = {}
        for name, guest in plan.world.guests.items():
            platform = PLATFORMS[guest.platform]
            if platform.own_groups or not platform.shares_kernel:
                continue
            values: dict[str, str] = {}
            if name in shares:
                values["cpu.max"] = "{} {}".format(*shares[name])
            if guest.memory_bytes is not None:
                values["memory.max"] = str(guest.memory_bytes // 4096 * 4096)
            if values:
                tasks[name] = [self._bound(name, values)]
        return tasks

    def of_containers(self, guests: Sequence[str]) -> dict[str, str]:
        """Paths of groups that a container runtime is about to make, one per guest."""
        self._prepare()
        return {guest: f"/{SESSION.name}/{guest}" for guest in guests}

    def account(self, path: str) -> Account:
        """The counters of a control group, read from the kernel inside."""
        return AccountInside(path, ask=self._ask)

    def below(self, path: str, bounded: str, bound: Bound) -> None:
        """Services have no limits of their own inside: they are refused."""
        raise AssertionError(f"{bounded} below {path} is bounded by {bound}")

    def weigh(self, path: str, guest: str, weight: int) -> dict[str, str]:
        """There are no pools inside: they are refused."""
        raise AssertionError(f"{guest} at {path} has weight {weight} in no pool")

    def join(self, bounded: str, process: int) -> None:
        """As above."""
        raise AssertionError(f"process {process} is of {bounded}, which is bounded by nothing")

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value): how long the share of a guest that is no container held it back."""
        for guest in self.read_back:
            with contextlib.suppress(AgentError, MachineError):
                for counter, value in throttled(self._ask(["cat", f"{SESSION}/{guest}/cpu.stat"])):
                    yield f"guests.{guest}", counter, value

    def ended_for_memory(self, bounded: str) -> int:
        """None is counted: services have no limits of their own inside."""
        del bounded
        return 0

    def remove(self) -> None:
        """They go with the next world, or with the machine."""

    def _prepare(self) -> None:
        if not self._ready:
            self.control.call(Apply([NamespaceAdd(NAMESPACE).json()]))
            self._ask(["sh", "-c", _READY])
            self._ready = True

    def _bound(self, guest: str, values: dict[str, str]) -> str:
        self._prepare()
        group = f"{SESSION}/{guest}"
        writes = " && ".join(f"echo '{value}' > {group}/{file}" for file, value in values.items())
        files = " ".join(f"{group}/{file}" for file in values)
        has = self._ask(["sh", "-c", f"mkdir {group} && {writes} && cat {files}"]).split("\n")
        self.read_back[guest] = dict(zip(values, has, strict=False))
        for file, value in values.items():
            if self.read_back[guest].get(file) != value:
                what = (
                    f"{file} of its control group reads {self.read_back[guest].get(file)} inside, not {value}"
                )
                raise MachineError(f"guests.{guest}", what, CURE)
        return f"{group}/cgroup.procs"

    def _ask(self, argv: Sequence[str]) -> str:
        return output_of(self.control, NAMESPACE, argv)
