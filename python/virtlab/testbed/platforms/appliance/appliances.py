"""The appliances of a session: booted by QEMU inside the private world, talked through their consoles, watched from
outside.

An appliance is ready when the last line of its recipe was answered. Its disk is only read: what it writes goes to a
file without a name that ends with its process. One that is reset by its button boots from what it has written, and
its recipe is played on its console once more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.agents import Data, Notice
from virtlab.agents.requests.descriptors import StreamDescriptor, TapDescriptor
from virtlab.agents.requests.leader import Exec
from virtlab.catalogue.declaration import VCPUS
from virtlab.errors import GuestError, MachineError
from virtlab.plan import Observer, Plan
from virtlab.testbed.image import find
from virtlab.testbed.image.disk import escaped, fingerprint, of_kind
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.kinds.reach import OURS, Reach
from virtlab.testbed.leader.channels import APPLIANCES
from virtlab.testbed.leader.control import Control, RefusedError, ending
from virtlab.testbed.platforms.appliance import iso
from virtlab.testbed.platforms.appliance import recipe as recipes
from virtlab.testbed.platforms.appliance.console import Talk, Wanted
from virtlab.testbed.platforms.appliance.recipe import Recipe
from virtlab.testbed.platforms.qemu import confinement
from virtlab.testbed.platforms.qemu.acceleration import accelerator
from virtlab.testbed.platforms.qemu.command import DEFAULT_MODEL, DEVICES, MIB, PROGRAM, processor
from virtlab.testbed.platforms.qemu.machines import CURE_START, Started
from virtlab.testbed.platforms.qemu.monitor import Monitor

LOOK_S = 0.05
_FIRST_DESCRIPTOR = 3


@dataclass(slots=True)
class Appliance:
    """One appliance that runs. Its console is kept as of any machine."""

    started: Started
    recipe: Recipe
    talk: Talk
    outbox: bytearray = field(default_factory=bytearray)

    def hear(self, data: Data) -> None:
        """Keeps what it says and finds what to say."""
        self.started.hear(data)
        if data.stream == 1:
            self.outbox += self.talk.hear(data.content, time.monotonic_ns())


@dataclass(slots=True)
class Appliances(Running):
    """All appliances of a session."""

    control: Control
    plan: Plan
    lowered: Lowered
    names: Sequence[str]
    tasks: Mapping[str, list[str]] = field(default_factory=dict)
    running: dict[str, Appliance] = field(default_factory=dict)
    _greeted: set[str] = field(default_factory=set)
    _isos: list[iso.Iso] = field(default_factory=list)

    def start(self, observe: Observer) -> None:
        """Boots and configures all, side by side. GuestError with the console's end when one does not as its recipe
        says.
        """
        names = self.names
        observe.progress(f"boot {len(names)} appliances", 0.0)
        for number, name in enumerate(names):
            self._begin(name, APPLIANCES.at(number))
        self._await(names, observe)

    def reset(self, guest: str, *, held: bool) -> None:
        """Presses its reset button; `held`: it stands still until `restart`. GuestError with its monitor's words."""
        appliance = self.running[guest]
        monitor = self._monitor(guest)
        monitor.execute("stop")  # so that nothing in it answers any more once this returns
        monitor.execute_until("system_reset", "RESET")
        appliance.talk = Talk(_script(appliance.recipe, self.plan, guest), appliance.recipe.fail)
        appliance.outbox.clear()
        if not held:
            monitor.execute("cont")

    def restart(self, guest: str, observe: Observer) -> None:
        """Waits until an appliance that was reset has booted and has its recipe again. GuestError as at first."""
        self._monitor(guest).execute("cont")
        self.running[guest].talk.hear(b"", time.monotonic_ns())
        self._await([guest], observe)

    def _monitor(self, guest: str) -> Monitor:
        """Its monitor, greeted at its first use: only a reset needs one."""
        started = self.running[guest].started
        assert started.monitor is not None
        if guest not in self._greeted:
            started.monitor.connect()
            self._greeted.add(guest)
        return started.monitor

    def _await(self, names: Sequence[str], observe: Observer) -> None:
        """Until the recipes of all of these were played."""
        while True:
            for name in names:
                self._judge(self.running[name])
                self._say(self.running[name])
            ready = sum(self.running[name].talk.over for name in names)
            observe.progress(f"boot {len(names)} appliances", ready / len(names))
            if ready == len(names):
                return
            if observe.cancelled():
                raise GuestError("guests", "appliances were still booting when the run was cancelled")
            self.control.await_news(LOOK_S)

    def guests(self) -> Mapping[str, Reach]:
        """They have no agent: nothing can be reached there."""
        return dict.fromkeys(self.running, OURS)

    def guest_of(self, channel: int) -> str | None:
        """The guest whose process or monitor has the channel."""
        return (
            list(self.running)[(channel - APPLIANCES.first) // APPLIANCES.each]
            if channel in APPLIANCES.span
            else None
        )

    def ended(self, exited: Notice) -> GuestError | None:
        """Which appliance ended, with the end of its console."""
        for name, appliance in self.running.items():
            if int(exited.details["channel"]) == appliance.started.process:
                return _death(name, appliance, ending(exited))
        return None

    def deaths(self) -> Iterator[GuestError]:
        """The death of each appliance that ended, heard of or not."""
        for name, appliance in self.running.items():
            if (how := self.control.ended(appliance.started.process)) is not None:
                yield _death(name, appliance, how)

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What was booted; its configuration is in its console."""
        appliance = self.running[guest]
        return appliance.started.applied, {"exchanges": len(appliance.talk.script)}

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Consoles."""
        for name, appliance in self.running.items():
            yield f"console-{name}.log", bytes(appliance.started.console)

    def close(self) -> None:
        """Takes leave of the monitors, and removes the ISO images: who boots from one has opened it."""
        for appliance in self.running.values():
            if appliance.started.monitor is not None:
                appliance.started.monitor.close()
                appliance.started.monitor = None
        while self._isos:
            self._isos.pop().close()

    def _begin(self, name: str, channel: int) -> None:
        guest = self.plan.world.guests[name]
        recipe = recipes.load(str(guest.image))
        talk = Talk(_script(recipe, self.plan, name), recipe.fail)
        appliance = Appliance(Started(name, channel), recipe, talk)
        taps = self.lowered.machines[name].taps
        kernel = recipe.kernel
        boots = recipe.disk or kernel
        assert boots is not None
        cloud = find("cloud")
        accelerated = accelerator(kernel or (cloud.image if cloud is not None else Path("/")))
        vcpus, memory_bytes = guest.vcpus or VCPUS, guest.memory_bytes or recipe.memory_bytes
        models = {own: vnic.model or DEFAULT_MODEL for own, vnic in guest.vnics.items()}
        argv = [
            PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc", *processor(accelerated),
            "-name", f"guest={name.replace(',', ',,')},debug-threads=on", "-smp", str(vcpus),
            "-m", f"{-(-memory_bytes // MIB)}M",
            "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console", "-device", "virtio-rng-pci",
            "-chardev", f"socket,id=monitor,fd={_FIRST_DESCRIPTOR}", "-mon", "chardev=monitor,mode=control",
            *confinement.words(confinement.account(channel)), *_booted(recipe),
        ]  # fmt: skip
        if recipe.iso:
            files = {file: recipes.filled(text, recipe, self.plan, name) for file, text in recipe.iso.items()}
            self._isos.append(iso.write(files, recipe.label))
            argv += [
                "-drive",
                f"file={escaped(self._isos[-1].path)},format=raw,media=cdrom,readonly=on",
            ]
        for number, own in enumerate(taps):
            argv += ["-netdev", f"tap,id=net{number},fd={_FIRST_DESCRIPTOR + 1 + number}"]
            argv += [
                "-device",
                f"{DEVICES[models[own]]},netdev=net{number},mac={guest.vnics[own].mac},romfile=",
            ]
        descriptors = [
            StreamDescriptor(channel + 1),
            *(TapDescriptor(tap.namespace, tap.link) for tap in taps.values()),
        ]
        self.control.listen(channel, appliance.hear)
        appliance.started.monitor = Monitor(
            self.control, channel + 1, f"guests.{name}", appliance.started.tail
        )
        self.running[name] = appliance
        try:
            program = Exec(
                channel,
                self.lowered.guests[name],
                argv,
                descriptors=descriptors,
                cgroups=list(self.tasks.get(name, ())),
            )
            appliance.started.pid = self.control.call(program)["pid"]
        except RefusedError as error:
            what = f"its appliance cannot be started: {error.what}"
            raise GuestError(f"guests.{name}", what, CURE_START) from error
        appliance.started.applied = {
            "recipe": recipe.name,
            "accelerator": accelerated,
            "emulated_cpu": accelerated == "tcg",
            "vcpus": vcpus,
            "memory_bytes": memory_bytes,
            "vnic_models": list(models.values()),
            "boots": boots.name,
            "boots_sha256": fingerprint(boots),
        }
        appliance.talk.hear(b"", time.monotonic_ns())

    def _say(self, appliance: Appliance) -> None:
        if appliance.outbox:
            content, appliance.outbox = bytes(appliance.outbox), bytearray()
            self.control.data(appliance.started.process, content)

    def _judge(self, appliance: Appliance) -> None:
        started, talk = appliance.started, appliance.talk
        where = f"guests.{started.name}"
        if talk.refused is not None:
            raise GuestError(where, f"its console refused: {talk.refused}", "see its recipe and its console")
        if (how := self.control.ended(started.process)) is not None:
            raise _death(started.name, appliance, how)
        late = talk.late(time.monotonic_ns())
        if late is not None:
            what = f"its console did not say {late.expect.pattern!r} ({late.description}) within {late.timeout_ns / 1e9:g} s"
            raise GuestError(where, f"{what}; it ends with: {started.tail()}", "see its recipe")


def _death(name: str, appliance: Appliance, how: str) -> GuestError:
    return GuestError(f"guests.{name}", appliance.started.death(how), "see its console")


def _script(recipe: Recipe, plan: Plan, guest: str) -> list[Wanted]:
    """A recipe's steps line by line; after each line but the last of a step the prompt is waited for, and at the
    end too.
    """
    out = []
    answer: Wanted | None = None
    for number, step in enumerate(recipe.steps, 1):
        lines = recipes.filled(step.send, recipe, plan, guest).splitlines() or [""]
        out.append(Wanted(step.expect, lines[0], step.timeout_ns, f"step {number}"))
        for line, before in zip(lines[1:], lines, strict=False):
            if recipe.prompt is None:
                what = f"step {number} of recipe {recipe.name} sends several lines"
                raise MachineError(f"guests.{guest}.image", what, "give the recipe a 'prompt'")
            out.append(Wanted(recipe.prompt, line, step.timeout_ns, f"after '{before}'"))
        answer = (
            Wanted(recipe.prompt, None, step.timeout_ns, f"after '{lines[-1]}'") if recipe.prompt else None
        )
    return [*out, answer] if answer is not None else out


def _booted(recipe: Recipe) -> list[str]:
    if recipe.disk is not None:
        return of_kind(f"appliance {recipe.name}", recipe.disk, recipe.format).drive()
    initramfs = ["-initrd", str(recipe.initramfs)] if recipe.initramfs is not None else []
    return ["-kernel", str(recipe.kernel), *initramfs, "-append", recipe.append]
