"""`LabVm`: the Backend that plays Plans inside the laboratory machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from virtlab.agents import Notice
from virtlab.errors import GuestError, MachineError
from virtlab.plan import Capabilities, Observer, Plan, Refusal, Session, Unobserved
from virtlab.planner.timeline import plan_length_ns
from virtlab.testbed.backend import Testbed
from virtlab.testbed.build.machine import fingerprint, versions
from virtlab.testbed.image import Image, boot_image, programs
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.kinds.container_home import Home
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.lab import findings
from virtlab.testbed.lab.groups import GroupsInside
from virtlab.testbed.lab.rules import FLAVOUR, LAB_VM, capabilities, refusals
from virtlab.testbed.lab.vm import INSIDE, PROCESS, WORLD_PROCESS, LabMachine
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.groups import Bounds
from virtlab.testbed.platforms.qemu.acceleration import accelerator
from virtlab.testbed.session import TestbedSession
from virtlab.testbed.site import LEAD_NS, WorldLeader
from virtlab.testbed.vswitches import ovs

PATIENCE = 4
BOOT_NS = 5_000_000_000


class LabSite:
    """A machine that runs, as a place to build worlds in; and what watches that it lives."""

    patience = PATIENCE
    lead_ns = PATIENCE * LEAD_NS
    asks = True

    def __init__(self, machine: LabMachine) -> None:
        self.machine = machine
        self.emulated = machine.facts.accelerator == "tcg"

    def start(self, *, cpus: Sequence[int], keep: bool) -> WorldLeader:
        """A leader in a new world inside."""
        if cpus or keep:
            where = self.machine.where
            raise MachineError(where, "keeps no world and pins none", f"leave out --in {where}")
        return self.machine.world()

    def now(self) -> int:
        """The clock of the kernel inside, which all agents there share."""
        return self.machine.now()

    def bound_ns(self) -> int:
        """How far off our reckoning of that clock may be."""
        return int(self.machine.clocks()["bound_ns"])

    def compare_clocks(self) -> None:
        """Before and after a trial."""
        self.machine.compare_clocks()

    def clocks(self) -> Mapping[str, Any]:
        """How far our clock, by which actions are begun, is from the run's."""
        return {self.machine.where: self.machine.clocks()}

    def conditions(self, hello: Mapping[str, Any]) -> dict[str, str]:
        """The kernel inside and its processor; the machine's own kernel as `host_kernel`."""
        here = versions(hello)
        return {**here, "host_kernel": here["kernel"], **self.machine.facts.texts()}

    def bounds(self, control: Control) -> Bounds:
        """Control groups of the kernel inside."""
        return GroupsInside(control)

    def container_home(self, bounds: Bounds) -> Home | None:
        """What was taken along for containers, at its places inside."""
        found = runtime.find(among=runtime.OCI)
        if found is None or not isinstance(bounds, GroupsInside):
            return None
        return Home(
            runtime.Runtime(found.name, f"/bin/{found.name}", pivots=False),
            runtime.version(found.path),
            "/bin/virtlab-agent",
            Path("/bin/busybox"),
            lambda: None,
            bounds.account,
            before="mkdir -p /mnt && ",
            place="/mnt",
            swaps=lambda: False,  # it has none
            counts=lambda: True,
            patience=PATIENCE,
        )

    def running(self) -> list[Running]:
        """The machine."""
        return [Watched(self.machine)]

    def death(self) -> GuestError | None:
        """The cause, if the machine ended."""
        return self.machine.death()

    def carrier(self, channel: int) -> str:
        """The machine, whose process is its QEMU."""
        return self.machine.where if channel == PROCESS else ""

    def silent(self) -> str:
        """No other run is given this machine: it may stand still for good."""
        self.machine.silent = True
        return self.machine.where


class Watched(Running):
    """The machine among what runs in a session: it is no guest, but all guests live in it."""

    def __init__(self, machine: LabMachine) -> None:
        self._machine = machine

    def ended(self, exited: Notice) -> GuestError | None:
        """The error that the machine ended, or the leader of the world inside; None of anything else."""
        channel = int(exited.details["channel"])
        if channel in {0, WORLD_PROCESS}:
            return self._machine.death() or GuestError(
                self._machine.where, "the leader of the world inside is gone"
            )
        if channel in {PROCESS, INSIDE} or channel < 0:
            return self._machine.death()
        return None

    def deaths(self) -> Iterator[GuestError]:
        """The death of the machine, heard of or not."""
        if (death := self._machine.death()) is not None:
            yield death

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Its console."""
        yield f"console-{self._machine.where}.log", self._machine.console


class LabVm:
    """The whole experiment inside one virtual machine, which is booted when it is first needed and lives until `close`.

    A machine that died, or answered no more, is replaced by another at the next run.
    """

    rules = LAB_VM
    machines: type[LabMachine] = LabMachine

    def __init__(self) -> None:
        self._machine: LabMachine | None = None
        self._tried: Findings | None = None
        self._image: Image | None = None
        self._accelerator = ""

    def capabilities(self) -> Capabilities:
        """The kinds that work inside, as found by trying them there."""
        lacking = self.rules.lacking()
        if lacking is not None:
            found = Findings((lacking, ""), {}, root=False, has_ipv6=False, switch_qdiscs=())
            return capabilities(found, fingerprint(), self.rules)
        return capabilities(self._findings(), self._fingerprint(), self.rules)

    def check(self, plan: Plan) -> list[Refusal]:
        """Every reason not to open this Plan inside, each with its cure."""
        lacking = [Refusal(self.rules.where, what, cure) for what, cure in self.rules.missing()]
        if lacking:
            return lacking
        return refusals(plan, self._findings(), self.rules)

    def estimate_ns(self, plan: Plan) -> int:
        """As in a world here, several times slower, and a share of booting."""
        building = Testbed().estimate_ns(plan) - plan_length_ns(plan)
        return PATIENCE * building + plan_length_ns(plan) + (0 if self._machine else BOOT_NS)

    def open(self, plan: Plan, observe: Observer) -> Session:
        """Builds the world inside. MachineError or GuestError when that fails; nothing of the world is left."""
        found = self._findings(observe)
        machine = self._running(observe)
        return TestbedSession(plan, found.machine, observe, site=LabSite(machine))

    def close(self) -> None:
        """Ends the machine; a second call does nothing."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def _booted(self) -> tuple[Image, str]:
        if self._image is None:
            self._image = self._made()
            self._accelerator = accelerator(self._image.kernel.program)
        return self._image, self._accelerator

    def _made(self) -> Image:
        # Open vSwitch and a container runtime go along where they are installed here; the rest works without.
        found = dict(programs.paths_of(ovs.PROGRAMS, [ovs.SCHEMA]) or {})
        if (containers := runtime.find(among=runtime.OCI)) is not None:
            found |= programs.paths_of([containers.name]) or {}
        return boot_image(FLAVOUR, carried=None, programs=found)

    def _running(self, observe: Observer) -> LabMachine:
        if self._machine is not None and (self._machine.silent or self._machine.death() is not None):
            self.close()
        if self._machine is None:
            self._machine = self.machines.boot(*self._booted(), observe)
        return self._machine

    def _findings(self, observe: Observer | None = None) -> Findings:
        if self._tried is None:
            image, accelerated = self._booted()
            self._tried = findings.stored(image, accelerated)
        if self._tried is None:
            # An idle machine would disturb the run that holds this one now, so it does not stay.
            with self.machines.boot(image, accelerated, observe or Unobserved()) as machine:
                self._tried = findings.find(machine, image)
        return self._tried

    def _fingerprint(self) -> dict[str, str]:
        image, accelerated = self._booted()
        here = fingerprint()
        processor = "emulated (TCG) on " if accelerated == "tcg" else "virtual (KVM) on "
        return {
            **here,
            "kernel": image.kernel.version,
            "kernel_package": image.kernel.package,
            "host_kernel": here["kernel"],
            "accelerator": accelerated,
            "cpu": processor + here["cpu"],
        }
