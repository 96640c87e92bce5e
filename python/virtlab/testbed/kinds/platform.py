"""What a platform is to this testbed, whatever its guests are made of.

`GuestPlatform` says whether its guests can be here, and starts them; `Running` are the guests of one platform in one
session: started, reset, heard, counted, read back. The defaults of both are right for a guest that the world's Steps
have built, a namespace of the private world, so a platform says only what differs. It is found by its declared name
(`testbed/kinds/registry.py`), and nothing else of it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from virtlab.agents import Notice
from virtlab.errors import VirtlabError
from virtlab.plan import Action, Columns, Guest, Observer, Plan, Refusal, SeriesRequest
from virtlab.testbed.kinds.moved import Moved
from virtlab.testbed.kinds.reach import Reach

if TYPE_CHECKING:
    from virtlab.testbed.kinds.container_home import Home
    from virtlab.testbed.kinds.findings import Findings
    from virtlab.testbed.kinds.lowered import Lowered
    from virtlab.testbed.leader.control import Control
    from virtlab.testbed.leader.groups import Bounds

Counted = tuple[str, str, int]  # entity, counter, value
News = tuple[str, VirtlabError | None]  # the action that waited, why it failed
CounterRow = tuple[int, str, str, str, int]  # t_ns, mark, entity, counter, value


class Relocating(Protocol):
    """Virtual switches that are programs, and know where addresses are."""

    def relocate(self, vswitch: str, ports: Mapping[str, str]) -> None:
        """Tells a switch behind which of its ports some addresses are from now on: MAC -> interface. MachineError where
        it cannot be told.
        """


class Surroundings(Protocol):
    """What a session offers to those that start in it."""

    control: Control
    plan: Plan
    lowered: Lowered
    groups: Bounds | None  # those of root; None: an ordinary user's session makes none
    container_home: Home | None  # None: this machine

    @property
    def tasks(self) -> Mapping[str, list[str]]:
        """Guest -> `tasks` files of its control groups."""

    @property
    def switches(self) -> Mapping[str, Relocating]:
        """Virtual switches that are programs; they start before guests do."""

    def now(self) -> int:
        """The run's clock."""


@dataclass(frozen=True, slots=True)
class Standstill:
    """How often a process that serves did not run for 20 ms or longer in a trial, though it was to."""

    entity: str
    guest: str
    count: int
    longest_ns: int
    contends: bool  # that it waits for a processor is what is measured


class Running:
    """All guests of one platform in one session, or what else has to live while a world does."""

    __slots__ = ()

    def meet(self, observe: Observer) -> Plan | None:
        """Reaches guests that exist already, before the world is built; the Plan with what they say of themselves."""
        del observe
        return None

    def start(self, observe: Observer) -> None:
        """Starts them side by side and returns when all are ready. GuestError that names the first that is not."""

    def guests(self) -> Mapping[str, Reach]:
        """Those that have started."""
        return {}

    def reset(self, guest: str, *, held: bool) -> None:
        """Takes a guest away whose kernel begins again; `held`: it does not come back before `restart`."""
        del held
        raise AssertionError(f"{guest} boots on a reset, and nothing resets it")

    def restart(self, guest: str, observe: Observer) -> None:
        """Waits until a guest that was reset is back, and gives it its configuration again."""
        del observe
        raise AssertionError(f"{guest} boots on a reset, and nothing restarts it")

    def held(self) -> Iterator[int]:
        """Channels of guests on which it runs something."""
        return iter(())

    def renew(self, observe: Observer) -> None:
        """Before each trial: is as it was when the world was complete."""

    def call(self, action: Action) -> None:
        """Begins what an action of the timeline asks of its services."""

    def change_link(self, link: str, *, up: bool) -> None:
        """A link was cut, or is whole again."""

    def give_up(self, action: str) -> None:
        """What an action had begun is waited for no more."""

    def away(self) -> Iterator[str]:
        """Guests that cannot be asked anything now: they move."""
        return iter(())

    def machines_at(self) -> Iterator[tuple[str, str, int]]:
        """The machines of guests that move: the guest, a host, and the number in the world of its process there."""
        return iter(())

    def moved(self, action: str) -> Moved | None:
        """What is known of a guest's move by an action, once it is over."""
        del action
        return None

    def busy(self) -> bool:
        """Whether something is under way that `attend` moves forward."""
        return False

    def attend(self) -> Iterator[News]:
        """What cannot wait while a run plays, done some times a second; what came to its end by that."""
        return iter(())

    def ended(self, exited: Notice) -> VirtlabError | None:
        """The error that a process of its own ended; None when it is another's."""
        del exited
        return None

    def deaths(self) -> Iterator[VirtlabError]:
        """An error for each that ended, whether or not its end was reported."""
        return iter(())

    def guest_of(self, channel: int) -> str | None:
        """The guest without a leader of its own that what runs on a channel carries."""
        del channel
        return None

    def unasked(self, leader: int, why: str) -> bool:
        """Notes that a guest could send no echoes before the run, where that is no mistake of the world."""
        del leader, why
        return False

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What was applied for a guest, and what was read back."""
        del guest
        return {}, {}

    def control_group(self, guest: str) -> str | None:
        """The path of the control group that bounds a guest, below each hierarchy of this machine; None where its
        runtime made none.
        """
        del guest
        return None

    def conditions(self) -> dict[str, str]:
        """What guests that exist already are, beside what this machine is: `guests.NAME.kernel`."""
        return {}

    def counters(self) -> Iterator[Counted]:
        """What is counted of them: how long each took to come up."""
        return iter(())

    def counters_inside(self) -> Iterator[Counted]:
        """What only kernels of guests count of them, read by processes there: while no role runs."""
        return iter(())

    def standstills(self) -> Iterator[Standstill]:
        """How often processes that serve stood still since the trial began."""
        return iter(())

    def role_counts(self) -> Iterator[Counted]:
        """What is counted of roles elsewhere than at their ends, asked when none of them runs any more."""
        return iter(())

    def sample(self, wanted: Iterable[SeriesRequest]) -> Iterator[Columns]:
        """Begins series that tools beside the guests tell, and ends those before them, whose rows are returned."""
        del wanted
        return iter(())

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Files worth keeping, by name: consoles."""
        return iter(())

    def close(self) -> None:
        """Lets go of what this process holds for them; they themselves end with their world."""


def nothing_missing(findings: Findings) -> str | None:
    """Nothing is missing."""
    del findings
    return None


def nothing_refused(path: str, name: str, plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """Nothing is refused."""
    del path, name, plan, findings
    return iter(())


class Guests(Protocol):
    """All guests of a session, to those that ask something of them."""

    @property
    def running(self) -> Sequence[Running]:
        """The running guests of each platform."""

    def reach(self, guest: str) -> Reach:
        """The channels and the clock by which a guest is reached."""


@dataclass(frozen=True, slots=True)
class GuestPlatform:
    """A platform: whether its guests can be here, and who starts them."""

    missing: Callable[[Findings], str | None] = nothing_missing  # why none of its guests can be started here
    # Every reason not to start a guest: its path in the Plan, its name.
    refusals: Callable[[str, str, Plan, Findings], Iterator[Refusal]] = nothing_refused
    # Its guests of a session, not started yet, with those of other platforms that have the same function.
    # None: the world's Steps are all that they need.
    running: Callable[[Surroundings, Sequence[str]], Running] | None = None
    # What a guest has of the machine's memory from its start, whatever it needs; None: only what it needs.
    memory_of: Callable[[Guest], int] | None = None
