"""Which guests are whose, for one session: guests with a kernel of their own are started, the rest are there
already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from virtlab.agents import Notice
from virtlab.agents.requests.every import ReadClock
from virtlab.catalogue import PLATFORMS
from virtlab.errors import GuestError, VirtlabError
from virtlab.plan import Action, Columns, Observer, Plan, SeriesRequest
from virtlab.testbed.build.pools import Confinement
from virtlab.testbed.kinds.clock import GuestClock, Reading, read
from virtlab.testbed.kinds.container_home import Home
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.platform import Counted, CounterRow, News, Running, Standstill
from virtlab.testbed.kinds.reach import OURS, Reach
from virtlab.testbed.kinds.registry import platforms, vswitches
from virtlab.testbed.kinds.switch import RunningSwitches
from virtlab.testbed.leader.channels import place_of
from virtlab.testbed.leader.control import BREACH, CURE_BREACH, Control, SilenceError, ending
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.leader.groups import Bounds
from virtlab.testbed.platforms import plain
from virtlab.testbed.platforms.service_limits import Limits
from virtlab.testbed.site import Site

Run = TypeVar("Run", bound=Callable[..., Running])
CONSOLE_TAIL_LINES = 12
CURE_SILENT = (
    "see whether it still runs and has processor time; where this machine is busy, use fewer guests at once"
)


@dataclass(slots=True)
class Guests:
    """All guests of a session."""

    control: Control
    plan: Plan
    lowered: Lowered
    site: Site
    running: list[Running] = field(default_factory=list)
    switches: dict[str, RunningSwitches] = field(default_factory=dict)  # virtual switches that are programs
    owners: dict[str, Running] = field(default_factory=dict)  # guest -> those that it is started among
    container_home: Home | None = None  # None: this machine
    groups: Bounds | None = None  # those of root; None: an ordinary user's session makes none
    limits: Limits = field(default_factory=Limits)
    stopped: dict[int, int] = field(
        default_factory=dict
    )  # channel -> since when what runs there stands still
    probes: dict[int, str] = field(default_factory=dict)  # channel -> guest

    @property
    def tasks(self) -> Mapping[str, list[str]]:
        """Guest, or services.NAME/GUEST -> `tasks` files of its control groups, where they are of this kernel."""
        return self.limits.ours

    def now(self) -> int:
        """The run's clock."""
        return self.site.now()

    @property
    def confinement(self) -> Confinement | None:
        """What keeps guests on processors of their own; None where no host and no pool has any."""
        return next((each for each in self.running if isinstance(each, Confinement)), None)

    def meet(self, observe: Observer) -> Plan:
        """Reaches guests that exist already; the Plan with what they say of themselves. GuestError when one is not."""
        for each in self._begun(existing=True):
            self.plan = each.meet(observe) or self.plan
        return self.plan

    def start(self, observe: Observer) -> None:
        """Starts those that have to be started. GuestError or MachineError when one does not come up."""
        kinds = ((name, vswitches.of(each.kind).running) for name, each in self.plan.world.vswitches.items())
        for run, names in _grouped(kinds).items():
            switches = run(self, names)
            self.running.append(switches)
            self.switches |= dict.fromkeys(names, switches)
        self._begun(existing=False)
        for each in self.running:
            each.start(observe)

    def _begun(self, *, existing: bool) -> list[Running]:
        """Takes in the guests of each platform that starts any."""
        kinds = (
            (name, platforms.of(guest.platform).running)
            for name, guest in self.plan.world.guests.items()
            if PLATFORMS[guest.platform].existing is existing
        )
        found: list[Running] = []
        for run, names in _grouped(kinds).items():
            found.append(run(self, names))
            self.owners |= dict.fromkeys(names, found[-1])
        self.running += found
        return found

    def reach(self, guest: str) -> Reach:
        """The channels and the clock by which a guest is reached."""
        owner = self.owners.get(guest)
        return owner.guests().get(guest, OURS) if owner is not None else OURS

    def work_per_s(self, guest: str) -> int:
        """Units of counted work that a processor does in a second, measured once and outside guests: by the leader of
        the world, or on a host that exists by its own.
        """
        existing = PLATFORMS[self.plan.world.guests[guest].platform].existing
        return self.control.work_per_s(self.reach(guest).leader if existing else OURS.leader)

    def command(
        self,
        guest: str,
        channel: int,
        argv: Sequence[str],
        *,
        bounded: str = "",
        trusted: bool = False,
        **more: Any,
    ) -> Command:
        """A command of a guest, not started yet: within its guest's limits, or those of its own that are made under the
        name `bounded`, and confined where it shares our files, unless it is `trusted`.
        """
        reach = self.reach(guest)
        # A leader inside a guest is in the guest's groups, and what it starts; those inside a machine are its kernel's.
        ours = self.tasks.get(bounded, self.tasks.get(guest, ())) if reach.leader == OURS.leader else ()
        groups = self.limits.tasks.get(bounded, ours)
        return Command(
            self.control,
            channel,
            self.lowered.guests[guest],
            list(argv),
            leader=reach.leader,
            cgroups=list(groups),
            confined=PLATFORMS[self.plan.world.guests[guest].platform].shares_files and not trusted,
            **more,
        )

    def held(self) -> set[int]:
        """Channels of guests that no command of the timeline may take."""
        return {channel for each in self.running for channel in each.held()}

    def leaders(self) -> dict[str, Reach]:
        """Guests that have a leader of their own."""
        return {
            name: reach
            for platform in self.running
            for name, reach in platform.guests().items()
            if reach.leader != OURS.leader
        }

    def alive(self) -> dict[str, Reach]:
        """The leaders in guests whose process has not ended, and that can be asked now."""
        away = self.away()
        return {
            name: reach
            for name, reach in self.leaders().items()
            if self.control.ended(reach.leader) is None and name not in away
        }

    def away(self) -> set[str]:
        """Guests that move, and can be asked nothing now."""
        return {guest for each in self.running for guest in each.away()}

    def machines_at(self) -> Iterator[tuple[str, str, int]]:
        """The machines of guests that move: the guest, a host, and the number in the world of its process there."""
        for each in self.running:
            yield from each.machines_at()

    def of_channel(self, channel: int) -> str | None:
        """The guest with a leader of its own that a channel belongs to."""
        for name, reach in self.leaders().items():
            if channel == reach.leader or (reach.channels is not None and channel in reach.channels):
                return name
        return None

    def guest_of(self, channel: int) -> str | None:
        """The guest that what runs on a channel carries: its machine, its runtime."""
        for each in self.running:
            if (guest := each.guest_of(channel)) is not None:
                return guest
        place = place_of(channel)
        return next((name for name, reach in self.leaders().items() if place_of(reach.leader) == place), None)

    def whose(self, channel: int) -> str | None:
        """The guest that a channel is of: of its own leader, or of a probe in a namespace."""
        return self.of_channel(channel) or self.probes.get(channel)

    def bound_services(self) -> dict[str, dict[str, str]]:
        """Makes the control groups of services in guests that have started; all groups, as the kernel has them."""
        namespaces = self.lowered.guests
        self.limits.create(self.plan, self.control, namespaces, self.owners, self.groups)
        return self.limits.read_back

    def read_clocks(self) -> None:
        """Compares the clocks of guests that have one."""
        for reach in self.alive().values():
            if isinstance(reach.clock, GuestClock):
                told = read(lambda at=reach.leader: self._time(at), self.now)  # type: ignore[misc]
                reach.clock.add(Reading(told.at_ns, told.offset_ns, told.bound_ns + self.site.bound_ns()))

    def _time(self, leader: int) -> int:
        return self.control.call(ReadClock(), channel=leader)["raw_ns"]

    def clocks(self) -> dict[str, dict[str, Any]]:
        """Offset, drift and bound of each guest's clock, ns and parts per million."""
        return {
            name: {
                "offset_ns": reach.clock.readings[-1].offset_ns,
                "drift_ppm": reach.clock.drift_ratio * 1e6,
                "bound_ns": max(each.bound_ns for each in reach.clock.readings[-2:]),
            }
            for name, reach in self.leaders().items()
            if isinstance(reach.clock, GuestClock) and reach.clock.readings
        }

    def renew(self, observe: Observer) -> None:
        """Before each trial: all is as it was when the world was complete."""
        for each in self.running:
            each.renew(observe)

    def call(self, action: Action) -> None:
        """Begins what an action of the timeline asks of a service."""
        for each in self.running:
            each.call(action)

    def change_link(self, link: str, *, up: bool) -> None:
        """A link was cut, or is whole again."""
        for each in self.running:
            each.change_link(link, up=up)

    def give_up(self, action: str) -> None:
        """What an action had begun is waited for no more."""
        for each in self.running:
            each.give_up(action)

    def busy(self) -> bool:
        """Whether something is under way that `attend` moves forward."""
        return any(each.busy() for each in self.running)

    def attend(self) -> Iterator[News]:
        """What cannot wait while a run plays; what came to its end by that."""
        for each in self.running:
            yield from each.attend()

    def ended(self, exited: Notice) -> VirtlabError | None:
        """The error that a process of a guest ended; None when it is no guest's."""
        of_process = next(filter(None, (platform.ended(exited) for platform in self.running)), None)
        if of_process is not None:
            return of_process
        whose = self.whose(int(exited.details["channel"]))
        return _agentless(whose, ending(exited)) if whose is not None and exited.details.get(BREACH) else None

    def deaths(self) -> list[VirtlabError]:
        """The deaths of guests and daemons, including those whose notice was discarded with other messages."""
        self.control.pump()
        found: list[VirtlabError] = [death for platform in self.running for death in platform.deaths()]
        told = {death.where for death in found}
        speaking = {reach.leader: name for name, reach in self.leaders().items()} | self.probes
        for channel, name in speaking.items():
            how = self.control.ended(channel)
            if how is not None and self.control.broke(channel) and f"guests.{name}" not in told:
                told.add(f"guests.{name}")
                found.append(_agentless(name, how))
        return found

    def behind(self, error: VirtlabError, carrier: Callable[[], str]) -> VirtlabError | None:
        """Whose end, silence or breach of the protocol an error came of; None when that is no guest's.

        `carrier` as of `silence`.
        """
        death = next(iter(self.deaths()), None)
        if death is not None or not isinstance(error, SilenceError):
            return death
        return self.silence(error, carrier)

    def silence(self, error: SilenceError, carrier: Callable[[], str]) -> GuestError | None:
        """Who it was that did not answer, with the end of its console; None when that is no guest, and nothing
        carries all.

        `carrier`: the machine in which all of the world is; it names itself if it is no guest of the world.
        """
        guest = self.whose(error.channel)
        whose = guest or carrier()
        if not whose:
            return None
        what = f"on the request '{error.where}', it gave {error.what}"
        console = dict(self.artefacts()).get(f"console-{whose}.log")
        if console is not None:
            tail = " | ".join(plain.lines(console)[-CONSOLE_TAIL_LINES:])
            what += f"; its console ends with: {tail or 'nothing'}"
        return GuestError(f"guests.{guest}" if guest else whose, what, CURE_SILENT)

    def ended_for_memory(self, bounded: str) -> int:
        """How many processes of a guest or service the kernel ended since the memory of its group was used up."""
        return self.groups.ended_for_memory(bounded) if self.groups is not None else 0

    def accounts(self, mark: str) -> list[CounterRow]:
        """Rows of counters of guests: what the machine's control groups count, how long machines took to come up."""
        t_ns = self.now()
        bounded = self.groups.counters() if self.groups is not None else ()
        counted = [*bounded, *(row for each in self.running for row in each.counters())]
        return [(t_ns, mark, *row) for row in counted]

    def accounts_inside(self) -> Iterator[Counted]:
        """What only the kernels of machines count of services: read by processes."""
        for each in self.running:
            yield from each.counters_inside()

    def role_counts(self) -> Iterator[Counted]:
        """What is counted of roles elsewhere than at their ends."""
        for each in self.running:
            yield from each.role_counts()

    def standstills(self) -> Iterator[Standstill]:
        """How often processes that serve stood still since the trial began."""
        for each in self.running:
            yield from each.standstills()

    def caches(self) -> Iterator[Counted]:
        """How virtual switches that are programs found the flows of their packets: read by processes."""
        for switches in {id(each): each for each in self.switches.values()}.values():
            yield from switches.caches()

    def sample(self, wanted: Iterable[SeriesRequest]) -> Iterator[Columns]:
        """Begins series that tools beside the guests report, and ends those before them, whose rows are returned."""
        for each in self.running:
            yield from each.sample(wanted)

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What was applied for a guest, and read back, beyond its network."""
        owner = self.owners.get(guest)
        return owner.realised(guest) if owner is not None else ({}, {})

    def conditions(self) -> dict[str, str]:
        """What guests that exist already are, beside what this machine is: `guests.NAME.kernel`."""
        return {key: value for each in self.running for key, value in each.conditions().items()}

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Files worth keeping."""
        for platform in self.running:
            yield from platform.artefacts()

    def close(self) -> None:
        """Lets go of what this process holds for them."""
        for platform in self.running:
            platform.close()
        self.running.clear()


def _agentless(guest: str, how: str) -> GuestError:
    """The error that the agent of a guest is heard no more, though the guest lives."""
    return GuestError(
        f"guests.{guest}", f"its agent ended with {how.removeprefix('code None: ')}", CURE_BREACH
    )


def _grouped(kinds: Iterable[tuple[str, Run | None]]) -> dict[Run, list[str]]:
    """Who starts something -> the names of what it starts."""
    found: dict[Run, list[str]] = {}
    for name, run in kinds:
        if run is not None:
            found.setdefault(run, []).append(name)
    return found
