"""Virtual machines that move to another host of the world in mid-run, by QEMU's own live migration.

Beside such a guest a second QEMU waits from the start, its destination: the same machine, with taps on the other host's
virtual switch, no instruction of its own yet. The copy goes by TCP over the loopback of the network in which both
processes are, and crosses no link of the world.

Three modes copy: `pre_copy` while the guest runs, in rounds; `hot` pauses it first, so that one round is enough;
`post_copy` pauses it at once, has it continue at the destination, and its pages follow as it asks for them, and in
order. The fourth copies nothing (`cold.py`).

The agent inside speaks through a virtual serial port, whose bytes belong to whichever QEMU runs the guest. What is for
it is held back by the world's leader from before the copy until the guest runs at the destination, where the leader
continues its stream on the destination's serial port: no frame is lost or comes twice, and its channels stay what they
are. The guest's clock stands still while it is paused, so it is compared with ours again before anything is told by it.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from virtlab.agents.requests.leader import HandOver, Kill
from virtlab.errors import AgentError, GuestError
from virtlab.plan import Action
from virtlab.planner.mobility.moves import BANDWIDTH_BYTE_PER_S, DOWNTIME_LIMIT_NS, HOT, POST_COPY, mode_of
from virtlab.testbed.build.moves import XBZRLE, ZLIB
from virtlab.testbed.kinds.moved import Look, LostGuestError, Moved
from virtlab.testbed.leader.control import Control
from virtlab.testbed.platforms.qemu.mirroring import Mirror, withdraw
from virtlab.testbed.platforms.qemu.monitor import Answer, Monitor
from virtlab.testbed.platforms.qemu.recovery import BREAK, IN_POST_COPY, Recovery
from virtlab.units.factors import NS_PER_US

LOOK_NS = 50_000_000
LOOK_CLOSELY_NS = 5_000_000  # where fixed entries have to be changed once it is there
HELD_S = 5.0  # within which an agent reads what was sent to it
RESUMED_S = 10.0
CANCELLED_S = 10.0
UNHEARD_S = 1.0  # within which QEMU cancels where its connections can be heard
HEARD_S = 0.2  # for which a look waits: in the pause QEMU hears nothing while it waits for its connections
LOOK_S = 0.01
ONCE_MORE_S = 0.001  # as its clients wait
UNHEARD = "unheard"
COMPLETED = "completed"
ACTIVE, FAILED = "active", "failed"
OVER = frozenset({COMPLETED, FAILED, "cancelled"})
ELSEWHERE = frozenset({COMPLETED, IN_POST_COPY})  # it runs at the source no more
FORCED_MS = 2_000_000  # a downtime limit that nothing exceeds: QEMU's largest
CURE = "see the console of the guest; on a busy machine lower the dirty rate, or raise the bandwidth"


@dataclass(slots=True)
class Destination:
    """The QEMU in which a guest will run."""

    action: Action  # by which the guest comes
    process: int  # channel
    monitor: Monitor
    uri: str = ""  # where it listens for its memory
    pid: int = 0
    ready: bool = False  # it has been told how the guest comes


@dataclass(slots=True)
class Move:
    """One move under way."""

    guest: str
    action: Action
    source: Monitor
    destination: Destination
    agent: int  # channel of the leader inside
    look_ns: int = LOOK_NS
    waited_ns: int = 0  # for the machine at the destination
    began_ns: int = 0
    next_look_ns: int = 0
    looks: list[Look] = field(default_factory=list)
    forced: bool = False  # whatever is left is copied in the pause
    entries: tuple[tuple[int, str], ...] | None = None  # fixed ones that were changed
    there: bool = False  # it runs at the destination, and is reached there
    answer: Answer | None = None  # how far it is, and QEMU has not answered
    mirror: Mirror | None = None  # of its disk, if that has to be copied
    recovery: Recovery | None = None  # of a copy that breaks, if it shall be

    @property
    def mode(self) -> str:
        """How it moves."""
        return mode_of(self.action)

    def begin(self, control: Control, now: Callable[[], int]) -> None:
        """Has QEMU copy: a disk that has to be, then memory. GuestError when that does not work."""
        if self.mirror is None:
            self._copy_memory(control, now)
            return
        self.waited_ns -= now()  # until memory is copied
        self.mirror.begin()

    @property
    def copies_memory(self) -> bool:
        """Whether it has come so far that its agent is not reached."""
        return self.began_ns > 0

    def _copy_memory(self, control: Control, now: Callable[[], int]) -> None:
        """Holds back what is for the agent inside before."""
        hold_back(control, self.guest, self.agent)
        self.began_ns = now()
        if self.mirror is not None:
            self.waited_ns += self.began_ns
        if self.mode == HOT:
            self.source.execute("stop")
        self.source.execute("migrate", {"uri": self.destination.uri})
        if self.mode == POST_COPY:
            self.source.execute("migrate-start-postcopy")

    def look(self, control: Control, now: Callable[[], int]) -> str:
        """Asks QEMU how far it is, and keeps what it says: its word for the state.

        The source has `completed` when it has sent everything, which is some milliseconds before the guest runs at the
        destination. This returns once it runs there; `unheard` where QEMU has not answered yet, `failed` where its disk
        cannot be copied, or not all of it has come, so that it runs on at the source.
        """
        if self.mirror is not None and not self.copies_memory:
            return self._look_at_disk(self.mirror, control, now)
        self.answer = self.answer or self.source.ask("query-migrate")
        if not self.source.heard(self.answer, HEARD_S):
            return UNHEARD
        said, self.answer = self.answer.result(), None
        memory = said.get("ram", {})
        rate = memory.get("dirty-pages-rate")
        if memory:
            self.looks.append(
                Look(
                    now(),
                    int(memory["remaining"]),
                    int(memory["transferred"]),
                    int(rate) * int(memory["page-size"]) if rate is not None else None,
                    int(memory["dirty-sync-count"]),
                    _passed_pages(said) * int(memory["page-size"]),
                    int(throttle) / 100 if (throttle := said.get("cpu-throttle-percentage")) else None,
                )
            )
            # The first reading of what is dirty is before the first round.
            rounds, most = int(memory["dirty-sync-count"]) - 1, self.action.rounds_limit
            if most is not None and rounds >= most and not self.forced:
                self.forced = True
                self.source.execute("migrate-set-parameters", {"downtime-limit": FORCED_MS})
        state = str(said.get("status"))
        if state in ELSEWHERE and not self.there and not self._continue(control):
            return FAILED
        if self.recovery is not None and memory:
            self.recovery.look(state, int(memory["transferred"]), now())
        if (
            state not in OVER
            and not self.there
            and self.mirror is not None
            and self.mirror.broken() is not None
        ):
            self.source.execute("migrate_cancel")
        return state

    def _look_at_disk(self, mirror: Mirror, control: Control, now: Callable[[], int]) -> str:
        """Memory is copied once both disks are alike."""
        mirror.look()
        if mirror.failed is not None:
            return FAILED
        if mirror.whole:
            self._copy_memory(control, now)
        return ACTIVE

    def _continue(self, control: Control) -> bool:
        """The guest runs at the destination: its agent is reached there from now on. Not where the link lost the last
        of it, which QEMU at the source had sent.
        """
        if self.mirror is not None and (why := self.mirror.broken()) is not None:
            self._end_destination(control)
            raise GuestError(f"guests.{self.guest}", f"{why}, after its last bytes; the guest is lost", CURE)
        deadline = time.monotonic() + RESUMED_S
        there = self.destination.monitor
        while (state := self._state_there(deadline)) != "running":
            if state == "paused":  # as it was at the source: all of it has come
                there.execute("cont")
            if time.monotonic() > deadline:
                if self.mode != POST_COPY:
                    return False
                what = (
                    f"it was to run at the destination before its memory, and did not within {RESUMED_S:g} s"
                )
                raise GuestError(f"guests.{self.guest}", what, CURE)
            time.sleep(ONCE_MORE_S)
        control.call(HandOver(self.agent))
        self.there = True
        if self.mirror is not None:
            withdraw(there)
        return True

    def _state_there(self, deadline: float) -> str:
        """The state of the destination, by its own word; nothing where it says none in time."""
        answer = self.destination.monitor.ask("query-status")
        if not self.destination.monitor.heard(answer, max(0.0, deadline - time.monotonic())):
            return UNHEARD
        return str(answer.result()["status"])

    def arrive(self, now: Callable[[], int], realtime: Callable[[], int]) -> Moved:
        """What is known of the move, when all of the guest is at the destination and runs there."""
        assert self.there
        if self.mirror is not None:
            self.mirror.look()
        said = self.source.execute("query-migrate")
        to_ours = now() - realtime()
        paused = when(self.source, "STOP", self.guest) + to_ours
        resumed = when(self.destination.monitor, "RESUME", self.guest) + to_ours
        memory, waited_ns = said["ram"], self.waited_ns
        return Moved(
            self.began_ns - waited_ns,
            paused,
            resumed,
            int(said["total-time"]) * 1_000_000 + waited_ns,
            int(memory["transferred"]),
            int(memory["dirty-sync-count"]),
            int(said.get("setup-time", 0)) * 1_000_000 + waited_ns,
            tuple(self.looks),
            paused_bytes=int(sent) if (sent := memory.get("downtime-bytes")) is not None else None,
            disk_bytes=self.mirror.sent_bytes if self.mirror is not None else None,
            recovered=tuple(self.recovery.recovered_ns) if self.recovery is not None else (),
        )

    def give_up(self, control: Control) -> None:
        """Has QEMU stop copying: the guest runs on where it is. GuestError when it is in two places, and lost."""
        if self.there:
            self._end_destination(control)  # which nothing would hear from any more
            what = "its time-out passed while its memory was in two places, so the guest is lost"
            raise LostGuestError(f"guests.{self.guest}", what, "give it more time, or more bandwidth")
        if not self.copies_memory:
            self.stay(control)
            return
        if self.answer is not None:
            self._break()
        self.source.execute("migrate_cancel")
        began, broken = time.monotonic(), False
        while (state := str(self.source.execute("query-migrate").get("status"))) not in OVER:
            waited_s = time.monotonic() - began
            if waited_s > CANCELLED_S:
                raise GuestError(f"guests.{self.guest}", f"its move was {state} for {CANCELLED_S:g} s", CURE)
            if waited_s > UNHEARD_S and not broken:
                # Of several connections QEMU waits for those that no link carries any more, until they are broken.
                broken = True
                self.source.execute("yank", BREAK)
            time.sleep(LOOK_S)
        if state == COMPLETED and self.destination.monitor.execute("query-status")["status"] == "running":
            what = "its time-out passed as it arrived, and it runs at the destination"
            raise GuestError(f"guests.{self.guest}", what, "give it more time")
        self.stay(control)

    def _break(self) -> None:
        """QEMU waits in the pause for a connection that no link carries, and hears nothing: it is broken out of
        band.
        """
        assert self.answer is not None
        with contextlib.suppress(GuestError):  # it is over by now
            self.source.execute_at_once("yank", BREAK)
        if not self.source.heard(self.answer, CANCELLED_S):
            what = f"its connections are broken, and its hypervisor has said nothing for {CANCELLED_S:g} s"
            raise GuestError(f"guests.{self.guest}", what, CURE)
        self.answer = None

    def stay(self, control: Control) -> None:
        """It is where it was, and runs: its agent is reached there again, and the destination ends.

        GuestError when it does not run there.
        """
        if self.mirror is not None:
            self.mirror.give_up()
        self._end_destination(control)
        if self.source.execute("query-status")["status"] != "running":
            self.source.execute("cont")
        if (state := self.source.execute("query-status")["status"]) != "running":
            raise GuestError(
                f"guests.{self.guest}", f"its move has failed, and it is {state} where it was", CURE
            )
        control.call(HandOver(self.agent, held=False))
        self.destination.monitor.close()

    def _end_destination(self, control: Control) -> None:
        with contextlib.suppress(AgentError):
            control.call(Kill(self.destination.process, signal.SIGKILL))
        deadline = time.monotonic() + CANCELLED_S
        while control.ended(self.destination.process) is None:
            if time.monotonic() > deadline:
                what = f"the machine at its destination was killed, and ran on for {CANCELLED_S:g} s"
                raise GuestError(f"guests.{self.guest}", what, CURE)
            control.await_news(LOOK_S)


def hold_back(control: Control, guest: str, agent: int) -> None:
    """Has what is for the agent inside wait at the world's leader, once it has read all that was sent to it before.

    GuestError when it does not.
    """
    deadline = time.monotonic() + HELD_S
    while control.call(HandOver(agent, held=True))["unread"]:
        if time.monotonic() > deadline:
            control.call(HandOver(agent, held=False))
            raise GuestError(f"guests.{guest}", f"its agent read nothing for {HELD_S:g} s", CURE)


def prepare(action: Action, source: Monitor, there: Destination) -> dict[str, Any]:
    """Tells both ends how the guest will move; the limits that were applied. GuestError where QEMU has others."""
    for monitor in (source, there.monitor):
        capabilities = _capabilities(action) + _of_the_move_before(action, monitor)
        monitor.execute("migrate-set-capabilities", {"capabilities": capabilities})
        if parameters := _of_both(action):
            monitor.execute("migrate-set-parameters", parameters)
    limits = {
        "max-bandwidth": action.bandwidth_byte_per_s or BANDWIDTH_BYTE_PER_S,
        "downtime-limit": -(-(action.downtime_limit_ns or DOWNTIME_LIMIT_NS) // 1_000_000),  # ms
    }
    source.execute("migrate-set-parameters", limits | _post_copy_limits(action, limits))
    there.monitor.execute("migrate-incoming", {"uri": there.uri})
    found = source.execute("query-migrate-parameters")
    has = {key: int(found[key]) for key in limits}
    if has != limits:
        raise GuestError(f"guests.{action.guest}", f"QEMU has the limits {has}, not {limits}", CURE)
    told = {name.replace("-", "_"): True for name in _enabled(source)}
    return {key.replace("-", "_"): value for key, value in has.items()} | told


def _passed_pages(said: Mapping[str, Any]) -> int:
    """Pages that are not dirty any more, since they were sent: as they are, as zeros, as differences, or compressed."""
    memory = said["ram"]
    shorter = (said.get(how, {}).get("pages", 0) for how in ("xbzrle-cache", "compression"))
    return int(memory["normal"]) + int(memory["duplicate"]) + sum(map(int, shorter))


def _enabled(monitor: Monitor) -> list[str]:
    can = monitor.execute("query-migrate-capabilities")
    return [str(each["capability"]) for each in can if each["state"]]


def _of_the_move_before(action: Action, monitor: Monitor) -> list[dict[str, object]]:
    """What a machine did as the guest came to it, and does not as it leaves."""
    wanted = {each["capability"] for each in _capabilities(action)}
    return [{"capability": name, "state": False} for name in _enabled(monitor) if name not in wanted]


def _capabilities(action: Action) -> list[dict[str, object]]:
    """What QEMU does beside copying, at both ends."""
    wanted = {
        "auto-converge": bool(action.auto_converge),
        "postcopy-ram": action.mode == POST_COPY,
        "multifd": action.connections is not None,
        "xbzrle": action.compression == XBZRLE,
        "compress": action.compression == ZLIB and action.connections is None,
    }
    return [{"capability": name, "state": True} for name, state in wanted.items() if state]


def _of_both(action: Action) -> dict[str, object]:
    """Parameters that both ends have to have."""
    if action.connections is None:
        return {}
    method = {"multifd-compression": action.compression} if action.compression is not None else {}
    return {"multifd-channels": action.connections, **method}


def _post_copy_limits(action: Action, limits: dict[str, int]) -> dict[str, int]:
    """After the switch-over pages have a limit of their own; QEMU has none where nothing sets it."""
    return {"max-postcopy-bandwidth": limits["max-bandwidth"]} if action.mode == POST_COPY else {}


def when(monitor: Monitor, event: str, guest: str) -> int:
    """The last instant of an event by CLOCK_REALTIME, ns."""
    found = [each["timestamp"] for each in monitor.events() if each["event"] == event]
    if not found:
        raise GuestError(f"guests.{guest}", f"QEMU told no {event}", CURE)
    return (int(found[-1]["seconds"]) * 1_000_000 + int(found[-1]["microseconds"])) * NS_PER_US
