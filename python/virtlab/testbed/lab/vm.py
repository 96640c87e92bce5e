"""The laboratory machine: booted once, led from inside, until it is closed or its starter is gone.

Channels: the world of a run is 0 and above, as for any session. What carries it lies below: the leader of the private
world on this machine, QEMU's process there, its monitor, the leader inside, and the process there that becomes the
leader of a run's world.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

from virtlab.agents import Data
from virtlab.agents.requests.descriptors import AgentDescriptor, StreamDescriptor
from virtlab.agents.requests.every import Bye, Hello, ReadClock
from virtlab.agents.requests.leader import Apply, Exec
from virtlab.errors import AgentError, GuestError, VirtlabError
from virtlab.plan import Observer
from virtlab.testbed.image import Image
from virtlab.testbed.kinds.clock import Reading, read
from virtlab.testbed.leader.channels import OF_A_LABORATORY, OF_A_WORLD_INSIDE
from virtlab.testbed.leader.control import Control, RefusedError
from virtlab.testbed.leader.process import Leader
from virtlab.testbed.leader.run_clock import raw_ns
from virtlab.testbed.platforms.qemu import command, confinement
from virtlab.testbed.platforms.qemu.machines import CURE_START, Started
from virtlab.testbed.platforms.qemu.monitor import Monitor
from virtlab.testbed.steps.operations import HomeAdd, NamespaceAdd

OUTER, PROCESS, MONITOR, INSIDE, WORLD_PROCESS = -5, -4, -3, -2, -1
BOOT_TIMEOUT_S = 300.0  # a loaded machine needs twenty times as long as a quiet one
END_TIMEOUT_S = 20.0
LOOK_S = 0.1
WHERE = "lab-vm"
NAMESPACE = "lab"
HOME = "home"
VCPUS = 2
MEMORY_BYTES = 768 << 20
FIRST_DESCRIPTOR = 3
CURE_FACTS = "see what `virtlab doctor` says of virtual machines on this computer"
CURE_CANCELLED = "run the same command again: it resumes"


class LabCommand(command.Machine):
    """Its command line: no port; what Open vSwitch needs of the kernel is always loaded: one kernel for all."""

    def drivers(self) -> list[str]:
        """busybox follows no soft dependency: Open vSwitch's datapath wants the checksum to be there before it."""
        return [*super().drivers(), "crc32c_generic", "openvswitch", "tun"]


@dataclass(frozen=True, slots=True)
class Facts:
    """The properties of a machine that a run's record holds."""

    kernel: str
    kernel_package: str
    accelerator: str
    qemu: str
    vcpus: int
    memory_bytes: int

    def texts(self) -> dict[str, str]:
        """The properties as conditions of a run."""
        return {
            "kernel": self.kernel,
            "kernel_package": self.kernel_package,
            "accelerator": self.accelerator,
            "emulated_cpu": "yes" if self.accelerator == "tcg" else "no",
            "qemu": self.qemu,
            "lab_vcpus": str(self.vcpus),
            "lab_memory_bytes": str(self.memory_bytes),
        }


class LabMachine:
    """A machine that runs. Leaving it ends it with everything in it."""

    where: ClassVar[str] = WHERE
    boot_timeout_s: ClassVar[float] = BOOT_TIMEOUT_S
    has_xen: ClassVar[bool] = False
    memory_bytes: ClassVar[int] = MEMORY_BYTES

    def __init__(self, outer: Leader, started: Started, facts: Facts) -> None:
        self.outer = outer
        self.control: Control = outer.control
        self.facts = facts
        self._started = started
        self.silent = False  # it did not answer when it was asked in a run
        self._readings: list[Reading] = []

    @classmethod
    def boot(cls, image: Image, accelerator: str, observe: Observer) -> Self:
        """Boots one. GuestError with the end of its console when it does not come up; nothing is left then."""
        observe.progress("boot the laboratory machine")
        outer = Leader.start(at=OUTER)
        started = Started(cls.where, PROCESS)
        try:
            control = outer.control
            control.call(Apply([NamespaceAdd(NAMESPACE).json()]), channel=OUTER)
            control.listen(PROCESS, started.hear)
            monitor = Monitor(control, MONITOR, cls.where, started.tail)
            started.monitor = monitor
            wanted = cls.wanted(image, accelerator)
            descriptors = [
                AgentDescriptor(INSIDE - OUTER, OF_A_LABORATORY),
                StreamDescriptor(MONITOR - OUTER),
            ]
            program = Exec(PROCESS, NAMESPACE, wanted.argv(), descriptors=descriptors)
            try:
                control.call(program, channel=OUTER)
            except RefusedError as error:
                what = f"its virtual machine cannot be started: {error.what}"
                raise GuestError(cls.where, what, CURE_START) from error
            _await_hello(control, started, observe, cls.boot_timeout_s)
            control.call(Apply([HomeAdd(HOME).json()]), channel=INSIDE)
            facts = cls.facts_of(monitor, image, accelerator)
            made = cls(outer, started, facts)
            made.compare_clocks()
        except BaseException as error:
            if isinstance(error, VirtlabError):
                error.artefacts[f"console-{cls.where}.log"] = bytes(started.console)
            if started.monitor is not None:
                started.monitor.close()
            outer.end()
            raise
        return made

    @classmethod
    def booted(cls, image: Image) -> Callable[..., command.Machine]:
        """The command line, but for what every laboratory machine has."""
        return partial(LabCommand, kernel=str(image.kernel.program))

    @classmethod
    def wanted(cls, image: Image, accelerator: str) -> command.Machine:
        """The machine that QEMU is to make."""
        return cls.booted(image)(
            name=cls.where,
            initramfs=str(image.initramfs),
            accelerator=accelerator,
            vcpus=VCPUS,
            memory_bytes=cls.memory_bytes,
            ports=(),
            agent=FIRST_DESCRIPTOR,
            monitor=FIRST_DESCRIPTOR + 1,
            account=confinement.account(0),
        )

    @classmethod
    def facts_of(cls, monitor: Monitor, image: Image, accelerator: str) -> Facts:
        """What QEMU says that it runs. GuestError when that is not what was wanted."""
        return _facts(monitor, image, accelerator, cls.where)

    def world(self) -> LabWorld:
        """A leader in a new world inside."""
        return LabWorld(self)

    @property
    def console(self) -> bytes:
        """The output of its console so far."""
        return bytes(self._started.console)

    def death(self) -> GuestError | None:
        """How it ended, with the end of its console; None while it lives."""
        how = self.control.ended(PROCESS)
        if how is None and self.control.open and self.control.ended(INSIDE) is not None:
            self._drain()
            how = self.control.ended(PROCESS) or "its leader gone"
        if how is None and self.control.open:
            return None
        return GuestError(self.where, self._started.death(how or "the world that carried it"))

    def now(self) -> int:
        """Its clock: ours and the offset that was found last."""
        return raw_ns() + self._readings[-1].offset_ns

    def compare_clocks(self) -> None:
        """Asks it for its time; the answer that took the least counts."""
        reading = read(lambda: self.control.call(ReadClock(), channel=INSIDE)["raw_ns"], raw_ns)
        self._readings = [*self._readings[-1:], reading]

    def clocks(self) -> dict[str, Any]:
        """Offset from ours, drift since the reading before, and how far it may be off."""
        first, last = self._readings[0], self._readings[-1]
        passed = last.at_ns - first.at_ns
        drift = (last.offset_ns - first.offset_ns) / passed if passed else 0.0
        bound = max(reading.bound_ns for reading in self._readings)
        return {"offset_ns": last.offset_ns, "drift_ppm": drift * 1e6, "bound_ns": bound}

    def close(self) -> None:
        """Ends it; a second call does nothing."""
        if self._started.monitor is not None:
            self._started.monitor.close()
            self._started.monitor = None
            self.outer.end()

    def _drain(self) -> None:
        """Its process ends a moment after its leader."""
        end = time.monotonic() + 2.0
        while self.control.ended(PROCESS) is None and time.monotonic() < end:
            self.control.pump(LOOK_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LabWorld:
    """The leader of one run's world inside the machine; it is a child of the leader inside."""

    rootless = False
    number = 0

    def __init__(self, machine: LabMachine) -> None:
        self._carrier = machine
        self.control = machine.control
        self._errors = bytearray()
        self._over = False
        control = machine.control
        control.renew(WORLD_PROCESS)
        control.listen(WORLD_PROCESS, self._hear)
        argv = ["virtlab-agent", "leader", "--control-fd", str(FIRST_DESCRIPTOR)]
        descriptors = [AgentDescriptor(-INSIDE, OF_A_WORLD_INSIDE)]
        control.call(Exec(WORLD_PROCESS, HOME, argv, descriptors=descriptors), channel=INSIDE)
        self.hello = control.greet()

    def tail(self) -> str:
        """The end of its standard error."""
        return self._errors.decode(errors="replace").strip()

    def end(self) -> None:
        """Ends the world and waits until the kernel inside has taken it down."""
        if self._over:
            return
        self._over = True
        if self.control.open and self.control.ended(INSIDE) is None and not self._carrier.silent:
            with contextlib.suppress(AgentError):
                if self.control.ended(0) is None:
                    self.control.call(Bye(), timeout_s=END_TIMEOUT_S)
                deadline = time.monotonic() + END_TIMEOUT_S
                # Both, or the later one would be taken for the end of the next world.
                while not self._gone() and time.monotonic() < deadline:
                    if not self.control.pump(LOOK_S) and not self.control.open:
                        break
            self.control.listen(WORLD_PROCESS, None)

    def _gone(self) -> bool:
        """Whether it heard that both ended: its process, and the stream through it."""
        return all(self.control.ended(channel) is not None for channel in (WORLD_PROCESS, 0))

    def _hear(self, data: Data) -> None:
        if data.stream == 2:
            self._errors += data.content
            del self._errors[:-4096]


def _await_hello(control: Control, started: Started, observe: Observer, timeout_s: float) -> None:
    where = started.name
    hello = control.send(Hello(), channel=INSIDE)
    deadline = time.monotonic() + timeout_s
    while not control.answered(hello):
        left = deadline - time.monotonic()
        if left <= 0:
            what = f"did not boot within {timeout_s:g} s; its console ends with: {started.tail()}"
            raise GuestError(where, what, "see its console")
        if observe.cancelled():
            raise GuestError(where, "was still booting when the run was cancelled", CURE_CANCELLED)
        how = control.ended(PROCESS)
        if how is not None:
            raise GuestError(where, started.death(how), "see its console")
        control.await_news(min(LOOK_S, left))
    control.wait(hello)


def _facts(monitor: Monitor, image: Image, accelerator: str, where: str) -> Facts:
    monitor.connect()
    version = monitor.execute("query-version")["qemu"]
    processors = len(monitor.execute("query-cpus-fast"))
    has = "kvm" if monitor.execute("query-kvm")["enabled"] else "tcg"
    if (has, processors) != (accelerator, VCPUS):
        what = f"has {processors} processors by {has}, not {VCPUS} by {accelerator}"
        raise GuestError(where, what, CURE_FACTS)
    return Facts(
        kernel=image.kernel.version,
        kernel_package=image.kernel.package,
        accelerator=has,
        qemu=".".join(str(version[part]) for part in ("major", "minor", "micro")),
        vcpus=processors,
        memory_bytes=int(monitor.execute("query-memory-size-summary")["base-memory"]),
    )
