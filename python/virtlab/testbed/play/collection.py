"""Samples and counters of every side of every role, requested when no role runs any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.agents.conversation import one_line
from virtlab.agents.replies import FAILED, STARVED, Collected
from virtlab.agents.requests.probe import Collect
from virtlab.errors import AgentError
from virtlab.plan.blocks import STOPPED
from virtlab.testbed.leader.control import Pending
from virtlab.testbed.play.actions.action import Playing
from virtlab.testbed.play.intake import Blocks
from virtlab.testbed.play.probes import Side
from virtlab.testbed.play.reasons import Reason

TIMEOUT_S = 300.0
SILENCE_S = 60.0  # within which something comes of a probe that sends its samples
POLL_S = 0.2


def may_starve(trial: Playing, guest: str) -> bool:
    """Whether when a guest gets to run is part of what it is: its processor is a program, or it has a share of one.

    Its stalls are counted and reported.
    """
    emulated = guest in trial.lowered.machines or trial.site.emulated
    return emulated or trial.plan.world.guests[guest].cpu_quota_ratio is not None


@dataclass(slots=True)
class Collection:
    """`take`: takes the messages that come within a time (s). `fail`: notes that a side did not answer."""

    trial: Playing
    blocks: Blocks
    take: Callable[[float], None]
    fail: Callable[[Side, AgentError], None]

    def collect(self) -> None:
        """Asks every side for its samples; reports that cannot be had fail the run."""
        control, done = self.trial.control, 0
        total = sum(side.started for sides in self.trial.sides.values() for side in sides)
        for name, sides in self.trial.sides.items():
            for side in sides:
                if not side.started or control.ended(side.channel) is not None:
                    continue
                if control.silent(side.channel):
                    continue  # it is not asked again, and that is reported
                self.blocks.begin(side)
                pending = control.send(Collect(name), channel=side.channel)
                try:
                    report = self._await(pending)
                except AgentError as error:  # refused, or gone with what it had
                    self.fail(side, error)
                    continue
                done += 1
                self.trial.observe.progress("collect samples", done / total)
                if (what := self.blocks.unlike(side, report["rows"])) is not None:
                    self.fail(side, control.breach(side.channel, what, "collect"))
                    continue
                self._keep(name, side, report)

    def _await(self, pending: Pending[Collected]) -> Collected:
        control = self.trial.control
        end = time.monotonic() + TIMEOUT_S
        taken, quiet_since = self.blocks.taken_bytes, time.monotonic()
        while True:
            self.take(0.0 if control.answered(pending) else POLL_S)
            if control.answered(pending):
                report = control.wait(pending)
                self.take(0.0)
                return report
            if (how := control.ended(pending.channel)) is not None:
                raise AgentError("collect", f"the agent that was asked ended with {how}")
            now = time.monotonic()
            if self.blocks.taken_bytes > taken:
                taken, quiet_since = self.blocks.taken_bytes, now
            if now > end or now - quiet_since > SILENCE_S:
                raise control.silence(pending.channel, "collect", SILENCE_S)

    def _keep(self, name: str, side: Side, report: Mapping[str, Any]) -> None:
        t_ns = self.trial.site.now()
        entity = f"{name}/{side.side}"
        self.trial.counting.rows += [
            (t_ns, STOPPED, entity, counter, int(value) + side.before.get(counter, 0))
            for counter, value in report["counters"].items()
        ]
        for taint in report["taints"]:
            kind = one_line(taint["kind"])
            reason = Reason(side.place, one_line(taint["text"]), kind)
            if reason.kind == STARVED and may_starve(self.trial, side.guest):
                self.trial.tell("guest.starved", t_ns, {"guest": side.guest, "text": str(reason)})
                continue
            (self.trial.reasons if reason.kind == FAILED else self.trial.taints).append(reason)
