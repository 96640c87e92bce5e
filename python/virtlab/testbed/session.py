"""A built world that plays trials: `Session` of the testbed."""

from __future__ import annotations

import os
import traceback
from dataclasses import replace
from types import TracebackType
from typing import Self

from virtlab.agents.conversation import one_line
from virtlab.catalogue import PLATFORMS
from virtlab.errors import AgentError, MachineError, VirtlabError
from virtlab.plan import Access, Observer, Outcome, Plan, Realised, Sink, Trial
from virtlab.testbed import readback
from virtlab.testbed.build import idle, networks, pinning, stored_disks
from virtlab.testbed.build import world as build
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.pools import Confinement, MachineThere, shares
from virtlab.testbed.build.ports import as_built
from virtlab.testbed.build.routing import Routing, routers
from virtlab.testbed.kinds.findings import Machine
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader import threads
from virtlab.testbed.leader.process import cpus_of_world, usable_cpus
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.play.priority import Priorities
from virtlab.testbed.play.probes import Probes
from virtlab.testbed.play.run import Pass
from virtlab.testbed.services.services import Services
from virtlab.testbed.site import HERE, Site, WorldLeader

DEFECT = "defect.txt"
CURE_UNFORESEEN = f"a defect of virtlab, or an agent that lies: {DEFECT} among the run's artefacts says where"
UNFORESEEN = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip


class TestbedSession:
    """A context manager; leaving it ends the world with everything in it."""

    __test__ = False  # not a test case, whatever its name begins with
    realised: Realised

    def __init__(
        self, plan: Plan, machine: Machine, observe: Observer, *, keep: bool = False, site: Site = HERE
    ) -> None:
        self.plan = plan = as_built(plan, machine.link)
        self._site = site
        self._observe = observe
        self.lowered: Lowered = lower(plan, machine)
        world_cpus, switch_cpu = cpus_of_world()
        pinned = self.lowered.soft_switch is not None and switch_cpu is not None
        self._awake = idle.hold_awake() if idle.pollers(plan) or idle.is_virtual() else None
        observe.progress("start the leader")
        try:
            self.leader: WorldLeader = site.start(cpus=world_cpus if pinned else (), keep=keep)
        except BaseException:
            self._sleep_again()
            raise
        self._groups = site.bounds(self.leader.control)
        self._guests = Guests(
            self.leader.control,
            plan,
            self.lowered,
            site,
            running=site.running(),
        )
        try:
            control = self.leader.control
            if (met := self._guests.meet(observe)) is not plan:
                self.plan = plan = met
                self.lowered = self._guests.lowered = lower(plan, machine)
            tasks = self._groups.create(plan, rootless=self.leader.rootless)
            usable = usable_cpus(soft_switch=self.lowered.soft_switch is not None)
            self._confine(usable)
            build.apply(control, self.lowered.steps, observe)
            sharing = [
                name for name, guest in plan.world.guests.items() if PLATFORMS[guest.platform].shares_files
            ]
            stored_disks.mount(control, plan, self.lowered, sharing, observe)
            said = {}
            if self.lowered.soft_switch is not None:
                observe.progress("start the soft switch")
                said = build.start_switch(
                    control, self.lowered, cpu=switch_cpu if pinned else None, root=not self.leader.rootless
                )
            self._guests.limits.ours = tasks
            self._guests.groups = None if self.leader.rootless else self._groups
            self._guests.container_home = site.container_home(self._groups)
            self._guests.start(observe)
            inside = self._guests.bound_services()
            on = pinning.processors(plan, usable[: len(usable) - len(idle.pollers(plan))])
            pins = pinning.pin(control, self.lowered, on)
            if routers(plan):
                routing = Routing(control, plan, self.lowered, on)
                self._guests.running.append(routing)
                routing.start(observe)
            observe.progress("check who reaches whom")
            self.reached_ns = build.check_reach(
                control, plan, self.lowered, self._guests, patience=site.patience
            )
            namespaces = sorted(
                {
                    *self.lowered.guests.values(),
                    *(place.namespace for place in self.lowered.vswitches.values()),
                }
            )
            seen = networks.observe(control, [*namespaces, *(["fabric"] if self.lowered.links else [])])
            seen |= networks.observe_each(
                control,
                {
                    self.lowered.guests[name]: self._guests.reach(name).leader
                    for name, guest in plan.world.guests.items()
                    if not PLATFORMS[guest.platform].shares_kernel
                },
            )
            priorities = Priorities.of(plan, machine=not self.leader.rootless)
            mounted = stored_disks.served(control, plan, sharing)
            held = {**site.conditions(self.leader.hello), "probe_priority": priorities.condition()}
            self.realised = readback.realise(
                plan,
                self.lowered,
                seen,
                said,
                held,
                {**self._groups.read_back, **inside},
                pins,
                mounted,
                self._guests,
            )
            cpus = {**(idle.processors(plan, usable) or {}), **{name: [cpu] for name, cpu in on.items()}}
            if plan.world.services:
                services = Services(self._guests, plan)
                self._guests.running.append(services)
                services.start(observe)
            self._probes = Probes(control, plan, self.lowered, self._guests, priorities, tasks, cpus)
            self._look_at_processors()
        except VirtlabError as error:
            why = self._death_behind(error)
            self.end()
            if why is not None and str(why) != str(error):
                raise why from error
            raise
        except UNFORESEEN as error:
            why = self._unforeseen(error)
            self.end()
            raise why from error
        except BaseException:
            self.end()
            raise

    def _confine(self, usable: list[int]) -> None:
        """Gives guests of hosts and pools with processors their own, before any of them is started."""
        own = shares(self.plan, usable)
        if own is None:
            what = f"hosts and pools have more processors than the {len(usable)} that are left for guests"
            raise MachineError("pools", what, "make them smaller")
        if own.guests:
            confinement = Confinement(self.plan, self.lowered, own, self._groups.read_back, self._machines)
            confinement.begin(self.leader.control)
            self._guests.running.append(confinement)

    def _machines(self) -> list[MachineThere]:
        """The machines of guests that move, with the processors on which each of their threads may run."""
        every = list(self._guests.machines_at())
        numbers = threads.ours(self.leader.number) if every else {}
        return [
            MachineThere(guest, host, tuple(threads.masks(numbers[inside])) if inside in numbers else ())
            for guest, host, inside in every
        ]

    def _look_at_processors(self) -> None:
        """Reads back where guests run that have processors. MachineError when something of one runs elsewhere."""
        confinement = self._guests.confinement
        if confinement is not None:
            for error in confinement.look(self.leader.control):
                raise error
            self._note_processors()

    def _note_processors(self) -> None:
        """What the last look at processors found is part of how the world was built."""
        if (confinement := self._guests.confinement) is not None:
            objects = {**self.realised.objects, **confinement.objects()}
            self.realised = replace(self.realised, objects=objects)

    def _unforeseen(self, error: Exception) -> VirtlabError:
        """An unforeseen error fails the run and not the campaign, and names the agent that spoke last."""
        guest = self._guests.whose(self.leader.control.heard)
        what = one_line(f"{type(error).__name__}: {error}")
        why = AgentError(f"guests.{guest}" if guest is not None else "session", what, CURE_UNFORESEEN)
        why.artefacts |= dict(self._guests.artefacts())
        why.artefacts[DEFECT] = "".join(traceback.format_exception(error)).encode(errors="replace")
        return why

    def _death(self) -> VirtlabError | None:
        """The root cause, if the machine that carries the world, a host or a daemon died."""
        return self._site.death()

    def _death_behind(self, error: VirtlabError) -> VirtlabError | None:
        """The death behind an error, if there was one, or who was silent; whichever of both is raised hands over what
        the guests said.
        """
        why = self._death()
        if why is None:
            why = self._guests.behind(error, self._site.silent)
        error.artefacts |= dict(self._guests.artefacts())
        if why is not None:
            why.artefacts |= error.artefacts
        return why

    def run(self, trial: Trial, sink: Sink) -> Outcome:
        """Plays the timeline once. AgentError when the leader dies; GuestError when a role cannot be armed."""
        one = Pass(
            self.leader.control,
            trial.plan(self.plan),
            self.lowered,
            self._probes,
            trial,
            sink,
            self._observe,
            self._guests,
            self._site,
        )
        try:
            outcome = one.play()
            self._note_processors()
            return outcome
        except VirtlabError as error:
            why = self._death_behind(error)
            if why is not None:
                raise why from error
            if said := (self.leader.tail() if not self.leader.control.open else ""):
                error.add_note(said)
            raise
        except UNFORESEEN as error:
            raise self._unforeseen(error) from error

    def leaders(self) -> dict[str, tuple[int, int]]:
        """Guests with a leader of their own: its channel, and the last of its range."""
        return {
            name: (reach.leader, reach.channels[-1])
            for name, reach in self._guests.leaders().items()
            if reach.channels is not None
        }

    def groups(self) -> dict[str, list[str]]:
        """Guests with control groups that we made: files by which a process joins them."""
        leaders = self._guests.leaders()
        return {name: list(files) for name, files in self._guests.tasks.items() if name not in leaders}

    def processors(self) -> dict[str, list[int]]:
        """Guests that run on processors of their own, or of their pool."""
        confinement = self._guests.confinement
        return {name: list(cpus) for name, cpus in confinement.shares.guests.items()} if confinement else {}

    def describe(self) -> Access:
        """Guests with their addresses."""
        addresses = {
            name: tuple(text for vnic in guest.vnics.values() for text in vnic.ip)
            for name, guest in self.plan.world.guests.items()
        }
        return Access(addresses)

    def end(self) -> None:
        """Takes the world down; a second call does nothing."""
        self._guests.close()
        self.leader.end()
        self._groups.remove()
        self._sleep_again()

    def _sleep_again(self) -> None:
        if self._awake is not None:
            os.close(self._awake)
            self._awake = None

    def leave(self) -> None:
        """Lets go of a kept world without ending it; what outlives it stays in the ledger."""
        self._guests.close()
        self.leader.control.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
