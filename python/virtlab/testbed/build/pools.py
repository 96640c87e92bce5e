"""Processors of hosts and of their pools: which of this machine's each guest runs on, read back thread by thread.

The kernel keeps a process, and all that it starts, on the processors of its mask. So whatever is started in the network
of a guest - its probe, its programs and services, its container, its virtual machine with all threads - begins on the
guest's processors (`Control.confine`). Hosts that have processors of their own come first, each with others; then pools
by affinity of hosts that share the machine's. What is left is for all other guests; of a host with processors of its
own, what is left of those. Where nothing is left they run on all of them, also on those of pools, which the run says.

A pool by quota is a control group above those of its guests (`leader/groups.py`), which run where their host does. So
is one whose guests have weights, whichever way its processors are shared.

Any program may widen its own mask, so masks are read at both ends of each trial, as a program or a move begins, as a
move ends, and before a role is stopped. A guest that moves has a machine at each of two hosts, and each is compared
with the processors of its own host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from virtlab.agents.requests.leader import Places
from virtlab.catalogue import WORKLOADS
from virtlab.errors import MachineError
from virtlab.plan import Plan, Pool, RealisedObject, Refusal
from virtlab.planner.guests.clusters import ways_of_requests
from virtlab.planner.guests.weights import weights
from virtlab.planner.mobility.moves import cpus_of_hosts, destinations, moves, pool_at, pools_of_guests
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.leader.control import Control

Processors = list[int]
AT = "@"  # NETWORK@HOST: the leader's name of the machine that a guest that moves has at a host
TOGETHER = "together:"  # begins what an agent calls guests that share processors, which is no network
CURE_FEWER = "make them smaller, or use a machine with more processors"
CURE_LINK = "make them smaller, or put clients and servers on one virtual switch without a link, so that none is needed"
CURE_AWAKE = "write 'idle: sleep' and 'pin: none', or remove pools and 'cpus'"


@dataclass(frozen=True, slots=True)
class Shares:
    """Who runs where. What is in none of the maps runs on any processor."""

    guests: Mapping[str, Processors] = field(default_factory=dict)
    pools: Mapping[str, Processors] = field(default_factory=dict)
    hosts: Mapping[str, Processors] = field(default_factory=dict)
    # Host -> those of its guests of no pool.
    outside: Mapping[str, Processors] = field(default_factory=dict)

    def at(self, plan: Plan, guest: str, host: str) -> Processors:
        """The processors of a guest while it is at a host."""
        pool = pool_at(plan, guest, host)
        return self.pools[pool] if pool is not None else self.outside[host]


def shares(plan: Plan, available: Sequence[int]) -> Shares | None:
    """Who runs where on these processors; None where they are too few.

    >>> from virtlab.plan import Guest, Host, World
    >>> pools = {"h.a": Pool(host="h", cpus=1), "h.b": Pool(host="h", cpus=2)}
    >>> guests = {name: Guest(platform="any", host="h", vnics={}, pool=f"h.{name}") for name in "ab"}
    >>> world = World(hosts={"h": Host(), "k": Host()}, pools=pools,
    ...     guests={**guests, "c": Guest(platform="any", host="k", vnics={})})
    >>> shares(Plan(world=world), range(4)).guests
    {'a': [0], 'b': [1, 2], 'c': [3]}
    >>> shares(Plan(world=world), range(3)).guests["c"], shares(Plan(world=world), range(2))
    ([0, 1, 2], None)
    """
    world = plan.world
    if wanted(plan) > len(available):
        return None
    left = list(available)
    hosts: dict[str, Processors] = {}
    pools: dict[str, Processors] = {}
    outside: dict[str, Processors] = {}  # host -> what its guests of no pool have
    for name, host in world.hosts.items():
        if host.cpus is not None:
            hosts[name], left = left[: host.cpus], left[host.cpus :]
            inside = hosts[name]
            for pool, entry in _of(plan, name, "affinity"):
                pools[pool], inside = inside[: entry.cpus], inside[entry.cpus :]
            pools |= {pool: inside for pool, _ in _of(plan, name, "quota")}
            outside[name] = inside or hosts[name]
    for name, host in world.hosts.items():
        for pool, entry in _of(plan, name, "affinity") if host.cpus is None else ():
            pools[pool], left = left[: entry.cpus], left[entry.cpus :]
    rest = left or list(available)
    for name, host in world.hosts.items():
        pools |= {pool: rest for pool, _ in _of(plan, name, "quota") if host.cpus is None}
    if not hosts and not pools:
        return Shares()
    guests = {
        name: pools[guest.pool] if guest.pool is not None else outside.get(guest.host, rest)
        for name, guest in world.guests.items()
    }
    return Shares(guests, pools, hosts, {name: outside.get(name, rest) for name in world.hosts})


def wanted(plan: Plan) -> int:
    """How many processors hosts and pools are to have together."""
    world = plan.world
    own = sum(host.cpus or 0 for host in world.hosts.values())
    return own + sum(pool.cpus for pool in world.pools.values() if _shares_machine(plan, pool))


def _shares_machine(plan: Plan, pool: Pool) -> bool:
    host = plan.world.hosts.get(pool.host)
    return host is not None and host.cpus is None


def _of(plan: Plan, host: str, by: str) -> Iterator[tuple[str, Pool]]:
    for name, pool in plan.world.pools.items():
        if pool.host == host and pool.by == by:
            yield name, pool


def why_not(
    plan: Plan, available: Sequence[int], *, soft_switch: bool, root: bool, inside: str | None
) -> Iterator[Refusal]:
    """Every reason why hosts and pools cannot have their processors here."""
    world = plan.world
    named = [f"hosts.{name}.cpus" for name, host in world.hosts.items() if host.cpus is not None]
    named += [f"pools.{name}" for name in world.pools]
    if not named:
        return
    if inside is not None:
        cure = "remove it, or run it on this machine, without --in"
        yield Refusal(named[0], f"processors of {inside} are not given to guests", cure)
        return
    if (together := wanted(plan)) > len(available):
        left = f"{len(available)} {'is' if len(available) == 1 else 'are'} left for guests"
        switch = " beside the soft switch, which has one" if soft_switch else ""
        reason = f"hosts and pools have {together} processors together, and {left} here{switch}"
        yield Refusal(named[-1], reason, CURE_LINK if soft_switch else CURE_FEWER)
    for name, pool in world.pools.items():
        if pool.by == "quota" and not root:
            cure = "run as root, or write 'by: affinity'"
            yield Refusal(f"pools.{name}.by", "control groups can only be made by root here", cure)
    if (weighed := weights(plan)) and not root:
        cure = "run as root, or remove 'weight': without it guests with as many busy threads get alike"
        path = f"guests.{next(iter(weighed))}.weight"
        yield Refusal(path, "control groups can only be made by root here", cure)
    for name, guest in world.guests.items():
        if guest.idle != "sleep" or guest.pin != "none":
            key = "idle" if guest.idle != "sleep" else "pin"
            reason = "beside hosts and pools with processors no guest is given one of its own"
            yield Refusal(f"guests.{name}.{key}", reason, CURE_AWAKE)
    for name, role in plan.roles.items():
        declared = WORKLOADS.get(role.workload)
        if declared is not None and declared.budgeted and role.parameters.get("server") != "quota":
            reason = "beside pools and hosts' processors guests are pinned: the kernel gives no pinned thread a budget"
            yield Refusal(f"roles.{name}", reason, "remove pools and 'cpus', or write 'server: quota'")


@dataclass(frozen=True, slots=True)
class MachineThere:
    """A machine of a guest that moves, at a host: it runs there, or waits for its guest."""

    guest: str
    host: str
    threads: Sequence[tuple[str, frozenset[int]]]  # the name of each, and the processors on which it may run


def _none() -> list[MachineThere]:
    return []


@dataclass(slots=True)
class Confinement(Running):
    """The guests of a session on their processors."""

    plan: Plan
    lowered: Lowered
    shares: Shares
    groups: Mapping[str, Mapping[str, str]]  # pools.NAME -> files of its control group, as read back
    machines: Callable[[], Sequence[MachineThere]] = _none  # those of guests that move, now
    _seen: dict[str, set[int]] = field(default_factory=dict)  # guest -> those that some thread might run on
    _seen_at: dict[tuple[str, str], set[int]] = field(
        default_factory=dict
    )  # the same of who moves, and a host
    _destinations: dict[str, list[str]] = field(init=False)  # who moves -> the hosts that it comes to
    # Networks of guests that move between hosts with other numbers of processors: no one share is of their host's.
    shareless: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._destinations = {
            guest: destinations(self.plan, guest)
            for guest in moves(self.plan)
            if guest in self.plan.world.guests
        }
        unlike = (name for name in self._destinations if len(cpus_of_hosts(self.plan, name)) > 1)
        self.shareless = frozenset(self.lowered.guests[name] for name in unlike)

    def begin(self, control: Control) -> None:
        """Whatever is started in these networks from now on is confined. Virtual switches run where their host does."""
        control.confine(
            {self.lowered.guests[name]: cpus for name, cpus in self.shares.guests.items()},
            at={
                (self.lowered.guests[name], host): self.shares.at(self.plan, name, host)
                for name, ways in self._destinations.items()
                for host in (self.plan.world.guests[name].host, *ways)
                if self.shares.guests
            },
        )
        for name, vswitch in self.plan.world.vswitches.items():
            if vswitch.host in self.shares.hosts:
                namespace = self.lowered.vswitches[name].namespace
                control.confine({namespace: self.shares.hosts[vswitch.host]})

    def look(self, control: Control) -> list[MachineError]:
        """Reads all masks back; what runs where it must not."""
        if not self.shares.guests:
            return []
        names = {namespace: guest for guest, namespace in self.lowered.guests.items()}
        rows = control.call(Places())["rows"]
        wrong, told = [], set()
        for each in self.machines():
            for has, error in self._look_at(each):
                told.add((each.guest, has))
                wrong.append(error)
        for namespace, cpus, _, thread in rows:
            guest = names.get(namespace)
            if guest is None:
                continue
            self._seen.setdefault(guest, set()).update(cpus)
            places = self._places(guest)
            # Of a guest that moves what has been said of its machines is said.
            if not any(set(cpus) <= set(place) for place in places) and (guest, frozenset(cpus)) not in told:
                wrong.append(_wrong(guest, thread, cpus, " or on ".join(map(_text, places))))
        return wrong

    def _look_at(self, machine: MachineThere) -> Iterator[tuple[frozenset[int], MachineError]]:
        """Each mask of a machine that is not within its host's processors, once, and the error that it is."""
        guest, own = machine.guest, self.shares.at(self.plan, machine.guest, machine.host)
        if not machine.threads:
            what = f"no thread of its machine at {machine.host} can be looked at"
            cure = "see whether /proc shows the processes of others here"
            yield frozenset(), MachineError(f"guests.{guest}", what, cure)
        told = set()
        for thread, cpus in machine.threads:
            self._seen_at.setdefault((guest, machine.host), set()).update(cpus)
            if not cpus <= set(own) and cpus not in told:
                told.add(cpus)
                where = f"{_text(own)}, where it is at {machine.host}"
                yield cpus, _wrong(guest, thread, sorted(cpus), where)

    def _places(self, guest: str) -> list[Processors]:
        """Where threads in its network may run: of a guest that moves at any host of its way."""
        there = [self.shares.at(self.plan, guest, host) for host in self._destinations.get(guest, ())]
        return [self.shares.guests[guest], *(place for place in there if place != self.shares.guests[guest])]

    def objects(self) -> dict[str, RealisedObject]:
        """Pools and hosts with their processors as requested, applied and read back so far."""
        found = {}
        used = _used(self.plan)
        passive = {way.passive for way in ways_of_requests(self.plan)}
        for name, pool in self.plan.world.pools.items():
            guests = self._in_pool(name)
            applied: dict[str, Any] = {"processors": self.shares.pools[name], "guests": guests}
            for key, some in (("passive", passive), ("idle", set(guests) - used)):
                if those := [guest for guest in guests if guest in some]:
                    applied[key] = those
            applied |= self._neighbours(self.shares.pools[name], "")
            read_back = {**self.groups.get(f"pools.{name}", {}), **self._read_back(guests, at=pool.host)}
            by = "sched_setaffinity" if pool.by == "affinity" else "control group"
            found[f"pools.{name}"] = RealisedObject(pool.model_dump(mode="json"), applied, read_back, by)
        for name, cpus in self.shares.hosts.items():
            guests = [
                each
                for each, guest in self.plan.world.guests.items()
                if name in {guest.host, *self._destinations.get(each, ())}
            ]
            intended = {"cpus": self.plan.world.hosts[name].cpus}
            applied = {"processors": cpus, **self._neighbours(cpus, name)}
            found[f"hosts.{name}"] = RealisedObject(
                intended, applied, self._read_back(guests, at=name), "sched_setaffinity"
            )
        return found

    def _neighbours(self, cpus: Processors, host: str) -> dict[str, list[str]]:
        """Guests in no pool that run on some of these processors, too, at another host than that of that name."""
        found = [
            name
            for name, guest in self.plan.world.guests.items()
            if any(
                set(cpus) & set(self.shares.outside[where])
                for where in (guest.host, *self._destinations.get(name, ()))
                if where != host and pool_at(self.plan, name, where) is None
            )
        ]
        return {"beside": found} if found else {}

    def shared(self) -> list[list[Any]]:
        """Entities whose use of processors is a series of its own, as rows of the leader's `sample`; empty without
        pools. A guest that moves has a machine at each host of its way, whose use is counted to that host.
        """
        world = self.plan.world
        pools = [
            [f"{TOGETHER}pools.{name}", self._of_pool(name), pool.cpus, world.hosts[pool.host].cpus]
            for name, pool in world.pools.items()
        ]
        hosts = [
            [f"{TOGETHER}hosts.{name}", self._at_host(name), len(cpus)]
            for name, cpus in self.shares.hosts.items()
        ]
        return [*pools, *hosts]

    def _in_pool(self, pool: str) -> list[str]:
        """Guests that are in a pool at some time."""
        every = pools_of_guests(self.plan)
        return [name for name in self.plan.world.guests if pool in every.get(name, ())]

    def _of_pool(self, pool: str) -> list[str]:
        host = self.plan.world.pools[pool].host
        return [
            f"{self.lowered.guests[name]}{AT}{host}"
            if name in self._destinations
            else self.lowered.guests[name]
            for name in self._in_pool(pool)
        ]

    def _at_host(self, host: str) -> list[str]:
        found = []
        for name, guest in self.plan.world.guests.items():
            network = self.lowered.guests[name]
            if name not in self._destinations:
                found += [network] if guest.host == host else []
            elif host in {guest.host, *self._destinations[name]}:
                found.append(f"{network}{AT}{host}")
        return found

    def _read_back(self, guests: Sequence[str], at: str = "") -> dict[str, Any]:
        """The processors on which threads of these guests may run, by guest. One without a process has none. `at`: of a
        guest that moves those of its machine at this host.
        """
        found = {}
        for guest in guests:
            cpus = (
                self._seen_at.get((guest, at))
                if at and guest in self._destinations
                else self._seen.get(guest)
            )
            if cpus:
                found[guest] = {"processors": sorted(cpus)}
        return found


def _used(plan: Plan) -> set[str]:
    """Guests in which a role, a service or an action of the timeline has something running."""
    found = {str(action.guest) for action in plan.timeline if action.guest is not None}
    found |= {end for role in plan.roles.values() for end in (role.from_, role.to) if end is not None}
    return found | {guest for service in plan.world.services.values() for guest in service.on}


def _wrong(guest: str, thread: str, cpus: Sequence[int], own: str) -> MachineError:
    what = f"{thread} may run on processors {_text(cpus)}, not only on {own}"
    return MachineError(f"guests.{guest}", what, "see what widens its mask (sched_setaffinity)")


def _text(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus))
