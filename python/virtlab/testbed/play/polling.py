"""Waits until a metric reaches a bound: of a program what it has printed so far, of another role what has come to it.

A probe keeps running totals and answers a short request with them. Such a request is sent no more often than the wait
says, and the next not before its answer. What a role had before it ended stays, so that a wait which begins late holds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from virtlab.agents.replies import Live
from virtlab.agents.requests.probe import RunningTotals
from virtlab.errors import AgentError
from virtlab.metrics.declared import PROGRESS
from virtlab.plan import Action
from virtlab.plan.model import Wait
from virtlab.testbed.leader.control import Pending
from virtlab.testbed.play.actions.action import Playing

_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">=": operator.ge, ">": operator.gt, "==": operator.eq,
}  # fmt: skip


@dataclass(slots=True)
class _Poll:
    wait: Wait
    next_ns: int = 0
    pending: list[Pending[Live]] = field(default_factory=list)


@dataclass(slots=True)
class Polling:
    """The polls of one trial, by action."""

    trial: Playing
    pending: dict[str, _Poll] = field(default_factory=dict)
    _seen: dict[tuple[str, int], int] = field(default_factory=dict)  # role and channel -> what had come

    def begin(self, action: Action) -> None:
        """Polls until it holds, or until `give_up`."""
        assert action.until is not None
        self.pending[action.id] = _Poll(action.until)

    def give_up(self, action: str) -> None:
        """The time of a wait is over."""
        self.pending.pop(action, None)

    def attend(self, now_ns: int) -> Iterator[str]:
        """The actions whose condition holds now."""
        for action, poll in list(self.pending.items()):
            value = self._value(poll, now_ns)
            assert poll.wait.op is not None
            assert poll.wait.value is not None
            if value is not None and _HOLDS[poll.wait.op](value, poll.wait.value):
                del self.pending[action]
                yield action

    def _value(self, poll: _Poll, now_ns: int) -> float | None:
        """What is known now, where it is time to look; a role that has not begun has no progress."""
        role, _, key = str(poll.wait.metric).partition(".")
        if poll.pending:
            return self._answered(poll, role)
        if now_ns < poll.next_ns:
            return None
        poll.next_ns = now_ns + poll.wait.every_ns
        if key != PROGRESS or role not in self.trial.sides:
            return self.trial.programs.latest(role, key)
        control = self.trial.control
        channels = {side.channel for side in self.trial.sides[role] if side.started}
        poll.pending = [
            control.send(RunningTotals(), channel=channel)
            for channel in sorted(channels)
            if control.ended(channel) is None
        ]
        return None if poll.pending else self._most(role)

    def _answered(self, poll: _Poll, role: str) -> float | None:
        control = self.trial.control
        for pending in list(poll.pending):
            if not control.answered(pending) and control.ended(pending.channel) is None:
                continue
            poll.pending.remove(pending)
            try:
                totals = control.wait(pending)["roles"].get(role)
            except AgentError:
                continue  # its probe is gone, which the run learns by itself
            if totals is not None:
                before = self._seen.get((role, pending.channel), 0)
                self._seen[role, pending.channel] = max(before, int(totals["seen"]))
        return None if poll.pending else self._most(role)

    def _most(self, role: str) -> float | None:
        """By the end that has seen most: of a one-way stream its receiver, else both alike."""
        return max((seen for (name, _), seen in self._seen.items() if name == role), default=None)
