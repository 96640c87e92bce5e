"""The laboratory machine with Xen: the hypervisor is booted, and all that a laboratory machine is, is its domain 0.

QEMU starts the hypervisor by the multiboot protocol, with domain 0's kernel and initial file system as its modules.
Inside, the agent is domain 0's first process, and worlds are built there as in any laboratory machine; guests of
platform `xen` are domains beside it. A domain outlives its starter: when a world is over, all are destroyed.
Experimental.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar

from virtlab.agents.requests.leader import Exec
from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.platforms.xen import XEN
from virtlab.errors import AgentError, GuestError
from virtlab.plan import Plan, Refusal
from virtlab.testbed.image import Image
from virtlab.testbed.image.xen import BUILD, SCRIPTS, XenImage, xen_image, xen_missing
from virtlab.testbed.lab.backend import LabVm
from virtlab.testbed.lab.rules import Rules
from virtlab.testbed.lab.vm import (
    HOME,
    INSIDE,
    LOOK_S,
    VCPUS,
    WORLD_PROCESS,
    Facts,
    LabMachine,
    LabWorld,
)
from virtlab.testbed.leader.control import RefusedError, outcome
from virtlab.testbed.platforms.qemu import command
from virtlab.testbed.platforms.qemu.monitor import Monitor
from virtlab.testbed.platforms.xen.platform import MEMORY_MAX_BYTES, memory_refusals

WHERE = XEN.hypervisor
DOMAIN_0_BYTES = 512 << 20
HYPERVISOR_BYTES = 128 << 20
MEMORY_BYTES = DOMAIN_0_BYTES + MEMORY_MAX_BYTES + HYPERVISOR_BYTES
TRANSLATION_MIB = 128  # a hypervisor and several kernels want more of it than one
BOOT_TIMEOUT_S = 600.0
DOMAIN_NS = 20_000_000_000
SWEEP = WORLD_PROCESS  # channel of the command that destroys domains: the world's leader is gone by then
SWEEP_TIMEOUT_S = 120.0


def _requirements() -> Iterator[tuple[str, str]]:
    if (why := xen_missing()) is not None:
        yield why, f"run `{BUILD}`"


RULES = Rules(
    WHERE,
    lambda platform: platform.hypervisor == WHERE or (platform.inside and platform.is_stack),
    "the laboratory machine with Xen holds its domains, namespaces, and native guests",
    _requirements,
)


@dataclass(frozen=True, slots=True)
class XenCommand(command.Machine):
    """QEMU's command line: a hypervisor, and two modules for it. A comma within a module's words is doubled."""

    hypervisor: str = ""

    def _processor(self) -> list[str]:
        # Domain 0 dies on a processor that has everything an emulator can offer.
        by = f"tcg,thread=multi,tb-size={TRANSLATION_MIB}" if self.accelerator == "tcg" else self.accelerator
        return ["-accel", by, "-cpu", "qemu64"]

    def _booted(self) -> list[str]:
        domain_0 = ["console=hvc0", "quiet", "panic=-1", "nokaslr", "mitigations=off", "audit=0"]
        modules = [" ".join([self.kernel, *domain_0]), self.initramfs]
        size = f"{DOMAIN_0_BYTES >> 20}M"
        hypervisor = [
            "console=com1", "com1=115200,8n1", f"dom0_mem={size},max:{size}", f"dom0_max_vcpus={VCPUS}", "loglvl=error",
            "guest_loglvl=error", "bootscrub=0", "smt=1", "spec-ctrl=no",
        ]  # fmt: skip
        initrd = ",".join(module.replace(",", ",,") for module in modules)
        return ["-kernel", self.hypervisor, "-initrd", initrd, "-append", " ".join(hypervisor)]


@dataclass(frozen=True, slots=True)
class XenFacts(Facts):
    """The properties of a machine with Xen."""

    xen: str = ""

    def texts(self) -> dict[str, str]:
        """The properties as conditions of a run."""
        return {
            **Facts.texts(self),
            "hypervisor": self.xen,
            "experimental": "Xen on a machine that QEMU made",
        }


class XenMachine(LabMachine):
    """A machine with Xen that runs."""

    where: ClassVar[str] = WHERE
    boot_timeout_s: ClassVar[float] = BOOT_TIMEOUT_S
    has_xen: ClassVar[bool] = True
    memory_bytes: ClassVar[int] = MEMORY_BYTES
    spoiled: GuestError | None = None  # why no further world can be built in it

    @classmethod
    def booted(cls, image: Image) -> Callable[..., command.Machine]:
        """The hypervisor, and domain 0's kernel."""
        assert isinstance(image, XenImage)
        return partial(XenCommand, kernel=str(image.domain_0), hypervisor=str(image.hypervisor))

    @classmethod
    def facts_of(cls, monitor: Monitor, image: Image, accelerator: str) -> Facts:
        """What QEMU says that it runs, and the hypervisor's package."""
        assert isinstance(image, XenImage)
        said = LabMachine.facts_of(monitor, image, accelerator)
        return XenFacts(**asdict(said), xen=image.xen)

    def world(self) -> LabWorld:
        """A leader in a new world inside; its end is the end of all domains."""
        return XenWorld(self)

    def death(self) -> GuestError | None:
        """The cause, if it ended or cannot be used any more."""
        return LabMachine.death(self) or self.spoiled

    def sweep(self) -> None:
        """Destroys all domains but domain 0."""
        control = self.control
        if not control.open or control.ended(INSIDE) is not None or self.silent:
            return
        how: str | None = "no answer"
        try:
            control.call(Exec(SWEEP, HOME, ["/" + SCRIPTS["sweep"]]), channel=INSIDE)
            deadline = time.monotonic() + SWEEP_TIMEOUT_S
            while (how := control.ended(SWEEP)) is None and time.monotonic() < deadline:
                if not control.pump(LOOK_S) and not control.open:
                    break
        except (RefusedError, AgentError) as error:
            how = str(error)
        control.forget_end(SWEEP)
        if outcome(how) != "code 0":
            self.spoiled = GuestError(WHERE, f"domains could not be destroyed: {how or 'not in time'}")


class XenWorld(LabWorld):
    """The leader of one run's world in domain 0."""

    def __init__(self, machine: XenMachine) -> None:
        self._machine = machine
        LabWorld.__init__(self, machine)

    def end(self) -> None:
        """Ends the world, then its domains."""
        if self._over:
            return
        LabWorld.end(self)
        with contextlib.suppress(GuestError):
            self._machine.sweep()


class XenLab(LabVm):
    """The whole experiment in a machine that boots Xen; as the laboratory machine beside it, with domains."""

    rules = RULES
    machines = XenMachine

    def check(self, plan: Plan) -> list[Refusal]:
        """Every reason not to open this Plan inside."""
        found = LabVm.check(self, plan)
        return found or list(memory_refusals(plan))

    def estimate_ns(self, plan: Plan) -> int:
        """As in a laboratory machine, and what its domains take to start, two at a time."""
        domains = sum(PLATFORMS[guest.platform].hypervisor == WHERE for guest in plan.world.guests.values())
        return LabVm.estimate_ns(self, plan) + domains * DOMAIN_NS

    def _made(self) -> Image:
        return xen_image()
