"""Programs of the user's own as roles: started as a command in a guest, ended in time, and their output read.

A program that fails, runs over its time or prints what its readers cannot read makes the run fail, with one line that
says where and why. One that the timeline stops gets SIGTERM, and what it prints until it ends counts; where it has not
ended after a grace, it is killed and the run fails.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from virtlab.agents import Notice
from virtlab.agents.conversation import one_line
from virtlab.catalogue.references import ROLE_ENDS, referred, replaced
from virtlab.errors import AgentError, GuestError
from virtlab.lazy import np
from virtlab.outputs import MOST_BYTES, Samples, UnreadableError, read_output
from virtlab.outputs.polled import Source
from virtlab.outputs.times import START
from virtlab.plan import Plan, Role
from virtlab.planner.topology.addresses import resolved
from virtlab.testbed.image.entry import EntryPoint
from virtlab.testbed.image.rootfs import started_by
from virtlab.testbed.leader.control import ending
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.play import instants
from virtlab.testbed.play.actions.action import Playing
from virtlab.testbed.play.commands import launch
from virtlab.testbed.play.instants import Instants
from virtlab.testbed.play.polled_metrics import PolledMetrics, Sample
from virtlab.testbed.play.reasons import Reason
from virtlab.testbed.play.timeline import Timeline
from virtlab.testbed.services.files import Files

GRACE_NS = 5_000_000_000  # from SIGTERM to SIGKILL
END_SHOWN = 120  # characters of the end of an output that a reason repeats


@dataclass(slots=True)
class _Running:
    role: str
    command: Command
    over_ns: int
    instants: Instants
    polled: PolledMetrics | None = None  # what is polled
    stopping: bool = False  # to end before it did by itself
    until_ns: int | None = None  # it has time to do so


@dataclass(slots=True)
class Programs:
    """The programs of one trial, by channel."""

    trial: Playing
    running: dict[int, _Running] = field(default_factory=dict)
    latest_of: dict[str, _Running] = field(default_factory=dict)  # of each role, ended or not

    def begin(self, name: str, action: str, timeline: Timeline) -> None:
        """Starts a role's program, with the addresses that its words name."""
        role = self.trial.plan.roles[name]
        own = self._started_by(role)
        argv = words(self.trial.plan, name, role) if own is None else list(own.argv)
        polled = PolledMetrics.of(self._metrics(name))
        if polled is not None:
            argv = polled.before(pages(self.trial.plan, name, role, polled.sources)) + argv
        files = Files.of(name, role.parameters)
        if files is not None:
            argv = files.before() + argv
        channel = launch(
            self.trial,
            action,
            f"roles.{name}",
            str(role.from_),
            argv,
            timeline,
            output_bytes=MOST_BYTES + 1,
            user=role.parameters.get("user") or (own.user if own is not None else None),
            environment=dict(own.environment) if own is not None else {},
            folder=own.folder if own is not None else None,
            own=polled.polls.take if polled is not None else None,
            given=files.content() if files is not None else b"",
        )
        if channel is not None:
            now_ns = self.trial.site.now()
            command, over_ns = self.trial.commands[channel][1], now_ns + int(role.parameters["timeout_ns"])
            self.running[channel] = each = _Running(name, command, over_ns, Instants(now_ns), polled)
            self.latest_of[name] = each
            self._compare(each)

    def role_of(self, channel: int) -> str | None:
        """Whose program runs on a channel."""
        each = self.running.get(channel)
        return each.role if each is not None else None

    def stop(self, name: str) -> bool:
        """Asks a role's program to end; whether it has one that runs."""
        found = [channel for channel, each in self.running.items() if each.role == name]
        for channel in found:
            self.running[channel].stopping = True
            self.running[channel].until_ns = self.trial.site.now() + GRACE_NS
            self.trial.kill(channel, signal.SIGTERM)
        return bool(found)

    def leaving(self) -> bool:
        """Whether any was asked to end, and has time left to do so."""
        return any(each.until_ns is not None for each in self.running.values())

    def stop_all(self) -> None:
        """The timeline is over: what still runs was to run until then."""
        for each in self.running.values():
            each.stopping = True

    def look(self, now_ns: int) -> None:
        """Fails the run of a program that runs over its time, or prints more than is read."""
        for channel, each in self.running.items():
            if each.until_ns is not None and now_ns > each.until_ns:
                each.until_ns = None
                self.trial.kill(channel, signal.SIGKILL)
                what = f"did not end within {GRACE_NS // 10**9} s of its SIGTERM{_end_of(each.command)}"
                self._fail(each, what, "let it end when it is asked to, or print less at its end")
            elif len(each.command.output) > MOST_BYTES:
                self._fail(each, f"printed more than {MOST_BYTES >> 20} MiB", "let it print less")
            elif each.polled is not None and (why := each.polled.unusable()) is not None:
                self._fail(each, f"its output {why.what}", why.cure)
            elif now_ns > each.over_ns:
                timeout_s = int(self.trial.plan.roles[each.role].parameters["timeout_ns"]) / 1e9
                cure = "give it a longer 'timeout', or less to do"
                self._fail(each, f"still ran after {timeout_s:g} s{_end_of(each.command)}", cure)

    def ended(self, channel: int, message: Notice) -> bool:
        """A command ended. Of a program its values are kept, or the run has failed. Whether it ended as it was to."""
        each = self.running.pop(channel, None)
        well = message.details.get("code") == 0 or (each is not None and each.stopping)
        if each is not None and not self.trial.reasons:
            self._judge(each, message, well=well)
        return well

    def latest(self, name: str, key: str) -> float | None:
        """The last value of a metric in the whole lines that a role's program has printed, or as polled; None as long
        as none can be read.

        What cannot be read yet may be so later: only the whole output makes a run fail.
        """
        each = self.latest_of.get(name)
        if each is None:
            return None
        if each.polled is not None and key in each.polled.metrics:
            return each.polled.latest(key)
        output = each.command.output
        whole = bytes(output[: output.rfind(b"\n") + 1])
        entry = self._metrics(name)[key]
        try:
            values = read_output({key: entry}, whole)[key].values
        except UnreadableError:
            return None
        return values[-1] if values else None

    def _judge(self, each: _Running, message: Notice, *, well: bool) -> None:
        if not well:
            how = f"ended with {ending(message)}" if message.details.get("tail") else (
                f"ended with {ending(message)}{_end_of(each.command)}"
            )  # fmt: skip
            self._fail(each, how, "run its 'argv' in the guest by hand: virtlab up, then virtlab exec")
            return
        try:
            self._compare(each)
            found = list(self._samples(each))
        except UnreadableError as error:
            line = f", line {error.line}," if error.line else ""
            self._fail(each, f"its output{line} {one_line(error.what)}", error.cure)
            return
        except AgentError as error:
            self._fail(each, f"its guest's clock was not told at its end: {error.what}", error.cure)
            return
        if found and each.role in self.trial.plan.collect.packets:
            columns = {
                "t_ns": np.array([one.t_ns for one in found], dtype=np.int64),
                "metric": np.array([one.key for one in found], dtype=object),
                "value": np.array([one.value for one in found], dtype=np.float64),
                "count": np.array([one.met for one in found], dtype=np.int64),
            }
            self.trial.sink.block(each.role, "value/1", columns)

    def _started_by(self, role: Role) -> EntryPoint | None:
        """What the image of its container starts; None where the file says it."""
        return (
            None
            if "argv" in role.parameters
            else started_by(str(self.trial.plan.world.guests[str(role.from_)].image))
        )

    def _metrics(self, role: str) -> Mapping[str, Mapping[str, Any]]:
        return self.trial.plan.roles[role].parameters.get("metrics") or {}

    def _compare(self, each: _Running) -> None:
        """Reads the clock of its guest, where times of what it prints are of it."""
        if any(_of_wall(entry) for entry in self._metrics(each.role).values()):
            guest = str(self.trial.plan.roles[each.role].from_)
            each.instants.readings.append(instants.read(self.trial.control, self.trial.guests.reach(guest)))

    def _samples(self, each: _Running) -> Iterator[Sample]:
        """The samples of what it printed, and of what was polled beside it."""
        for key, samples in read_output(self._metrics(each.role), bytes(each.command.output)).items():
            whole = zip(self._when(each, key, samples), samples.values, samples.counts, strict=True)
            for t_ns, value, count in whole:
                yield Sample(t_ns, key, value, count)
        if each.polled is not None:
            guest = str(self.trial.plan.roles[each.role].from_)
            clock, now_ns = self.trial.guests.reach(guest).clock, self.trial.site.now()
            yield from each.polled.samples(clock, each.instants.started_ns, now_ns)

    def _when(self, each: _Running, key: str, samples: Samples) -> list[int]:
        """When each sample was: as printed, else at the end."""
        now_ns = self.trial.site.now()
        if samples.stamps is None:
            return [now_ns] * len(samples.values)
        try:
            wall = _of_wall(self._metrics(each.role)[key])
            return each.instants.of(samples.stamps, wall=wall, ended_ns=now_ns)
        except UnreadableError as error:
            raise UnreadableError(f"{error.what} (metric '{key}')", error.line, error.cure) from None

    def _fail(self, each: _Running, what: str, cure: str) -> None:
        role = self.trial.plan.roles[each.role]
        argv = role.parameters.get("argv") or ["what its image starts"]
        program = shlex.quote(one_line(argv[0]))
        self.trial.reasons.append(Reason(f"roles.{each.role}", f"{program}: {what}; {cure}"))


def _of_wall(entry: Mapping[str, Any]) -> bool:
    """Whether its times are of a wall clock."""
    return "time" in entry and entry.get("clock", START) != START


def words(plan: Plan, name: str, role: Role) -> list[str]:
    """The words of a role's command, with addresses as its guest reaches them. GuestError if one is missing."""
    argv = role.parameters["argv"]
    found = _resolved(plan, role, argv, f"roles.{name}.argv")
    return [replaced(word, found) for word in argv]


def pages(plan: Plan, name: str, role: Role, sources: Sequence[Source]) -> list[str]:
    """Where each is polled, with addresses as its guest reaches them; one of IPv6 in brackets, as a page's address
    is.
    """
    places = [source.place for source in sources]
    found = _resolved(plan, role, places, f"roles.{name}.metrics")
    bracketed = {key: f"[{text}]" if ":" in text else text for key, text in found.items()}
    return [replaced(place, bracketed) if place.startswith("http:") else place for place in places]


def _resolved(plan: Plan, role: Role, texts: Sequence[str], where: str) -> dict[str, str]:
    ends = {"from": role.from_, "to": role.to}
    try:
        references = [reference for _, reference in referred(texts, ROLE_ENDS)]
        return resolved(plan, references, str(role.from_), ends, role.parameters.get("family"))
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise GuestError(where, what, cure) from None


def _end_of(command: Command) -> str:
    """The end of what it wrote, of its errors first."""
    written = bytes(command.errors[-2 * END_SHOWN :] or command.output[-2 * END_SHOWN :])
    text = one_line(written.decode(errors="replace").strip())[-END_SHOWN:]
    return f"; the end of what it wrote: '{text}'" if text else ", and wrote nothing"
