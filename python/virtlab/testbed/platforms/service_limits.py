"""Limits of services in guests that have control groups, or a kernel, of their own.

A container's group is its runtime's. The groups of its services are made below it, from outside, since a container
cannot write to its own: a service waits there for an octet until it has been put into them.

A machine has a kernel of its own, whose root its agent is. The groups of its services are made inside (version 2), by
asking, and each service joins its own as it starts. Where the memory of one is used up, the kernel ends all that is in
it, so that the end of the service tells, and nothing has to ask meanwhile. They go with the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from virtlab.catalogue import PLATFORMS
from virtlab.errors import AgentError, MachineError
from virtlab.plan import Plan
from virtlab.testbed.kinds.platform import Counted, Running
from virtlab.testbed.kinds.reach import Reach
from virtlab.testbed.leader import queries
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.groups import Bound, Bounds, ended, of_services, throttled
from virtlab.testbed.leader.memory_accounts import CGROUP_ROOT
from virtlab.units import PAGE_BYTES

INSIDE = CGROUP_ROOT / "virtlab"  # of a machine's own kernel
CURE_INSIDE = (
    "take a kernel with control groups of version 2 (CONFIG_MEMCG, CONFIG_CFS_BANDWIDTH), or bound the guest"
)
_READY = (
    f"{{ [ -e {CGROUP_ROOT}/cgroup.controllers ] || mount -t cgroup2 none {CGROUP_ROOT}; }} && "
    f"echo '+cpu +memory' > {CGROUP_ROOT}/cgroup.subtree_control && mkdir -p {INSIDE} && "
    f"echo '+cpu +memory' > {INSIDE}/cgroup.subtree_control"
)


def as_files(bound: Bound) -> dict[str, str]:
    """The limits as files of the kernel (version 2): name to content.

    >>> as_files(Bound((5000, 100000), 1 << 20))
    {'cpu.max': '5000 100000', 'memory.max': '1048576', 'memory.oom.group': '1'}
    """
    values: dict[str, str] = {}
    if bound.bandwidth is not None:
        values["cpu.max"] = "{} {}".format(*bound.bandwidth)
    if bound.memory_bytes is not None:
        values["memory.max"] = str(bound.memory_bytes // PAGE_BYTES * PAGE_BYTES)
        values["memory.oom.group"] = "1"
    return values


@dataclass(slots=True)
class Machine:
    """Groups of services inside one machine, made and read by asking its agent on a channel that is free."""

    control: Control
    guest: str
    namespace: str
    reach: Reach
    _ready: bool = False

    def make(self, bounded: str, bound: Bound) -> dict[str, str]:
        """Makes the group of a service; its files as the kernel has them. MachineError if it cannot be made."""
        assert self.reach.channels is not None
        group, values = INSIDE / bound.folder, as_files(bound)
        before = "" if self._ready else f"{_READY} && "
        writes = " && ".join(f"echo '{value}' > {group}/{file}" for file, value in values.items())
        read = " ".join(f"{group}/{file}" for file in values)
        where = bounded.partition("/")[0]
        try:
            script = f"{before}mkdir {group} && {writes} && cat {read}"
            told = self.ask(["sh", "-c", script], self.reach.channels[-1]).split("\n")
        except (AgentError, MachineError) as error:
            what = f"in {self.guest} no control group can be made: {error.what}"
            raise MachineError(where, what, CURE_INSIDE) from error
        self._ready = True
        has = dict(zip(values, told, strict=False))
        for file, value in values.items():
            if has.get(file) != value:
                what = f"{file} of its control group in {self.guest} reads {has.get(file)}, not {value}"
                raise MachineError(where, what, CURE_INSIDE)
        return has

    def read(self, bound: Bound, file: str, channel: int) -> str:
        """A file of the group; nothing where the machine does not tell."""
        try:
            return self.ask(["cat", f"{INSIDE}/{bound.folder}/{file}"], channel)
        except (AgentError, MachineError):
            return ""

    def ask(self, argv: Sequence[str], channel: int) -> str:
        """What a command of the machine writes."""
        return queries.output_of(
            self.control,
            f"guests.{self.guest}",
            self.namespace,
            argv,
            channel=channel,
            leader=self.reach.leader,
        )


@dataclass(slots=True)
class Limits:
    """The limits of all services of one world whose guests are containers or machines; and what joins groups that were
    made before any guest started.
    """

    ours: Mapping[str, list[str]] = field(
        default_factory=dict
    )  # guest, or services.NAME/GUEST -> `tasks` files of its control groups
    read_back: dict[str, dict[str, str]] = field(default_factory=dict)  # services.NAME/GUEST -> file -> value
    tasks: dict[str, list[str]] = field(
        default_factory=dict
    )  # the same -> files by which it joins, in a machine
    held: set[str] = field(
        default_factory=set
    )  # the same, of those that are put into their groups from outside
    _machines: dict[str, Machine] = field(default_factory=dict)
    _bounds: dict[str, Bound] = field(default_factory=dict)

    def create(
        self,
        plan: Plan,
        control: Control,
        namespaces: Mapping[str, str],
        owners: Mapping[str, Running],
        groups: Bounds | None,
    ) -> None:
        """Makes all groups, once the guests have started. MachineError if one cannot be made."""
        for bounded, bound in of_services(plan).items():
            guest = str(bound.above)
            platform = PLATFORMS[plan.world.guests[guest].platform]
            if platform.shares_files:
                continue
            self._bounds[bounded] = bound
            if platform.own_groups:
                path = owners[guest].control_group(guest)
                assert groups is not None, "only root's containers have bounded services"
                assert path is not None, "root's containers have groups"
                groups.below(path, bounded, bound)
                self.held.add(bounded)
                continue
            if guest not in self._machines:
                reach = owners[guest].guests()[guest]
                self._machines[guest] = Machine(control, guest, namespaces[guest], reach)
            self.read_back[bounded] = self._machines[guest].make(bounded, bound)
            self.tasks[bounded] = [f"{INSIDE}/{bound.folder}/cgroup.procs"]

    def inside(self, bounded: str) -> bool:
        """Whether only a machine's own kernel knows of the groups."""
        return bounded in self.tasks

    def ended_for_memory(self, bounded: str, channel: int) -> int:
        """How many processes a machine's kernel ended since the memory of a service was used up, asked on that
        channel.
        """
        bound = self._bounds[bounded]
        return ended(self._machines[str(bound.above)].read(bound, "memory.events", channel))

    def counters(self, bounded: str, channel: int) -> Iterator[Counted]:
        """How long its share held a service back, as a machine's kernel says, asked on that channel."""
        bound = self._bounds[bounded]
        stat = self._machines[str(bound.above)].read(bound, "cpu.stat", channel)
        if bound.bandwidth is not None:
            yield from ((bounded, counter, value) for counter, value in throttled(stat))
