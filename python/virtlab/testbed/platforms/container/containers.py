"""The containers of a session: started side by side, each led from inside by our agent, ready when that answers.

The world's leader starts the runtime in the guest's network; the runtime starts the agent as the container's first
process, with the control stream as descriptor 3. The runtime stays in the foreground as a child of PID 1 of the world,
and the container's processes are its descendants: with the world all of them end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from virtlab.agents import Data, Notice
from virtlab.agents.replies import Introduction
from virtlab.agents.requests.descriptors import AgentDescriptor, Descriptor, UsersDescriptor
from virtlab.agents.requests.every import Hello
from virtlab.agents.requests.leader import Exec, Observe
from virtlab.errors import AgentError, GuestError, MachineError
from virtlab.plan import Observer, Plan
from virtlab.planner.guests.disks import is_folder, is_stored_folder
from virtlab.planner.guests.weights import weights
from virtlab.testbed.build import disks, stored_disks
from virtlab.testbed.build import world as build
from virtlab.testbed.image.initramfs import applets, find_busybox
from virtlab.testbed.image.rootfs import find_rootfs
from virtlab.testbed.kinds.container_home import Home, here
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.kinds.reach import Reach
from virtlab.testbed.kinds.user_namespaces import users_of
from virtlab.testbed.leader import queries
from virtlab.testbed.leader.channels import BUNDLES, CONTAINERS
from virtlab.testbed.leader.control import Control, Pending, RefusedError, ending, outcome
from virtlab.testbed.leader.groups import Bounds, bandwidths
from virtlab.testbed.leader.memory_accounts import Account
from virtlab.testbed.platforms import plain
from virtlab.testbed.platforms.container import engine, seccomp
from virtlab.testbed.platforms.container.bundle import Bundle, Limits, archive, prepare
from virtlab.testbed.steps.operations import HomeAdd, Step
from virtlab.units import PAGE_BYTES

START_TIMEOUT_S = 60.0  # here; where a home is slow, as many times longer as that says
LOOK_S = 0.05
PIDS_MAX = 2048  # processes and threads of one; as many as podman gives
TAIL_BYTES = 4096
CURE = "see `virtlab doctor` about containers"
CURE_START = "see whether {} runs here by hand, or write another 'runtime'"
CURE_LATE = (
    "start fewer containers, or run it on a machine that is less busy; see `virtlab doctor` about containers"
)
PLACES = (
    "/mnt",
    "/media",
    "/srv",
    "/opt",
)  # folders of every system; one is hidden from the world by its bundles


@dataclass(slots=True)
class Started:
    """One container."""

    name: str
    process: int  # channel of its runtime
    account: Account | None
    limits: Limits
    home: Home
    number: int
    output: bytearray = field(default_factory=bytearray)
    applied: dict[str, Any] = field(default_factory=dict)
    read_back: dict[str, Any] = field(default_factory=dict)

    @property
    def leader(self) -> int:
        """Channel of the leader inside."""
        return self.process + 1

    @property
    def reach(self) -> Reach:
        """How to talk to it: by our clock, its kernel is ours."""
        return Reach(self.leader, range(self.leader + 1, self.process + CONTAINERS.each))

    def hear(self, data: Data) -> None:
        """Keeps the end of what its runtime and its first process say."""
        self.output += data.content
        del self.output[:-TAIL_BYTES]

    def words(self) -> str:
        """The same as one line."""
        return " | ".join(plain.lines(self.output))

    def death(self, how: str) -> str:
        """Why it ended, as far as anybody said."""
        how = how.partition(": ")[0]
        why = f"its container ended with {how}" + (f"; it said: {self.words()}" if self.output else "")
        return f"{why}; it needed more memory than it may have" if self.starved() else why

    def holds(self, channel: int) -> bool:
        """Whether a channel is of something that runs inside."""
        return self.leader < channel < self.process + CONTAINERS.each

    def starved(self) -> bool:
        """Whether something in it was killed for want of memory."""
        return self.account is not None and self.account.starved()


@dataclass(slots=True)
class Containers(Running):
    """All containers of a session."""

    control: Control
    plan: Plan
    lowered: Lowered
    names: Sequence[str]
    groups: Bounds | None = None  # None: an ordinary user's, without control groups
    home: Home | None = None  # None: this machine
    _homes: dict[str | None, Home] = field(default_factory=dict)  # by what the file says runs them
    containers: dict[str, Started] = field(default_factory=dict)
    _reaches: dict[str, Reach] = field(default_factory=dict)
    _beneath: str = ""  # the OCI runtime that podman calls

    def start(self, observe: Observer) -> None:
        """Starts all of them. GuestError with the runtime's words when one does not come up."""
        names = self.names
        observe.progress(f"start {len(names)} containers", 0.0)
        paths = self.groups.of_containers(names) if self.groups is not None else {}
        bundles = self._bundles(names, paths)
        place = self._home_of(names[0]).place or _place(bundles)
        self._prepare(place, bundles, observe)
        # Each has mounts of its own, as they are now: with the bundles.
        stored_disks.mount(self.control, self.plan, self.lowered, names, observe)
        for number, bundle in enumerate(bundles):
            self._begin(number, bundle, place)
        hellos = {
            name: self.control.send(Hello(), channel=each.leader) for name, each in self.containers.items()
        }
        deadline = time.monotonic() + self._patience_s
        for name, hello in hellos.items():
            self._await_hello(self.containers[name], hello, deadline, observe)
        served = stored_disks.served(self.control, self.plan, names)
        for each in self.containers.values():
            namespace = self.lowered.guests[each.name]
            named = [Step(HomeAdd(namespace), f"guests.{each.name}")]
            build.apply(self.control, named, observe, channel=each.leader)
            self._read_back(each, place, served.get(each.name))

    @property
    def _patience_s(self) -> float:
        return START_TIMEOUT_S * max(home.patience for home in self._homes.values())

    def _home_of(self, name: str) -> Home:
        wanted = self.plan.world.guests[name].runtime
        if wanted not in self._homes:
            self._homes[wanted] = self.home or here(wanted)
        return self._homes[wanted]

    def guests(self) -> Mapping[str, Reach]:
        """The channels and the clock by which each guest is reached."""
        return self._reaches

    def ended(self, exited: Notice) -> GuestError | None:
        """Which container ended, or lost its probe for want of memory."""
        channel = int(exited.details["channel"])
        for each in self.containers.values():
            if channel == each.process:
                return _death(each, ending(exited))
            if each.holds(channel) and exited.details.get("signal") == 9 and each.starved():
                what = "its probe was killed: the container needed more memory than it may have"
                return GuestError(f"guests.{each.name}", what)
        return None

    def deaths(self) -> Iterator[GuestError]:
        """The death of each container that ended, heard of or not."""
        for each in self.containers.values():
            if (how := self.control.ended(each.process)) is not None:
                yield _death(each, how)

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Runtime, image and limits as asked, and as the kernel has them."""
        each = self.containers[guest]
        return each.applied, each.read_back

    def control_group(self, guest: str) -> str | None:
        """Its path; None where an ordinary user's container has none."""
        account = self.containers[guest].account
        return account.path if account is not None else None

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value) of each container's control groups, now."""
        for each in self.containers.values():
            for counter, value in each.account.counters() if each.account is not None else ():
                yield f"guests.{each.name}", counter, value

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """What was said on their consoles, where something was."""
        for each in self.containers.values():
            if each.output:
                yield f"console-{each.name}.log", bytes(each.output)

    def close(self) -> None:
        """Nothing is held."""

    def _bundles(self, names: Sequence[str], paths: Mapping[str, str]) -> list[Bundle]:
        wanted, users = bandwidths(self.plan), users_of(self.plan)
        bundles = []
        for name in names:
            guest, home = self.plan.world.guests[name], self._home_of(name)
            granted = home.capabilities() if paths else None
            image = find_rootfs(guest.image) if guest.image is not None else None
            if guest.image is not None and image is None:
                raise MachineError(
                    f"guests.{name}.image", f"there is no image '{guest.image}'", "see `virtlab image list`"
                )
            pids = PIDS_MAX if name in paths and home.counts() and not home.runtime.is_engine else None
            limits = Limits(
                wanted.get(name), guest.memory_bytes, home.swaps(), pids, swap_bytes=guest.swap_bytes or 0
            )
            filtered = guest.seccomp != seccomp.NONE
            bundles.append(
                Bundle(
                    name, home.agent, image, home.busybox, limits, paths.get(name), granted, filtered,
                    users.get(name),
                    guest.disk.size_bytes if guest.disk is not None and is_folder(guest) else None,
                    is_stored_folder(guest),
                )
            )  # fmt: skip
        return bundles

    def _prepare(self, place: str, bundles: list[Bundle], observe: Observer) -> None:
        """Lays the bundles out where only the world sees them."""
        names: tuple[str, ...] = ()
        homes = list(self._homes.values())
        if homes[0].busybox is not None and any(each.image is None for each in bundles):
            names = applets(find_busybox())
        errors = bytearray()
        self.control.listen(BUNDLES.first, lambda data: errors.extend(data.content))
        # Of a container: what is mounted from a guest that has mounts of its own is seen there alone.
        namespace = self.lowered.guests[bundles[0].guest]
        before = "".join(dict.fromkeys(home.before for home in homes))
        script = prepare(place, bundles, before=before)
        if any(home.runtime.is_engine for home in homes):
            script += f" && {engine.prepared(place)}"
        try:
            self.control.call(Exec(BUNDLES.first, namespace, ["sh", "-c", script]))
        except RefusedError as error:
            raise MachineError("guests", f"bundles of containers: {error.what}", CURE) from error
        self.control.data(BUNDLES.first, archive(bundles, names, place))
        self.control.data(BUNDLES.first, b"")
        deadline = time.monotonic() + self._patience_s
        while (how := self.control.ended(BUNDLES.first)) is None and time.monotonic() < deadline:
            if observe.cancelled():
                raise GuestError("guests", "containers were still prepared when the run was cancelled")
            self.control.await_news(LOOK_S)
        self.control.listen(BUNDLES.first, None)
        self.control.forget_end(BUNDLES.first)
        if outcome(how) != "code 0":
            said = errors.decode(errors="replace").strip() or how or f"nothing within {self._patience_s:g} s"
            raise MachineError("guests", f"bundles of containers cannot be laid out: {said}", CURE)

    def _begin(self, number: int, bundle: Bundle, place: str) -> None:
        channel, home = CONTAINERS.at(number), self._home_of(bundle.guest)
        account = home.account(bundle.cgroup) if bundle.cgroup is not None else None
        each = Started(bundle.guest, channel, account, bundle.limits, home, number)
        self.control.listen(channel, each.hear)
        self.containers[bundle.guest] = each
        self._reaches[bundle.guest] = each.reach
        descriptors: list[Descriptor] = [AgentDescriptor(each.leader, CONTAINERS.each - 1)]
        if bundle.users is not None:
            descriptors.append(UsersDescriptor(self.lowered.guests[bundle.guest]))
        if home.runtime.is_engine:
            argv = engine.run(home.runtime.path, place, number, bundle)
        else:
            argv = home.runtime.run(
                f"{place}/state",
                f"{place}/{number}",
                f"virtlab-{number}",
                descriptors=len(descriptors),
                rootless=self.groups is None,
            )
        program = Exec(channel, self.lowered.guests[bundle.guest], argv, descriptors=descriptors)
        if home.runtime.is_engine and self.groups is None:
            own = engine.environment(place, uid=os.getuid(), gid=os.getgid())
            program = replace(program, environment=own)
        try:
            self.control.call(program)
        except RefusedError as error:
            what = f"its container cannot be started: {error.what}"
            raise GuestError(f"guests.{bundle.guest}", what, CURE_START.format(home.runtime.name)) from error
        each.applied = {
            "runtime": home.version,
            "image": self.plan.world.guests[bundle.guest].image,
            "control_group": bundle.cgroup,
            "seccomp": self.plan.world.guests[bundle.guest].seccomp or "default",
            "user_namespace": self.plan.world.guests[bundle.guest].user_namespace or "none",
            **bundle.limits.json(),
        }

    def _await_hello(
        self, each: Started, hello: Pending[Introduction], deadline: float, observe: Observer
    ) -> None:
        where = f"guests.{each.name}"
        while not self.control.answered(hello):
            how = self.control.ended(each.process)
            if how is not None:
                raise _death(each, how)
            if observe.cancelled():
                raise GuestError(where, "was still starting when the run was cancelled")
            left = deadline - time.monotonic()
            if left <= 0:
                what = f"its container did not answer within {self._patience_s:g} s"
                raise GuestError(
                    where, what + (f"; it said: {each.words()}" if each.output else ""), CURE_LATE
                )
            self.control.await_news(min(LOOK_S, left))
        try:
            each.read_back["agent"] = self.control.wait(hello).get("build")
        except AgentError as error:
            raise GuestError(where, f"its container refused: {error.what}", CURE) from error

    def _read_back(self, each: Started, place: str, served: Mapping[str, Any] | None) -> None:
        guest, runtime = self.plan.world.guests[each.name], each.home.runtime
        if guest.disk is not None:
            namespace = self.lowered.guests[each.name]
            seen = self.control.call(Observe([namespace]), channel=each.leader)
            own = seen["namespaces"][namespace]
            each.read_back["disk"] = disks.read_back(f"guests.{each.name}", guest, own, served)
        if runtime.is_engine:
            if not self._beneath:  # the same for all: by its user's configuration
                asked = engine.which_runtime(runtime.path, place, each.number)
                namespace, where = self.lowered.guests[each.name], f"guests.{each.name}"
                said = queries.output_of(self.control, where, namespace, asked, channel=BUNDLES.first)
                self._beneath = said.strip()
            each.read_back["oci_runtime"] = self._beneath
        if each.account is None:
            return
        if runtime.is_engine and (inner := engine.own_group(each.account.inside())) is not None:
            each.account = each.home.account(f"{each.account.path}/{inner}")
        if (weight := weights(self.plan).get(each.name)) is not None and self.groups is not None:
            path = each.applied["control_group"]
            each.read_back |= self.groups.weigh(path, each.name, weight)
        has = each.account.limits()
        wanted = as_files(each.limits, version_2=each.account.version_2)
        for file, value in wanted.items():
            if has.get(file) != value:
                what = f"{file} of its control group reads {has.get(file, 'nothing')}, not {value}"
                raise MachineError(f"guests.{each.name}", what, "see `virtlab doctor` about control groups")
        each.read_back |= has


def _death(each: Started, how: str) -> GuestError:
    return GuestError(f"guests.{each.name}", each.death(how), CURE)


def as_files(limits: Limits, *, version_2: bool) -> dict[str, str]:
    """The limits as files of the kernel: name to content."""
    out: dict[str, str] = {}
    if limits.bandwidth_us is not None:
        quota, period = map(str, limits.bandwidth_us)
        out |= (
            {"cpu.max": f"{quota} {period}"}
            if version_2
            else {"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": period}
        )
    if limits.memory_bytes is not None:
        pages = limits.memory_bytes // PAGE_BYTES * PAGE_BYTES
        out["memory.max" if version_2 else "memory.limit_in_bytes"] = str(pages)
        swap = limits.swap_bytes // PAGE_BYTES * PAGE_BYTES
        if limits.swaps and version_2:
            out["memory.swap.max"] = str(swap)
        elif limits.swaps:
            out["memory.memsw.limit_in_bytes"] = str(
                (limits.memory_bytes + limits.swap_bytes) // PAGE_BYTES * PAGE_BYTES
            )
    if limits.pids is not None:
        out["pids.max"] = str(limits.pids)
    return out


def _place(bundles: list[Bundle]) -> str:
    """The folder that the bundles hide: one that holds nothing which a container is made of."""
    needed = [Path(bundle.agent).resolve() for bundle in bundles]
    needed += [
        path.resolve() for bundle in bundles for path in (bundle.image, bundle.busybox) if path is not None
    ]
    for place in PLACES:
        if Path(place).is_dir() and not any(path.is_relative_to(place) for path in needed):
            return place
    raise MachineError(
        "guests", f"none of {', '.join(PLACES)} can be hidden by bundles", "make an empty folder /mnt"
    )
