"""One pass of the timeline in a built world: roles armed, actions played, samples gathered.

The order is fixed: arm everything, read counters, play, stop, read counters, collect. Samples travel after the traffic,
so they disturb nothing. All agents share the machine's CLOCK_MONOTONIC_RAW: the run's clock, with bound 0.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from virtlab.agents import STOPS, Block, Log, Message, Notice
from virtlab.agents.conversation import one_line
from virtlab.agents.replies import FAILED, ServedDisk
from virtlab.agents.requests.every import Ack, ReadClock
from virtlab.agents.requests.leader import Disks, Kill
from virtlab.agents.requests.probe import Disarm, StopRole
from virtlab.agents.requests.switch import ResetCounters
from virtlab.catalogue.actions import ACTIONS, begins
from virtlab.catalogue.collected import LINK_COUNTERS
from virtlab.catalogue.workloads import is_command
from virtlab.errors import AgentError, GuestError, VirtlabError
from virtlab.lazy import np
from virtlab.plan import Action, Event, Observer, Outcome, Plan, Sink, Trial
from virtlab.plan.blocks import BEGIN, END, STOPPED
from virtlab.testbed.build import idle
from virtlab.testbed.build.stored_disks import folders_on_stores, unmounted
from virtlab.testbed.kinds.clock import Clock
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.moved import LostGuestError
from virtlab.testbed.kinds.reach import OURS
from virtlab.testbed.kinds.stamps import on_our_clock
from virtlab.testbed.leader.channels import SWITCH
from virtlab.testbed.leader.control import CALL_TIMEOUT_S, Control, RefusedError, ending
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.play import intake, rates
from virtlab.testbed.play import series as sampling
from virtlab.testbed.play.actions import actions
from virtlab.testbed.play.actions.action import ActionKind
from virtlab.testbed.play.collection import Collection, may_starve
from virtlab.testbed.play.counters import Counting
from virtlab.testbed.play.live import Live
from virtlab.testbed.play.logs import Logs
from virtlab.testbed.play.polling import Polling
from virtlab.testbed.play.probes import Probes, Side
from virtlab.testbed.play.programs import Programs
from virtlab.testbed.play.queue_waits import Waiting
from virtlab.testbed.play.reasons import Reason, printed
from virtlab.testbed.play.records import Entities, counter_columns, without_shares
from virtlab.testbed.play.standstills import Standstills
from virtlab.testbed.play.taints import clock_taint, disk_taints, switch_taints
from virtlab.testbed.play.timeline import Timeline
from virtlab.testbed.site import HERE, Site

POLL_S = 0.2
BUSY_POLL_S = 0.02  # while the timeline waits for a service
MOST_REASONS = 1000  # that are distinguished
COMMAND_END_S = 2.0  # within which the end of a killed command is reported
BROKEN_S = 2.0  # for the answer of a probe after an error


class CancelledError(Exception):
    """The observer asked to end early."""


@dataclass(slots=True)
class Pass:
    """The state of one trial."""

    control: Control
    plan: Plan
    lowered: Lowered
    probes: Probes
    trial: Trial
    sink: Sink
    observe: Observer
    guests: Guests
    site: Site = HERE
    sides: dict[str, list[Side]] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)
    taints: list[Reason] = field(default_factory=list)
    commands: dict[int, tuple[str, Command]] = field(default_factory=dict)
    programs: Programs = field(init=False)
    standstills: Standstills = field(init=False)
    polling: Polling = field(init=False)
    _blocks: intake.Blocks = field(init=False)
    _logs: Logs = field(init=False)
    _streams: set[str] = field(default_factory=set)
    _waiting: Waiting = field(default_factory=Waiting)
    _kinds: dict[str, ActionKind] = field(init=False)  # by the actions' names
    counting: Counting = field(init=False)

    def __post_init__(self) -> None:
        self._kinds = {action.id: actions.of(action.do) for action in self.plan.timeline}
        self.counting = Counting(self.control, self.plan, self.lowered, self.guests, self.site)
        self._blocks = intake.Blocks(self.plan, self.sides)
        self._logs = Logs(self)
        self.programs, self.polling = Programs(self), Polling(self)
        self.standstills = Standstills(
            self.control, self.guests, self.site, self.taints, self.programs.role_of
        )

    def play(self) -> Outcome:
        """Plays the timeline once."""
        parameters = self._parameters()
        self._streams = {*self.plan.collect.packets, "series"}
        before = self.control.call(ReadClock())
        ticks = idle.ticks()
        self.site.compare_clocks()
        timeline = Timeline(self.plan, self.site.now())
        cancelled = whole = False
        self.guests.read_clocks()
        try:
            self.guests.renew(self.observe)
            self._arm(parameters)
            if self.lowered.soft_switch is not None:
                self.control.call(ResetCounters(), channel=SWITCH)
            rates.renew(self.control, self.plan, self.lowered)
            self._disks()
            self._sample(
                [{"source": each.source, "every_ns": each.every_ns} for each in sampling.wanted(self.plan)]
            )
            self._check_processors()
            self.counting.ends(BEGIN)
            self._note_deaths()
            timeline = Timeline(self.plan, self.site.now())
            try:
                self._loop(timeline)
            except CancelledError:
                cancelled = True
            except AgentError:
                # The guest may have died before answering. If so, report its death as the cause and keep reading
                # the others.
                self._take_messages(lambda message: self._hear(message, timeline))
                if not self.reasons:
                    raise
            self._check_processors()
            self._stop_all()
            self._stop_commands()
            self.counting.ends(END)
            self._note_deaths()
            self._sample([])
            if LINK_COUNTERS.name in self.plan.collect.counters:
                queues = self.counting.queues
                counted = self.counting.rows
                counted += self._waiting.rows(queues, timeline.begin_ns, self.site.now(), tuple(counted))
            self.guests.read_clocks()
            if not cancelled:
                self._ask_services()
                self._collect()
            self._note_deaths()
            whole = True
        finally:
            # After an error the world is taken down, and who does not answer then is where the error was.
            self._disarm(CALL_TIMEOUT_S if whole else BROKEN_S)
        for name, content in self.guests.artefacts():
            self.sink.artefact(name, [content])
        self._judge_switch()
        after = self.control.call(ReadClock())
        self._take_messages(self._hear_late)
        self.standstills.judge_unfinished()
        self._judge_services()
        self.site.compare_clocks()
        clocks = {**self.site.clocks(), **self.guests.clocks()}
        self.taints += clock_taint(before, after)
        if self.counting.rows:
            self.sink.block("counters", "counter/1", counter_columns(self.counting.rows))
        self.reasons += [Reason("", failure) for failure in timeline.failures]
        missing = [name for name in self.plan.windows if name not in timeline.windows()]
        if missing and not cancelled and not self.reasons:
            self.reasons += [Reason(f"windows.{name}", "an end of it never came") for name in missing]
        status = (
            "cancelled" if cancelled else "failed" if self.reasons else "tainted" if self.taints else "ok"
        )
        return Outcome(
            status=status,  # type: ignore[arg-type]
            reasons=printed(self.reasons, self.taints),
            marks=dict(timeline.marks),
            windows=timeline.windows(),
            clocks={
                "run": "CLOCK_MONOTONIC_RAW",
                "bound_ns": 0,
                **clocks,
                "before": before,
                "after": after,
                "steal_ratio": idle.steal_ratio(ticks, idle.ticks()),
            },
            censored=tuple(timeline.censored),
        )

    def _parameters(self) -> dict[str, dict[str, Any]]:
        """Parameters per role with the trial's overrides; GuestError when one is not tunable."""
        values = {name: role.parameters for name, role in self.plan.roles.items()}
        for key, value in self.trial.overrides.items():
            name, _, parameter = key.partition(".")
            if name not in self.plan.roles or parameter not in self.plan.roles[name].tunable:
                raise GuestError(
                    f"trial.{key}",
                    "is not a parameter that this Plan lets a trial change",
                    "list it in `tunable`",
                )
            values[name][parameter] = value
        return values

    def _arm(self, parameters: Mapping[str, Mapping[str, Any]]) -> None:
        used = {action.role for action in self.plan.timeline if action.role is not None}
        for name, role in self.plan.roles.items():
            if name in used and not is_command(role.workload):
                self.sides[name] = self.probes.arm(name, role, parameters[name], self.trial.seed)

    def _sample(self, sources: list[dict[str, Any]]) -> None:
        if sampling.wanted(self.plan):
            for columns in self.guests.sample(self.plan.collect.series if sources else ()):
                self.sink.block("series", "series/1", columns)
            sampling.ask(self.control, self.plan, self.lowered, self.guests, sources)
            self._take_messages(self._hear_late if not sources else lambda _: None)

    def _check_processors(self) -> None:
        """Adds a reason where guests with processors of their own run on others."""
        if self.guests.confinement is not None:
            self.reasons += map(Reason.of, self.guests.confinement.look(self.control))

    def _judge_switch(self) -> None:
        tainted, failed = switch_taints(self.counting.switch_at_end)
        self.taints += tainted
        self.reasons += failed
        disks = self._disks()
        self.taints += disk_taints(disks)
        self.reasons += map(Reason.of, unmounted(folders_on_stores(self.plan), disks))

    def _judge_services(self) -> None:
        for guest, reason in self.standstills.judge_services(self.plan, partial(may_starve, self)):
            self.tell("guest.starved", self.site.now(), {"guest": guest, "text": str(reason)})

    def _disks(self) -> list[ServedDisk]:
        """The disks as they are served, and how often what serves them stood still since this was asked last."""
        any_disk = any(guest.disk is not None for guest in self.plan.world.guests.values())
        return self.control.call(Disks())["disks"] if any_disk else []

    def _note_deaths(self) -> None:
        """Adds each death as a reason, also of what runs without a role: other questions may have missed the news."""
        self._take_messages(self._hear_late)
        for death in self.guests.deaths():
            self._note_death(death)

    def _note_death(self, death: VirtlabError) -> None:
        """Adds a death as a reason, unless something is known of the same guest already."""
        if not death.where or death.where not in {reason.where for reason in self.reasons}:
            self.reasons.append(Reason.of(death))

    # Playing

    def _loop(self, timeline: Timeline) -> None:
        limit_ns = timeline.begin_ns + self.plan.limits.run_ns
        live = Live(self.control, self.observe, self.sides)
        while not self.reasons:
            now = self.site.now()
            for event, at_ns in timeline.waited(now):
                self.note(timeline, event, self._over(event) or at_ns)
            for action, at_ns in timeline.due(now, self.site.lead_ns):
                self._begin(action, at_ns, timeline)
            for action in timeline.expired(now):
                self._give_up(action, timeline)
            self.counting.edges(timeline.marks, self._free_ns(timeline, limit_ns))
            if timeline.over():
                return
            if now >= limit_ns:
                self.reasons.append(
                    Reason("limits.run_ns", f"not over within {self.plan.limits.run_ns / 1e9:g} s")
                )
                return
            if self.observe.cancelled():
                raise CancelledError
            live.look(now)
            self._attend(timeline)
            self.programs.look(now)
            due = timeline.next_ns(self.site.lead_ns)
            patience_s = BUSY_POLL_S if self.guests.busy() or self.polling.pending else POLL_S
            wait_s = min(patience_s, max((due if due is not None else limit_ns) - self.site.now(), 0) / 1e9)
            self._take_messages(lambda message: self._hear(message, timeline), wait_s)
            if timeline.failures:
                return

    def _attend(self, timeline: Timeline) -> None:
        """Services get on with what the timeline asked of them, and metrics are looked at that it waits for."""
        for action in self.polling.attend(self.site.now()):
            self.note(timeline, f"{action}.done", self.site.now())
        for action, failure in self.guests.attend():
            do = next(one for one in self.plan.timeline if one.id == action)
            over = "finished" if "finished" in ACTIONS[do.do].events else "done"
            kind = self._kinds[action]
            at_ns = kind.end(self, do) or self.site.now()
            if kind.moves_processes:
                self._check_processors()
            self.note(timeline, f"{action}.{over if failure is None else 'failed'}", at_ns)
            if failure is not None and kind.failure_is_outcome and self._awaited(f"{action}.failed"):
                self.tell(f"{action}.state", at_ns, {"guest": str(do.guest), "text": str(failure)})
            else:
                self.reasons += [] if failure is None else [Reason.of(failure)]

    def _awaited(self, event: str) -> bool:
        """Whether an action begins with it: then it is an outcome that the Plan reckons with."""
        return any(
            action.after is not None and event in action.after.events() for action in self.plan.timeline
        )

    def _free_ns(self, timeline: Timeline, limit_ns: int) -> int:
        """For how long nothing is to do from now on; 0 while a role makes traffic, or a command runs in a guest."""
        active = any(
            side.side == "client" and side.started and not side.finished
            for sides in self.sides.values()
            for side in sides
        )
        if (
            active
            or self.guests.busy()
            or any(self.control.ended(channel) is None for channel in self.commands)
        ):
            return 0
        due_ns = timeline.next_ns(self.site.lead_ns)
        return max((due_ns if due_ns is not None else limit_ns) - self.site.now(), 0)

    def _begin(self, action: Action, at_ns: int, timeline: Timeline) -> None:
        self.observe.progress(f"{action.do} {action.role or action.guest or action.id}")
        kind = self._kinds[action.id]
        kind.begin(self, action, at_ns, timeline)
        role = self.plan.roles.get(action.role or "")
        if kind.moves_processes or (role is not None and is_command(role.workload)):
            self._check_processors()

    def _over(self, event: str) -> int | None:
        """An action's time is over: the instant at which what it took away was back; None where it took nothing."""
        name = event.rpartition(".")[0]
        action = next(one for one in self.plan.timeline if one.id == name)
        return self._kinds[name].end(self, action)

    def stop_role(self, name: str, timeline: Timeline) -> None:
        """Ends a role's traffic; its server keeps listening for what is still under way."""
        self._check_processors()
        self.programs.stop(name)
        for side in self.sides.get(name, []):
            if side.side == "client" and side.started:
                reply = self.control.call(StopRole(name), channel=side.channel)
                side.finished = True
                t_ns = self.clock(side.channel).to_ours(int(reply["t_ns"]))
                for action in timeline.actions_of(name):
                    self.note(timeline, f"{action}.finished", t_ns, self.clock(side.channel))

    def _give_up(self, action: Action, timeline: Timeline) -> None:
        """A time-out passed: what the action had begun is ended."""
        if begins(action.do) and action.role is not None:
            self.stop_role(action.role, timeline)
        try:
            self.guests.give_up(action.id)
        except LostGuestError as error:
            self.reasons.append(Reason.of(error))  # what clients saw of it until then is kept
        self.polling.give_up(action.id)
        for channel, (name, _) in self.commands.items():
            if name == action.id:
                self.kill(channel, signal.SIGKILL)

    def kill(self, channel: int, number: int) -> None:
        """Sends a signal to what runs on a channel of `commands`."""
        guest = self.guests.of_channel(channel)
        leader = self.guests.reach(guest).leader if guest is not None else OURS.leader
        try:
            self.control.call(Kill(channel, int(number)), channel=leader)
        except RefusedError:
            return  # it has just ended by itself, and the news of it is on its way
        except AgentError:
            if self.control.ended(leader) is None:
                raise  # else it ended with its guest, and the command with both

    def lose_commands(self, guest: str, timeline: Timeline) -> None:
        """A kernel that boots again has taken along what ran in it, and no agent is left to report those ends."""
        self._take_messages(lambda message: self._hear(message, timeline))
        for channel in [each for each in self.commands if self.guests.of_channel(each) == guest]:
            name, command = self.commands.pop(channel)
            self._keep_output(name, command)
            self.tell(f"{name}.failed", self.site.now(), {"ended": f"{guest} was reset"})
            timeline.event(f"{name}.failed", self.site.now())

    # Hearing

    def _hear(self, message: Message, timeline: Timeline) -> None:
        if not isinstance(message, Notice):
            return
        details = message.details
        if message.name == "exited":
            name = self._hear_exit(message)
            if name is not None:
                timeline.event(name, self.site.now())
            return
        side = next(
            (
                each
                for each in self.sides.get(str(details.get("role")), [])
                if each.channel == message.channel
            ),
            None,
        )
        if side is None:
            return
        clock = self.clock(message.channel)
        t_ns = clock.to_ours(int(details["t_ns"])) if "t_ns" in details else self.site.now()
        failure = details.get("failure")
        if message.name == "finished":
            side.finished = True
            if failure is not None and len(self.reasons) < MOST_REASONS:
                why = one_line(str(failure))
                self.reasons.append(Reason(f"{side.place}, {side.side}", why, FAILED))
        if side.side == "client" and message.name in {"started", "finished"}:
            for action in timeline.actions_of(side.role):
                failed = message.name == "finished" and failure is not None
                self.note(timeline, f"{action}.{'failed' if failed else message.name}", t_ns, clock)

    def _hear_late(self, message: Message) -> None:
        """Once no role is to run any more: only that something ended is news."""
        if isinstance(message, Notice) and message.name == "exited":
            self._hear_exit(message)

    def _hear_exit(self, message: Notice) -> str | None:
        """Keeps what is to be said of an end; the event that it is when a command of the timeline ended."""
        channel = int(message.details["channel"])
        self.guests.stopped.pop(channel, None)
        if channel in self.commands:
            name, command = self.commands.pop(channel)
            event = f"{name}.{'finished' if self.programs.ended(channel, message) else 'failed'}"
            self._keep_output(name, command)
            self.tell(event, self.site.now(), {"ended": ending(message)})
            return event
        if (death := self.guests.ended(message)) is not None:
            self._note_death(death)
        elif channel == SWITCH:
            self.reasons.append(Reason("", f"the soft switch ended with {ending(message)}"))
        elif channel in self.probes.guests:
            guest = self.probes.guests[channel]
            self.reasons.append(Reason("", f"the probe of guest {guest} ended with {ending(message)}"))
        # Other processes end with their guest (reported separately) or were one-shot queries.
        return None

    def _keep_output(self, name: str, command: Command) -> None:
        self.control.listen(command.channel, None)
        if command.output or command.errors:
            self.sink.artefact(f"{name}.out", [bytes(command.output)])
            if command.errors:
                self.sink.artefact(f"{name}.err", [bytes(command.errors)])

    def _take_messages(self, hear: Callable[[Message], None], wait_s: float = 0.0) -> None:
        for message in self.control.messages(wait_s):
            if isinstance(message, Block):
                self._keep_block(message)
            elif isinstance(message, Log):
                self._logs.keep(message)
            elif isinstance(message, Notice) and message.name in {"cut", "mended"}:
                # Nothing was lost by it; the dataset says that it happened.
                guest = self.guests.of_channel(int(message.details["channel"]))
                self.tell(f"connection.{message.name}", self.site.now(), {**message.details, "guest": guest})
            elif isinstance(message, Notice) and message.name in STOPS:
                self.standstills.hear(message)
            elif isinstance(message, Notice):
                hear(message)
        if not self.control.open:
            raise AgentError(
                "leader", "it is gone, and the world with it", "the run is repeated from its beginning"
            )

    def _keep_block(self, message: Block) -> None:
        try:
            samples, new = self._blocks.take(message)
        except AgentError as error:
            self.control.breach(message.channel, error.what)
            return
        if new:
            columns = on_our_clock(
                samples.schema, samples.columns, *self._clocks_of(message.channel, samples.stream)
            )
            if samples.schema == "series/1":
                self._waiting.take(columns)
                if (confinement := self.guests.confinement) is not None and confinement.shareless:
                    columns = without_shares(columns, confinement.shareless)
                entities = Entities(self.lowered)
                whose = self.guests.of_channel(message.channel)
                columns["entity"] = _renamed(
                    columns["entity"], entities, f"guests.{whose}" if whose else "host"
                )
            if samples.stream in self._streams and len(next(iter(columns.values()), ())):
                self.sink.block(samples.stream, samples.schema, columns)
        ack = Ack(samples.stream, samples.schema, samples.number)
        self.control.tell(ack, channel=message.channel)

    def clock(self, channel: int) -> Clock:
        """The clock of the speaker on a channel."""
        guest = self.guests.of_channel(channel)
        return self.guests.reach(guest).clock if guest is not None else OURS.clock

    def _clocks_of(self, channel: int, stream: str) -> tuple[Clock, Clock]:
        """Whose clocks the columns of a stream are of: the sender's of the block, and of the other end of the role."""
        own = self.clock(channel)
        for side in self.sides.get(stream, []):
            if side.channel != channel:
                return own, self.clock(side.channel)
        return own, own

    def note(self, timeline: Timeline, name: str, t_ns: int, clock: Clock = OURS.clock) -> None:
        """An event happened: it is recorded and given to the timeline, once."""
        if name not in timeline.marks:
            self.tell(name, t_ns)
        timeline.event(name, t_ns, clock.bound_ns(t_ns))

    def tell(self, name: str, t_ns: int, details: Mapping[str, Any] | None = None) -> None:
        """Records an event."""
        self.sink.event(Event(t_ns, name, dict(details or {})))

    # Ending

    def _stop_all(self) -> None:
        for wanted in ("client", "server"):
            asked = [
                (side, self.control.send(StopRole(side.role), channel=side.channel))
                for sides in self.sides.values()
                for side in sides
                if side.side == wanted and side.started and self.control.ended(side.channel) is None
            ]
            end = time.monotonic() + CALL_TIMEOUT_S  # of all together: they were asked at once
            for side, number in asked:
                try:
                    self.control.wait(number, timeout_s=max(end - time.monotonic(), 0.0))
                except AgentError as error:  # refused, or gone
                    self._fail(side, error)
                side.finished = True

    def _stop_commands(self) -> None:
        """Ends commands that no action waited for, and waits for their ends: the next trial uses the same channels."""
        while self.programs.leaving() and self.control.open and not self.reasons:
            self._take_messages(self._hear_late, POLL_S)
            self.programs.look(self.site.now())
        self.programs.stop_all()
        for channel in self.commands:
            self.kill(channel, signal.SIGKILL)
        end = time.monotonic() + COMMAND_END_S
        while self.commands and time.monotonic() < end:
            if all(self.control.ended(channel) is not None for channel in self.commands):
                end = 0.0  # all is said, or nothing more comes: a guest takes its commands along
            self._take_messages(self._hear_late, POLL_S if end else 0.0)
        for name, command in self.commands.values():
            self._keep_output(name, command)
        self.commands.clear()

    def _fail(self, side: Side, error: AgentError) -> None:
        """An agent did not answer: the run's reason, unless it is gone: then the news of its end says why."""
        if not self.control.open:
            raise error
        if self.control.ended(side.channel) is None:
            self.reasons.append(Reason(side.place, error.what))

    def _ask_services(self) -> None:
        """What services count of roles, before these take away what they made."""
        if self.reasons:
            return
        try:
            counts = [*self.guests.role_counts()]
        except GuestError as error:
            self.reasons.append(Reason.of(error))
            return
        t_ns = self.site.now()
        self.counting.rows += [(t_ns, STOPPED, *row) for row in counts]

    def _collect(self) -> None:
        take = partial(self._take_messages, self._hear_late)
        Collection(self, self._blocks, take, self._fail).collect()

    def _disarm(self, timeout_s: float) -> None:
        if not self.control.open:
            return
        for sides in self.sides.values():
            for side in sides:
                try:
                    self.control.call(Disarm(side.role), channel=side.channel, timeout_s=timeout_s)
                except AgentError:
                    continue  # its probe is gone, which was reported


def _renamed(names: Any, entities: Entities, kernel: str) -> Any:
    kept = {
        name: entities.name(name) if "/" in name or ":" in name or name == "fabric" else f"{kernel}.{name}"
        for name in set(names)
    }
    return np.array([kept[name] for name in names], dtype=object)
