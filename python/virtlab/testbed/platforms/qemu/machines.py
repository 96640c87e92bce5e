"""The virtual machines of a session: started side by side, ready when their agents answer and their carriers are up.

A machine's process runs in its guest's own network namespace, which is empty: its ports are taps that live where its
host's virtual switch is. Through its serial device a leader inside takes the same Steps as the world's own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from virtlab.agents import Data, Notice
from virtlab.agents.replies import Introduction, Observed
from virtlab.agents.requests.descriptors import (
    AgentDescriptor,
    Descriptor,
    HeirDescriptor,
    StreamDescriptor,
    TapDescriptor,
)
from virtlab.agents.requests.every import Hello, ReadClock
from virtlab.agents.requests.leader import Apply, Disks, Exec, Kill, Observe
from virtlab.agents.requests.switch import MoveStations
from virtlab.catalogue.actions import moves_guest
from virtlab.catalogue.collected import DIRTY_RATE
from virtlab.catalogue.declaration import VCPUS
from virtlab.errors import AgentError, GuestError, MachineError
from virtlab.plan import Action, Columns, Observer, Plan, SeriesRequest
from virtlab.planner.mobility.moves import (
    BANDWIDTH_BYTE_PER_S,
    COLD,
    MIRRORED,
    copies,
    disk_of_move,
    mirrors,
    mode_of,
    moves,
    source_of,
)
from virtlab.testbed.build import networks
from virtlab.testbed.build import world as build
from virtlab.testbed.build.stored_disks import disk_entity
from virtlab.testbed.image import Image, boot_image, find, firmware
from virtlab.testbed.image.disk import Disk, look
from virtlab.testbed.kinds.clock import GuestClock, Reading, read
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.moved import Moved
from virtlab.testbed.kinds.platform import News, Running
from virtlab.testbed.kinds.reach import Reach
from virtlab.testbed.leader.channels import MACHINES, SWITCH
from virtlab.testbed.leader.control import Control, Pending, RefusedError, ending
from virtlab.testbed.leader.run_clock import raw_ns
from virtlab.testbed.platforms import carriers, plain
from virtlab.testbed.platforms.qemu import command, confinement, kvm
from virtlab.testbed.platforms.qemu.acceleration import accelerator
from virtlab.testbed.platforms.qemu.balloons import Balloons
from virtlab.testbed.platforms.qemu.cold import ColdMove
from virtlab.testbed.platforms.qemu.dirtying import Dirtying, method_of, ring_of
from virtlab.testbed.platforms.qemu.disks import (
    intended_disk,
    joined_disk,
    mirrored_disk,
    served_disk,
)
from virtlab.testbed.platforms.qemu.itinerary import CURE_MOVED, Itinerary
from virtlab.testbed.platforms.qemu.mirroring import Mirror, offer
from virtlab.testbed.platforms.qemu.monitor import Monitor
from virtlab.testbed.platforms.qemu.moves import Moving
from virtlab.testbed.platforms.qemu.moving import (
    COMPLETED,
    LOOK_CLOSELY_NS,
    LOOK_NS,
    Destination,
    Move,
    prepare,
)
from virtlab.testbed.platforms.qemu.recovery import Recovery

BOOT_TIMEOUT_S = 300.0  # a loaded machine needs twenty times as long as a quiet one
CARRIER_TIMEOUT_S = 60.0
CONSOLE_BYTES = 1 << 20
CONSOLE_TAIL_LINES = 12
LOOK_S = 0.1
CURE_REFUSED = "give its kernel what that needs (a discipline is a module sch_NAME, a device its driver)"
CURE = "give it more memory, or see its console"
CURE_LESS = "give it less memory, or use a computer that has more"
CURE_CARRIER = "see in its console whether its kernel has that port's driver; on a busy machine start fewer guests at once"
CURE_START = "see whether qemu-system-x86_64 runs here by hand (Debian: apt install qemu-system-x86)"
CURE_BUILD = "put this one into its image: `virtlab image agent`"
CURE_UNLIKE = "see its console, or ask for what it has, with 'vcpus' and 'memory'"
CURE_DISK = (
    "put our agent into its image and have it started at boot: `virtlab image agent`; or see its console"
)
_FIRST_DESCRIPTOR = 3
# UEFI that finds nothing to boot starts its own shell.
_HOPELESS = ("No bootable device", "No bootable option or device", "EFI Internal Shell", "Kernel panic")


@dataclass(slots=True)
class Started:
    """One machine."""

    name: str
    process: int  # channel
    console: bytearray = field(default_factory=bytearray)
    clock: GuestClock = field(default_factory=GuestClock)
    monitor: Monitor | None = None
    pid: int = 0
    applied: dict[str, Any] = field(default_factory=dict)
    read_back: dict[str, Any] = field(default_factory=dict)
    began_ns: int = 0  # monotonic: when its process was started
    hello: Pending[Introduction] | None = None  # the question that its agent answers first, until it has
    network_setup: build.Sent | None = None  # what its network is, on its way,
    ports_query: Pending[Observed] | None = None  # and behind it the question what its ports are then
    disk: Disk | None = None  # what it boots, when that is no kernel of ours
    wanted: command.Machine | None = None
    # The first of its channels, which stay its own when another process runs it; 0: its process's.
    place: int = 0

    def __post_init__(self) -> None:
        self.place = self.place or self.process

    @property
    def cure(self) -> str:
        """The remedy if it does not come up."""
        return CURE if self.disk is None else CURE_DISK

    @property
    def leader(self) -> int:
        """Channel of the leader inside."""
        return self.place + 2

    @property
    def reach(self) -> Reach:
        """The channels and the clock by which it is reached."""
        return Reach(self.leader, range(self.leader + 1, self.place + MACHINES.each), self.clock)

    def hear(self, data: Data) -> None:
        """Keeps what it says on its console."""
        if data.stream == 1:
            self.console += data.content
            del self.console[: max(0, len(self.console) - CONSOLE_BYTES)]

    def tail(self) -> str:
        """The end of its console, for an error."""
        return " | ".join(self._lines()[-CONSOLE_TAIL_LINES:]) or "nothing"

    def death(self, how: str) -> str:
        """Why its process ended, as far as anybody said."""
        panic = next((line for line in self._lines() if "Kernel panic" in line), None)
        if panic is not None:
            return f"its kernel panicked: {panic}; its console ends with: {self.tail()}"
        return f"its virtual machine ended with {how}; its console ends with: {self.tail()}"

    def died(self, how: str) -> GuestError:
        """The error that its process ended."""
        cure = CURE_LESS if os.strerror(errno.ENOMEM) in how else self.cure
        return GuestError(f"guests.{self.name}", self.death(how), cure)

    def silent(self, error: AgentError) -> GuestError:
        """The error that its agent refused, or said nothing."""
        what = f"{error.what}; its console ends with: {self.tail()}"
        return GuestError(f"guests.{self.name}", what, error.cure or self.cure)

    def without_carrier(self, links: Sequence[str], timeout_s: float) -> GuestError:
        """The error that ports of it stayed down."""
        what = (
            f"{', '.join(links)} had no carrier within {timeout_s:g} s; its console ends with: {self.tail()}"
        )
        return GuestError(f"guests.{self.name}", what, CURE_CARRIER)

    def unlike(self, thing: str, machine: object, wanted: object) -> GuestError:
        """The error that it is not the machine that was requested."""
        what = f"has {thing} {machine}, not {wanted}; its console ends with: {self.tail()}"
        return GuestError(f"guests.{self.name}", what, CURE_UNLIKE)

    def hopeless(self) -> str | None:
        """What it said when it will never come up, though its process lives: a system of somebody's own may stand
        still.
        """
        if self.disk is None:
            return None
        return next((line for line in self._lines() if any(sign in line for sign in _HOPELESS)), None)

    def _lines(self) -> list[str]:
        return plain.lines(self.console)


@dataclass(slots=True)
class Machines(Running):
    """All virtual machines of a session."""

    control: Control
    plan: Plan
    lowered: Lowered
    names: Sequence[str]
    tasks: Mapping[str, list[str]] = field(default_factory=dict)
    machines: dict[str, Started] = field(default_factory=dict)
    _by_channel: dict[int, Started] = field(default_factory=dict)
    _reaches: dict[str, Reach] = field(default_factory=dict)
    now: Callable[[], int] = raw_ns  # the run's clock
    moving: Moving = field(init=False)
    dirtying: Dirtying = field(init=False)
    observe: Observer = field(init=False)  # who watches the session
    balloons: Balloons = field(init=False)

    def __post_init__(self) -> None:
        self.moving = Moving(self.control, self.now)
        self.dirtying = Dirtying(self.now, self._ring_of)
        self.balloons = Balloons(self.plan.world.guests)

    def start(self, observe: Observer) -> None:
        """Boots all of them. GuestError with the end of the console when one does not come up."""
        if shutil.which(command.PROGRAM) is None:
            raise MachineError("guests", f"{command.PROGRAM} is missing", "install qemu-system-x86")
        self.observe = observe
        images: dict[str, tuple[Image, str]] = {}
        disks: dict[str, tuple[Disk, dict[str, object]]] = {}
        names = self.names
        observe.progress(f"boot {len(names)} virtual machines", 0.0)
        for number, name in enumerate(names):
            guest, channel = self.plan.world.guests[name], MACHINES.at(number)
            if guest.image is not None:
                if guest.image not in disks:
                    disk = look(f"guests.{name}.image", guest.image)
                    disks[guest.image] = disk, disk.facts()
                kernel = find("cloud")  # to try with whether the hardware can run machines
                accelerated = accelerator(kernel.image if kernel is not None else Path("/"))
                self._begin(name, channel, None, accelerated, *disks[guest.image])
                continue
            flavour = command.flavour_of(guest)
            if flavour not in images:
                image = boot_image(flavour)
                images[flavour] = image, accelerator(image.kernel.program)
            self._begin(name, channel, *images[flavour])
        for number, (name, actions) in enumerate(self._moving().items()):
            home, spare = self.plan.world.guests[name].host, MACHINES.at(len(names) + number)
            sources = [source_of(self.plan, action) for action in actions]
            self.moving.itineraries[name] = Itinerary(name, home, actions, sources, spare)
            self._begin_destination(self.machines[name], spare, actions[0])
        for machine in self.machines.values():
            self._greet(machine)
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        for done, machine in enumerate(self.machines.values(), start=1):
            self._await_hello(machine, deadline, observe)
            observe.progress(f"boot {len(names)} virtual machines", done / len(names))
        for machine in self.machines.values():
            self._ask_monitor(machine)  # while the agents do their work
        for name, destination in self.moving.destinations.items():
            destination.monitor.connect()
            self.machines[name].read_back |= self._instruct(name, destination)
        for machine in self.machines.values():
            self._await_told(machine, observe)
            self._await_carriers(machine, observe)
        self._fill_balloons(list(self.machines), observe)

    def _fill_balloons(self, names: Sequence[str], observe: Observer) -> None:
        whole = {name: int(self.machines[name].applied["memory_bytes"]) for name in names}
        filled = self.balloons.fill({name: self.monitor(name) for name in names}, whole, observe)
        for name, held_bytes in filled.items():
            self.machines[name].read_back["balloon_bytes"] = held_bytes

    def guests(self) -> Mapping[str, Reach]:
        """The channels and the clock by which each guest is reached."""
        return self._reaches

    def ended(self, exited: Notice) -> GuestError | None:
        """Which machine ended, with the end of its console."""
        channel = int(exited.details["channel"])
        machine = self._by_channel.get(channel)
        if (guest := self.moving.ended(channel)) is not None:
            # Before it runs there, the source says that the move has failed, and it runs on.
            what = f"the machine at its destination ended with {ending(exited)}, and its memory with both"
            return (
                GuestError(f"guests.{guest}", what)
                if any(move.guest == guest and move.there for move in self.moving.under_way.values())
                else None
            )
        # Its other channels end with it.
        return machine.died(ending(exited)) if machine is not None else None

    def deaths(self) -> Iterator[GuestError]:
        """The death of each machine that ended, heard of or not."""
        for machine in self.machines.values():
            if (how := self.control.ended(machine.process)) is not None:
                yield machine.died(how)

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its processor, memory, devices and kernel as asked of QEMU, and as QEMU has them."""
        machine = self.machines[guest]
        return machine.applied, machine.read_back

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Consoles."""
        for name, machine in self.machines.items():
            yield f"console-{name}.log", bytes(machine.console)

    def monitor(self, guest: str) -> Monitor:
        """The monitor of a machine that has started."""
        monitor = self.machines[guest].monitor
        assert monitor is not None
        return monitor

    def sample(self, wanted: Iterable[SeriesRequest]) -> Iterator[Columns]:
        """Ends the measurements of dirty rates, whose rows are returned, and begins others where they are wanted."""
        yield from self.dirtying.end()
        self.dirtying.begin(wanted)

    def conditions(self) -> dict[str, str]:
        """By which method dirty rates are measured."""
        if not self._dirtying_wanted:
            return {}
        return {f"guests.{name}.dirty_rate": method_of(self._ring_of(name)) for name in self.machines}

    @property
    def _dirtying_wanted(self) -> bool:
        return any(each.source == DIRTY_RATE.name for each in self.plan.collect.series)

    def _ring_of(self, name: str) -> int:
        wanted = self.machines[name].wanted
        return wanted.dirty_ring if wanted is not None else 0

    def reset(self, guest: str, *, held: bool) -> None:
        """Presses a machine's reset button; `held`: it stands still until `restart`.

        It stands still meanwhile, so that nothing in it answers any more once this returns. What its kernel was told is
        gone.
        """
        monitor = self.monitor(guest)
        monitor.execute("set-action", {"reboot": "reset"})  # `-no-reboot` would end it
        monitor.execute("stop")
        monitor.execute_until("system_reset", "RESET")
        if not held:
            monitor.execute("cont")

    def restart(self, guest: str, observe: Observer) -> None:
        """Waits until a machine that was reset has booted, and gives it its configuration again."""
        machine = self.machines[guest]
        monitor = self.monitor(guest)
        monitor.execute("cont")
        machine.clock.forget()  # it begins again
        self._greet(machine)
        self._await_hello(machine, time.monotonic() + BOOT_TIMEOUT_S, observe)
        self._await_told(machine, observe)
        self._await_carriers(machine, observe)
        self._fill_balloons([guest], observe)
        monitor.execute("set-action", {"reboot": "shutdown"})

    def close(self) -> None:
        """Takes leave of the monitors."""
        for machine in self.machines.values():
            if machine.monitor is not None:
                machine.monitor.close()
                machine.monitor = None
        for there in self.moving.destinations.values():
            there.monitor.close()
        self.moving.destinations.clear()

    def _begin(
        self,
        name: str,
        channel: int,
        image: Image | None,
        accelerated: str,
        disk: Disk | None = None,
        of_disk: Mapping[str, object] | None = None,
    ) -> None:
        """Starts one: what it boots is either an image of ours, or a disk with its facts."""
        guest = self.plan.world.guests[name]
        machine = Started(name, channel, disk=disk)
        taps = self.lowered.machines[name].taps
        descriptors: list[Descriptor] = [
            AgentDescriptor(machine.leader, MACHINES.each - 2),
            StreamDescriptor(channel + 1),
            *(TapDescriptor(tap.namespace, tap.link) for tap in taps.values()),
            *([served_disk(name, guest, self.plan)] if guest.disk is not None else []),
        ]
        ports = [
            command.Port(
                vnic.mac,
                vnic.model or command.DEFAULT_MODEL,
                _FIRST_DESCRIPTOR + 2 + list(taps).index(vnic_name),
                offloads=vnic.offloads == "default",
            )
            for vnic_name, vnic in guest.vnics.items()
        ]
        started = firmware.find() if guest.firmware == "uefi" else None
        if guest.firmware == "uefi" and started is None:
            raise MachineError(f"guests.{name}.firmware", "no UEFI firmware is installed", firmware.CURE)
        wanted = command.Machine(
            name=name,
            kernel=str(image.kernel.program) if image is not None else "",
            initramfs=str(image.initramfs) if image is not None else "",
            accelerator=accelerated,
            vcpus=guest.vcpus or VCPUS,
            memory_bytes=guest.memory_bytes
            or (
                command.MEMORY_BYTES[image.kernel.flavour] if image is not None else command.DISK_MEMORY_BYTES
            ),
            ports=ports,
            agent=_FIRST_DESCRIPTOR,
            monitor=_FIRST_DESCRIPTOR + 1,
            disk=disk,
            firmware=started,
            own_disk=command.OwnDisk(
                _FIRST_DESCRIPTOR + 2 + len(taps),
                guest.disk.write_cache_bytes > 0,
                written_by_two=mirrors(self.plan, name),
            )
            if guest.disk is not None
            else None,
            balloon=guest.balloon_bytes is not None,
            moves=copies(self.plan, name),
            dirty_ring=ring_of(accelerated, kvm.dirty_ring_entries()) if self._dirtying_wanted else 0,
            account=confinement.account(channel),
        )
        machine.wanted = wanted
        self.control.listen(channel, machine.hear)
        machine.monitor = Monitor(self.control, channel + 1, f"guests.{name}", machine.tail)
        self.machines[name] = machine
        self._by_channel[channel] = machine
        machine.began_ns = time.monotonic_ns()
        try:
            program = Exec(
                channel,
                self.lowered.guests[name],
                wanted.argv(),
                descriptors=descriptors,
                cgroups=list(self.tasks.get(name, ())),
                network=self.lowered.machines[name].network,
                host=guest.host if name in moves(self.plan) else None,
            )
            machine.pid = self.control.call(program)["pid"]
        except RefusedError as error:
            what = f"its virtual machine cannot be started: {error.what}"
            raise GuestError(f"guests.{name}", what, CURE_START) from error
        machine.applied = {
            "accelerator": accelerated,
            "emulated_cpu": accelerated == "tcg",
            "vcpus": wanted.vcpus,
            "memory_bytes": wanted.whole_memory_bytes,
            "vnic_models": [port.model for port in ports],
        }
        if guest.balloon_bytes is not None:
            machine.applied["balloon_bytes"] = guest.balloon_bytes
        if guest.disk is not None:
            machine.applied["disk"] = intended_disk(guest.disk)
        if image is not None:
            machine.applied |= {"kernel": image.kernel.version, "kernel_package": image.kernel.package}
        machine.applied |= of_disk or {}
        if started is not None:
            machine.applied |= started.facts()
        self._reaches[name] = machine.reach

    def _disk_at(self, name: str, action: Action) -> list[Descriptor]:
        """The descriptor of a guest's disk at its destination, if it has one."""
        kind, to = disk_of_move(self.plan, action), str(action.to)
        if kind is None:
            return []
        guest = self.plan.world.guests[name]
        return [mirrored_disk(name, guest, to) if kind == MIRRORED else joined_disk(name, to)]

    def _moving(self) -> dict[str, list[Action]]:
        """Those that move, in the order in which they were started."""
        every = moves(self.plan)
        return {name: every[name] for name in self.names if name in every}

    def _begin_destination(self, machine: Started, channel: int, action: Action) -> None:
        """Starts the machine in which a guest will run, without its memory. It is heard as the guest itself."""
        assert machine.wanted is not None
        name, leg = machine.name, self.lowered.machines[machine.name].legs[action.id]
        taps, cold = leg.there, mode_of(action) == COLD
        wanted = replace(machine.wanted, incoming=not cold, held=cold, account=confinement.account(channel))
        descriptors: list[Descriptor] = [
            HeirDescriptor(machine.leader),
            StreamDescriptor(channel + 1),
            *(TapDescriptor(tap.namespace, tap.link) for tap in taps.values()),
            *self._disk_at(name, action),
        ]
        self.control.listen(channel, machine.hear)
        there = Destination(
            action, channel, Monitor(self.control, channel + 1, f"guests.{name}", machine.tail)
        )
        program = Exec(
            channel,
            self.lowered.guests[name],
            wanted.argv(),
            network=leg.network,
            cpus=self.control.confined_at(self.lowered.guests[name], str(action.to)) or None,
            cgroups=list(self.tasks.get(name, ())),
            descriptors=descriptors,
            host=str(action.to),
        )
        there.uri = leg.copied.uri if leg.copied is not None else ""
        self.moving.destinations[name] = there
        try:
            there.pid = self.control.call(program)["pid"]
        except RefusedError as error:
            what = f"the machine at its destination cannot be started: {error.what}"
            raise GuestError(f"guests.{name}", what, CURE_START) from error

    # Moving

    def renew(self, observe: Observer) -> None:
        """A machine waits for each guest that is where it began; GuestError where it was built for another move."""
        self.moving.waiting.clear()
        for name, itinerary in self.moving.itineraries.items():
            if not itinerary.begin_again():
                continue
            there, action = self.moving.destinations.get(name), itinerary.next()
            if there is not None and action is not None and there.action.id != action.id:
                # It has the taps of another move's destination.
                what = (
                    f"a machine waits for '{there.action.id}', which never began, and '{action.id}' is next"
                )
                raise GuestError(f"guests.{name}", what, CURE_MOVED)
            deadline = time.monotonic() + CARRIER_TIMEOUT_S
            while not self._prepared(name):
                if observe.cancelled() or time.monotonic() > deadline:
                    raise GuestError(f"guests.{name}", "no machine waits at its destination", CURE_START)
                self.control.await_news(LOOK_S)

    def _instruct(self, name: str, there: Destination) -> dict[str, Any]:
        """Both machines of a guest are told how it will move; what was applied."""
        there.ready = True
        if mode_of(there.action) == COLD:
            return {}
        told = prepare(there.action, self.monitor(name), there)
        copied = self.lowered.machines[name].legs[there.action.id].copied
        if disk_of_move(self.plan, there.action) == MIRRORED and copied is not None:
            offer(there.monitor, copied)
        return told

    def _prepared(self, name: str) -> bool:
        """Goes on building the machine to which a guest will move next; whether it waits, or none is wanted."""
        itinerary, there = self.moving.itineraries[name], self.moving.destinations.get(name)
        if there is None:
            if (action := itinerary.next()) is None:
                return True
            if itinerary.free(self.control):
                self._begin_destination(self.machines[name], itinerary.spare, action)
            return False
        if not there.ready and there.monitor.connected():
            self._instruct(name, there)
        return there.ready

    def call(self, action: Action) -> None:
        """A guest begins to move."""
        guest = str(action.guest)
        if not moves_guest(action.do) or guest not in self.machines:
            return
        self.moving.itineraries[guest].check(action)
        there = self.moving.destinations.get(guest)
        if there is None or not there.ready:
            self.moving.waiting[action.id] = action, self.now()
        else:
            self._depart(action, there, 0)

    def _depart(self, action: Action, there: Destination, waited_ns: int) -> None:
        """A guest leaves for a machine that waits for it. GuestError where that waits for another move."""
        guest = str(action.guest)
        if there.action.id != action.id:
            what = f"a machine waits for '{there.action.id}', and '{action.id}' begins"
            raise GuestError(f"guests.{guest}", what, CURE_MOVED)
        machine = self.machines[guest]
        if mode_of(action) == COLD:
            network = self.lowered.guests[guest]
            self.moving.cold[action.id] = ColdMove(
                guest, action, self.monitor(guest), there, machine.leader, network
            )
            self.moving.cold[action.id].begin(self.control, self.now)
            return
        leg = self.lowered.machines[guest].legs[action.id]
        look_ns = LOOK_CLOSELY_NS if leg.changes else LOOK_NS
        move = Move(guest, action, self.monitor(guest), there, machine.leader, look_ns, waited_ns)
        if disk_of_move(self.plan, action) == MIRRORED and leg.copied is not None:
            rate = action.bandwidth_byte_per_s or BANDWIDTH_BYTE_PER_S
            move.mirror = Mirror(guest, self.monitor(guest), leg.copied, rate)
        if action.recover_after_ns is not None:
            move.recovery = Recovery(self.monitor(guest), there.monitor, there.uri, action.recover_after_ns)
        self.moving.under_way[action.id] = move
        move.begin(self.control, self.now)

    def busy(self) -> bool:
        """Whether one moves, or is about to."""
        return bool(self.moving.under_way or self.moving.cold or self.moving.waiting)

    def attend(self) -> Iterator[News]:
        """Looks how far each is, and how fast the others dirty their memory."""
        away = set(self.away())
        at_home = [
            name
            for name, machine in self.machines.items()
            if name not in away and self.control.ended(machine.process) is None
        ]
        self.dirtying.look({name: self.monitor(name) for name in at_home})
        for move in self.moving.due():
            try:
                state = move.look(self.control, self.now)
            except GuestError:
                if self.control.ended(self.machines[move.guest].process) is None:
                    raise
                continue  # it is gone, which the news of its end says
            if move.entries is None and move.there:
                move.entries = self._relocate(move)
            if state == COMPLETED:
                moved = replace(move.arrive(self.now, time.time_ns), entries=move.entries)
                self._settle(move, moved)
                self.moving.moved[move.action.id] = moved
                yield move.action.id, None
            elif state in {"failed", "cancelled"}:
                del self.moving.under_way[move.action.id]
                move.stay(self.control)
                self._stays(move)
                why = f": {move.mirror.failed}" if move.mirror is not None and move.mirror.failed else ""
                what = f"its move {state}{why}; it runs on at {self._host_of(move.guest)}"
                yield move.action.id, GuestError(f"guests.{move.guest}", what)
        yield from self._boot_elsewhere()
        for name in self.moving.itineraries.keys() - set(self.away()):
            if self.control.ended(self.machines[name].process) is None:
                self._prepared(name)
        for action, since_ns in list(self.moving.waiting.values()):
            there = self.moving.destinations.get(str(action.guest))
            if there is not None and there.ready:
                del self.moving.waiting[action.id]
                self._depart(action, there, self.now() - since_ns)

    def _boot_elsewhere(self) -> Iterator[News]:
        """Looks after those that are shut down here and boot there."""
        for move in list(self.moving.cold.values()):
            machine = self.machines[move.guest]
            if not move.there:
                if move.look(self.control, self.now):
                    self._replace(move.guest, move.source)
                    move.entries = self._relocate(move)
                    self._greet(machine)
                continue
            self._tell_awake()
            asked = machine.ports_query
            if machine.hello is not None or asked is None or not self.control.answered(asked):
                continue
            self._await_told(machine, self.observe)
            self._await_carriers(machine, self.observe)
            machine.clock.forget()  # it began again
            machine.clock.add(self._read_clock(machine))
            moved = move.arrive(self.now())
            self.moving.moved[move.action.id] = replace(moved, entries=move.entries)
            del self.moving.cold[move.action.id]
            yield move.action.id, None

    def give_up(self, action: str) -> None:
        """A move took too long: the guest stays."""
        if (waiting := self.moving.waiting.pop(action, None)) is not None:
            self._never_left(str(waiting[0].guest))
        if (cold := self.moving.cold.pop(action, None)) is not None:
            cold.give_up(self.control)
        move = self.moving.under_way.pop(action, None)
        if move is not None:
            move.give_up(self.control)
            self._stays(move)  # else it is closed with the others

    def away(self) -> Iterator[str]:
        """Those that move."""
        yield from (move.guest for move in self.moving.under_way.values() if move.copies_memory)
        yield from (move.guest for move in self.moving.cold.values())

    def machines_at(self) -> Iterator[tuple[str, str, int]]:
        """The machines of guests that move: the one that a guest has, at its host, and the one that waits for it at
        another.
        """
        for name, itinerary in self.moving.itineraries.items():
            here, there = self.machines[name], self.moving.destinations.get(name)
            if self.control.ended(here.process) is None:
                yield name, itinerary.at, here.pid
            if there is not None and self.control.ended(there.process) is None:
                yield name, str(there.action.to), there.pid

    def moved(self, action: str) -> Moved | None:
        """What is known of a move that is over."""
        return self.moving.moved.get(action)

    def _stays(self, move: Move) -> None:
        """A guest is where it was, and the machine at its destination is ending."""
        there = self.moving.destinations.pop(move.guest)
        self.moving.itineraries[move.guest].stayed(there.process)

    def _never_left(self, guest: str) -> None:
        """A move is over before it began: a machine that was started for it ends, since no other move may use it."""
        there, itinerary = self.moving.destinations.pop(guest, None), self.moving.itineraries[guest]
        if there is None:
            itinerary.passed()
            return
        with contextlib.suppress(AgentError):
            self.control.call(Kill(there.process, signal.SIGKILL))
        there.monitor.close()
        itinerary.stayed(there.process)

    def _host_of(self, guest: str) -> str:
        return self.moving.itineraries[guest].at

    def _relocate(self, move: Move | ColdMove) -> tuple[tuple[int, str], ...]:
        """Fixed entries name the ports behind which the guest is now: when each was changed, by our clock."""
        leg, changed = self.lowered.machines[move.guest].legs[move.action.id], []
        if leg.moved:
            self.control.call(Apply([step.op.json() for step in leg.moved]))
            changed += [(self.now(), f"{step.op.namespace} {step.op.link}") for step in leg.moved]  # type: ignore[attr-defined]
        for switch, ports in leg.interfaces.items():
            self.moving.switches[switch].relocate(switch, ports)
            at_ns, namespace = self.now(), self.lowered.vswitches[switch].namespace
            changed += [(at_ns, f"{namespace} {link}") for link in ports.values()]
        if leg.relocated:
            reply = self.control.call(MoveStations(leg.relocated), channel=SWITCH)
            changed += [
                (int(reply["t_ns"]), port) for entries in leg.relocated.values() for port in entries.values()
            ]
        return tuple(changed)

    def _settle(self, move: Move, moved: Moved) -> None:
        """The guest runs at its destination, and its clock is read again."""
        machine = self.machines[move.guest]
        del self.moving.under_way[move.action.id]
        self._replace(move.guest, move.source)
        machine.clock.stood_still(moved.resumed_at_ns, self._read_clock(machine))

    def _replace(self, guest: str, source: Monitor) -> None:
        """A guest is another process from now on; the one that it left ends."""
        machine, there = self.machines[guest], self.moving.destinations.pop(guest)
        left, machine.process, machine.pid = machine.process, there.process, there.pid
        self._by_channel.pop(left)
        self._by_channel[there.process] = machine
        source.close()
        machine.monitor = there.monitor
        self.dirtying.forget(guest)
        self.control.call(Kill(left, signal.SIGKILL))
        self.moving.itineraries[guest].arrived(left)

    def _read_clock(self, machine: Started) -> Reading:
        return read(lambda: self.control.call(ReadClock(), channel=machine.leader)["raw_ns"], self.now)

    def _greet(self, machine: Started) -> None:
        machine.hello = self.control.send(Hello(), channel=machine.leader)

    def _await_hello(self, machine: Started, deadline: float, observe: Observer) -> None:
        where = f"guests.{machine.name}"
        while machine.hello is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                late = "did not boot" if machine.disk is None else "no agent of ours answered"
                what = f"{late} within {BOOT_TIMEOUT_S:g} s; its console ends with: {machine.tail()}"
                raise GuestError(where, what, machine.cure)
            if observe.cancelled():
                raise GuestError(where, "was still booting when the run was cancelled")
            for death in self.deaths():
                raise death
            if (last := machine.hopeless()) is not None:
                what = f"its disk does not boot: {last}; its console ends with: {machine.tail()}"
                raise GuestError(where, what, machine.cure)
            self.control.await_news(min(LOOK_S, left))
            self._tell_awake()

    def _tell_awake(self) -> None:
        """Tells every machine whose agent has answered by now what its network is, while others still boot."""
        now_ns = time.monotonic_ns()
        for machine in self.machines.values():
            if machine.hello is None or not self.control.answered(machine.hello):
                continue
            try:
                said = self.control.wait(machine.hello)
            except AgentError as error:
                raise machine.silent(error) from error
            machine.hello = None
            if machine.disk is not None:
                self._check_build(machine, str(said.get("build")))
            machine.read_back.setdefault("start_ns", now_ns - machine.began_ns)
            machine.read_back |= {"agent": said.get("build"), "kernel": said.get("machine", {}).get("kernel")}
            steps = self.lowered.machines[machine.name].steps
            machine.network_setup = build.send(self.control, steps, channel=machine.leader)
            machine.ports_query = self._look(machine)

    def _check_build(self, machine: Started, build_there: str) -> None:
        """A disk holds the agent that somebody put there. GuestError where that is not the one of this virtlab."""
        ours = str(self.control.greet()["build"])
        if build_there != ours:
            what = f"its disk holds our agent of build {build_there}, and this is build {ours}"
            raise GuestError(f"guests.{machine.name}", what, CURE_BUILD)

    def _look(self, machine: Started) -> Pending[Observed]:
        """Asks what its ports are."""
        namespaces = [self.lowered.guests[machine.name]]
        return self.control.send(Observe(namespaces), channel=machine.leader)

    def counters(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value): how long each machine took to come up; of its balloon, what that holds and
        tells.
        """
        for name, machine in self.machines.items():
            if "start_ns" in machine.read_back:
                yield f"guests.{name}", "start_ns", int(machine.read_back["start_ns"])
            if machine.monitor is not None:
                whole_bytes = int(machine.applied.get("memory_bytes", 0))
                for counter, value in self.balloons.counters(name, machine.monitor, whole_bytes):
                    yield f"guests.{name}", counter, value

    def _ask_monitor(self, machine: Started) -> None:
        """Asks QEMU what it runs."""
        monitor = self.monitor(machine.name)
        monitor.connect()
        version = monitor.execute("query-version")["qemu"]
        processors = monitor.execute("query-cpus-fast")
        has = {
            "vcpus": len(processors),
            "memory_bytes": int(monitor.execute("query-memory-size-summary")["base-memory"]),
            "accelerator": "kvm" if monitor.execute("query-kvm")["enabled"] else "tcg",
        }
        for thing, found in has.items():
            if found != machine.applied[thing]:
                raise machine.unlike(thing, found, machine.applied[thing])
        if (wanted_disk := machine.applied.get("disk")) is not None:
            machine.read_back["disk"] = self._own_disk(machine, monitor) | {"medium": wanted_disk["medium"]}
            if machine.read_back["disk"] != wanted_disk:
                raise machine.unlike("a disk", machine.read_back["disk"], wanted_disk)
        machine.read_back |= has | {
            "qemu": ".".join(str(version[part]) for part in ("major", "minor", "micro")),
            "status": monitor.execute("query-status")["status"],
        }

    def _own_disk(self, machine: Started, monitor: Monitor) -> dict[str, Any]:
        """The model of its disk as it is served; its size as QEMU has it."""
        served = self.control.call(Disks())["disks"]
        wanted = disk_entity(machine.name)
        found = next((dict(each) for each in served if each["name"] == wanted), {})
        for told in ("name", "standstills", "standstill_max_ns"):
            found.pop(told, None)
        nodes = monitor.execute("query-named-block-nodes", {"flat": True})
        found["size_bytes"] = next(
            (int(node["image"]["virtual-size"]) for node in nodes if node["node-name"] == command.DISK_NODE),
            0,
        )
        return found

    def _await_told(self, machine: Started, observe: Observer) -> None:
        """Waits until its Steps are applied inside. GuestError where a kernel of the user's own refuses one."""
        assert machine.network_setup is not None
        assert machine.ports_query is not None
        deadline = time.monotonic() + build.APPLY_TIMEOUT_S
        while not self.control.answered(machine.ports_query) and time.monotonic() < deadline:
            if observe.cancelled():
                raise GuestError(
                    f"guests.{machine.name}", "was being given its network when the run was cancelled"
                )
            for death in self.deaths():
                raise death
            self.control.await_news(LOOK_S)
        try:
            build.finish(self.control, machine.network_setup)
        except AgentError as error:
            raise machine.silent(error) from error
        except MachineError as error:
            if machine.disk is None:
                raise
            raise GuestError(
                error.where, f"the system on its disk refused {error.what}", CURE_REFUSED
            ) from error

    def _await_carriers(self, machine: Started, observe: Observer) -> None:
        namespace = self.lowered.guests[machine.name]
        deadline = time.monotonic() + CARRIER_TIMEOUT_S
        while True:
            assert machine.ports_query is not None
            try:
                ports_query = self.control.wait(machine.ports_query)
            except AgentError as error:
                raise machine.silent(error) from error
            found = networks.links_of(self.control, namespace, ports_query, machine.leader)
            down = carriers.down(self.plan, self.lowered, machine.name, found)
            if not down:
                return
            if observe.cancelled():
                raise GuestError(f"guests.{machine.name}", "had no carrier yet when the run was cancelled")
            if time.monotonic() > deadline:
                raise machine.without_carrier(down, CARRIER_TIMEOUT_S)
            time.sleep(LOOK_S)
            machine.ports_query = self._look(machine)
