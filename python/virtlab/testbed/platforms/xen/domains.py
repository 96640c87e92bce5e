"""The domains of a session: started side by side by `xl`, ready when their agents answer and their ports have carriers.

A domain is started in the network of its host, where its ports' back ends are brought; what is to be done about
those (the bridge, the queue) follows when they are there. Its console carries the frames of the agent inside and
its kernel's words; the process that tells them apart ends with the domain. `xentop` runs while series are wanted. A
domain that is reset is destroyed and made again, and its ports' back ends are others then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from virtlab.agents import Notice
from virtlab.agents.requests.descriptors import AgentDescriptor
from virtlab.agents.requests.every import Hello
from virtlab.agents.requests.leader import Exec, Observe
from virtlab.catalogue.collected import SERIES
from virtlab.catalogue.declaration import VCPUS
from virtlab.errors import AgentError, GuestError, VirtlabError
from virtlab.lazy import np
from virtlab.plan import Columns, Observer, Plan, SeriesRequest
from virtlab.testbed.build import networks
from virtlab.testbed.build import world as build
from virtlab.testbed.image.xen import SCRIPTS
from virtlab.testbed.kinds.lowered import Lowered, Place
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.kinds.reach import Reach
from virtlab.testbed.leader import queries
from virtlab.testbed.leader.channels import MACHINES
from virtlab.testbed.leader.control import Control, RefusedError, ending
from virtlab.testbed.platforms import carriers
from virtlab.testbed.platforms.qemu.machines import LOOK_S, Started
from virtlab.testbed.platforms.xen import watching
from virtlab.testbed.platforms.xen.config import MEMORY_BYTES, MIB, Domain
from virtlab.testbed.platforms.xen.xentop import KIB, Row
from virtlab.testbed.steps.operations import NamespaceAdd, Step
from virtlab.units.factors import NS_PER_S

BOOT_TIMEOUT_S = 600.0  # several, on a loaded machine whose processors are emulated
CARRIER_TIMEOUT_S = 120.0
END_TIMEOUT_S = 120.0
CURE = "give it more memory, or see its console"
CURE_LATE = "run it again on a computer that is less busy"
CURE_XL = "it never ran, and xl says why; what took too long has more time on a quieter computer"
REPORTED = frozenset(name for name, series in SERIES.items() if series.by_xentop)


@dataclass(slots=True)
class Domains(Running):
    """All domains of a session. `now`: the run's clock."""

    control: Control
    plan: Plan
    lowered: Lowered
    names: Sequence[str]
    now: Callable[[], int]
    domains: dict[str, Started] = field(default_factory=dict)
    _by_channel: dict[int, Started] = field(default_factory=dict)
    _reaches: dict[str, Reach] = field(default_factory=dict)
    _watch: watching.Watch | None = None

    def start(self, observe: Observer) -> None:
        """Starts all of them. GuestError with the end of the console when one does not come up."""
        names = self.names
        observe.progress(f"start {len(names)} domains", 0.0)
        for number, name in enumerate(names):
            self._begin(name, MACHINES.at(number))
        for domain in self.domains.values():
            domain.hello = self.control.send(Hello(), channel=domain.leader)
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        for done, domain in enumerate(self.domains.values(), start=1):
            self._await_hello(domain, deadline, observe)
            observe.progress(f"start {len(names)} domains", done / len(names))
        build.apply(
            self.control,
            [Step(NamespaceAdd(watching.NAMESPACE), "collect.series"), *self.lowered.late],
            observe,
        )
        self._furnish(self.domains.values(), observe)
        self._watch = watching.Watch(self.control, self.now, self._places())
        self._read_back(self._watch)

    def guests(self) -> Mapping[str, Reach]:
        """The channels and the clock by which each guest is reached."""
        return self._reaches

    def ended(self, exited: Notice) -> VirtlabError | None:
        """Which domain ended, with the end of its console; that xentop did."""
        if self._watch is not None and (error := self._watch.ended(exited)) is not None:
            return error
        domain = self._by_channel.get(int(exited.details["channel"]))
        return _death(domain, ending(exited)) if domain is not None else None

    def deaths(self) -> Iterator[GuestError]:
        """An error for each domain that ended, whether or not its end was reported."""
        for domain in self.domains.values():
            if (how := self.control.ended(domain.process)) is not None:
                yield _death(domain, how)

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its processors, memory and kernel as asked of xl, and as xentop has them."""
        domain = self.domains[guest]
        return domain.applied, domain.read_back

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Consoles."""
        for name, domain in self.domains.items():
            yield f"console-{name}.log", bytes(domain.console)

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value): how long each domain took to come up."""
        for name, domain in self.domains.items():
            if "start_ns" in domain.read_back:
                yield f"guests.{name}", "start_ns", int(domain.read_back["start_ns"])

    def sample(self, wanted: Iterable[SeriesRequest]) -> Iterator[Columns]:
        """Ends xentop, whose rows are returned, and begins it again when a series is wanted that it reports."""
        if self._watch is None:
            return
        if rows := self._watch.end():
            yield _columns(rows)
        periods = [each.every_ns for each in wanted if each.source in REPORTED]
        if periods:
            self._watch.begin(max(1, -(-min(periods) // NS_PER_S)))  # xentop counts whole seconds

    def reset(self, guest: str, *, held: bool) -> None:
        """Takes a domain away, as a power switch would: its ports' back ends end with it, and its kernel's settings."""
        del held  # nothing makes it again by itself
        domain = self.domains[guest]
        argv, where = ["xl", "destroy", guest], f"guests.{guest}"
        queries.output_of(
            self.control,
            where,
            self._network(guest),
            argv,
            channel=domain.process + 1,
            timeout_s=END_TIMEOUT_S,
        )
        deadline = time.monotonic() + END_TIMEOUT_S
        # The way to its agent ends with it; both are reported.
        while any(self.control.ended(channel) is None for channel in (domain.process, domain.leader)):
            if time.monotonic() > deadline:
                what = f"its console lived on for {END_TIMEOUT_S:g} s after it was destroyed"
                raise GuestError(where, what, CURE_LATE)
            self.control.await_news(LOOK_S)
        self.control.begin_again(domain.process, MACHINES.each)
        if self._watch is not None:
            self._watch.forget(guest)

    def restart(self, guest: str, observe: Observer) -> None:
        """Makes a domain again that was taken away, and gives host and guest their configuration again."""
        domain = self.domains[guest]
        domain.clock.forget()  # it begins again
        self._create(domain)
        domain.hello = self.control.send(Hello(), channel=domain.leader)
        self._await_hello(domain, time.monotonic() + BOOT_TIMEOUT_S, observe)
        ports = set(self.lowered.machines[guest].taps.values())
        build.apply(self.control, [step for step in self.lowered.late if place_of(step) in ports], observe)
        self._furnish([domain], observe)

    def close(self) -> None:
        """Nothing is held here; domains end with their world."""
        if self._watch is not None:
            self._watch.close()

    # Starting

    def _begin(self, name: str, channel: int) -> None:
        domain = Started(name, channel)
        self.control.listen(channel, domain.hear)
        self.domains[name] = domain
        self._by_channel[channel] = domain
        domain.began_ns = time.monotonic_ns()
        self._create(domain)
        wanted = self._wanted(name)
        domain.applied = {
            "vcpus": wanted.vcpus,
            "memory_bytes": -(-wanted.memory_bytes // MIB) * MIB,
            "type": "pv",
        }
        self._reaches[name] = domain.reach

    def _wanted(self, name: str) -> Domain:
        guest = self.plan.world.guests[name]
        return Domain(
            name=name,
            vcpus=guest.vcpus or VCPUS,
            memory_bytes=guest.memory_bytes or MEMORY_BYTES,
            macs=[vnic.mac for vnic in guest.vnics.values()],
        )

    def _create(self, domain: Started) -> None:
        """Has `xl` make it, by the process that becomes the way to its agent."""
        argv = ["/" + SCRIPTS["guest"], domain.name, self._wanted(domain.name).text()]
        descriptors = [AgentDescriptor(domain.leader, MACHINES.each - 2)]
        try:
            program = Exec(domain.process, self._network(domain.name), argv, descriptors=descriptors)
            domain.pid = self.control.call(program)["pid"]
        except RefusedError as error:
            what = f"its domain cannot be started: {error.what}"
            raise GuestError(f"guests.{domain.name}", what, CURE_XL) from error

    def _network(self, name: str) -> str:
        """The namespace that its ports' back ends are in: its host's; its own where it has none."""
        taps = list(self.lowered.machines[name].taps.values())
        return taps[0].namespace if taps else self.lowered.guests[name]

    def _furnish(self, domains: Iterable[Started], observe: Observer) -> None:
        """Tells each what its network is, and waits until its ports have carriers."""
        told = list(domains)
        for domain in told:
            steps = self.lowered.machines[domain.name].steps
            build.apply(self.control, steps, observe, channel=domain.leader)
        for domain in told:
            self._await_carriers(domain, observe)

    def _await_hello(self, domain: Started, deadline: float, observe: Observer) -> None:
        where = f"guests.{domain.name}"
        hello = domain.hello
        assert hello is not None
        while not self.control.answered(hello):
            left = deadline - time.monotonic()
            if left <= 0:
                what = f"did not boot within {BOOT_TIMEOUT_S:g} s; its console ends with: {domain.tail()}"
                raise GuestError(where, what, CURE)
            if observe.cancelled():
                raise GuestError(where, "was still booting when the run was cancelled")
            for death in self.deaths():
                raise death
            self.control.await_news(min(LOOK_S, left))
            self._note_answers()
        self._note_answers()
        domain.read_back["agent"] = self.control.wait(hello).get("build")

    def _note_answers(self) -> None:
        """How long each domain took until its agent answered, of those that have by now."""
        now_ns = time.monotonic_ns()
        for domain in self.domains.values():
            if domain.hello is not None and self.control.answered(domain.hello):
                domain.read_back.setdefault("start_ns", now_ns - domain.began_ns)

    def _await_carriers(self, domain: Started, observe: Observer) -> None:
        namespace = self.lowered.guests[domain.name]
        deadline = time.monotonic() + CARRIER_TIMEOUT_S
        while True:
            try:
                seen = self.control.call(Observe([namespace]), channel=domain.leader)
            except AgentError as error:
                raise domain.silent(error) from error
            found = networks.links_of(self.control, namespace, seen, domain.leader)
            down = carriers.down(self.plan, self.lowered, domain.name, found)
            if not down:
                return
            if observe.cancelled():
                raise GuestError(f"guests.{domain.name}", "had no carrier yet when the run was cancelled")
            if time.monotonic() > deadline:
                raise domain.without_carrier(down, CARRIER_TIMEOUT_S)
            time.sleep(LOOK_S)

    # xentop

    def _places(self) -> list[watching.Place]:
        """Where xentop has to run to see all ports: in each host's network. Any of them reports a domain without
        ports.
        """
        networks: dict[str, list[str]] = {}
        for name in sorted(self.domains, key=lambda each: not self.lowered.machines[each].taps):
            there = (
                self._network(name)
                if self.lowered.machines[name].taps or not networks
                else next(iter(networks))
            )
            networks.setdefault(there, []).append(name)
        return [
            watching.Place(
                lambda first=self.domains[names[0]]: first.pid,  # type: ignore[misc]
                {name: len(self.lowered.machines[name].taps) for name in names},
            )
            for names in networks.values()
        ]

    def _read_back(self, watch: watching.Watch) -> None:
        """What each domain has, as the hypervisor counts it. GuestError where it is not what was requested."""
        lines = watch.look()
        for name, domain in self.domains.items():
            line = lines.get(name)
            if line is None:
                what = (
                    f"is not among the domains that xentop lists: {', '.join(lines)}; its console ends with: "
                )
                raise GuestError(f"guests.{name}", what + domain.tail(), CURE)
            domain.read_back |= {
                "vcpus": line.vcpus,
                "memory_bytes": line.memory_bytes,
                "networks": line.networks,
                "disks": line.disks,
            }
            for key in ("vcpus", "memory_bytes"):
                if abs(domain.applied[key] - domain.read_back[key]) > (0 if key == "vcpus" else 64 * KIB):
                    raise domain.unlike(key, domain.read_back[key], domain.applied[key])


def place_of(step: Step) -> Place:
    """The interface that a Step is about."""
    link = getattr(step.op, "link", getattr(step.op, "name", ""))
    return Place(getattr(step.op, "namespace", ""), str(link))


def _death(domain: Started, how: str) -> GuestError:
    """Why a domain ended, as far as anybody said: xl while it was started, its kernel later."""
    what = domain.death(how).replace("its virtual machine ended", "its domain ended")
    return GuestError(f"guests.{domain.name}", what, CURE if domain.console else CURE_XL)


def _columns(rows: list[Row]) -> Columns:
    return {
        "t_ns": np.array([row[0] for row in rows], dtype=np.int64),
        "entity": np.array([row[1] for row in rows], dtype=object),
        "metric": np.array([row[2] for row in rows], dtype=object),
        "value": np.array([row[3] for row in rows], dtype=np.float64),
    }
