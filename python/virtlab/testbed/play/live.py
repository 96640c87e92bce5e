"""What roles see while a run is under way, shown to the user who watches it.

Probes keep running totals; now and then each reports them on one short request, and what changed since the answer
before is a rate, a mean time, a loss. It is nothing that anybody waits for: an answer that is late is taken when it is
there, and the next question waits for it. Without a display, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from virtlab.agents import replies
from virtlab.agents.replies import Totals
from virtlab.agents.requests.probe import RunningTotals
from virtlab.errors import AgentError
from virtlab.plan.backend import Observer, Reading, Watcher
from virtlab.testbed.leader.control import Control, Pending
from virtlab.testbed.play.probes import Side


def reading(role: str, before: Totals | None, after: Totals, over_ns: int) -> Reading:
    """What changed between two answers of a probe, `over_ns` apart; nothing `before`: since the role began.

    >>> reading("load", None, {"seen": 50, "bytes": 25_000, "expected": 100, "timed": 0, "time_ns": 0}, 10**9)
    Reading(role='load', over_ns=1000000000, rate_per_s=50.0, received_bit_per_s=200000.0, time_ns=None, loss_ratio=0.5)
    """
    since: Mapping[str, Any] = before or {}
    change = {key: value - since.get(key, 0) for key, value in dict[str, Any](after).items()}
    return Reading(
        role=role,
        over_ns=over_ns,
        rate_per_s=change["seen"] * 1e9 / over_ns,
        received_bit_per_s=change["bytes"] * 8e9 / over_ns,
        time_ns=change["time_ns"] / change["timed"] if change["timed"] else None,
        # A packet that overtakes others arrives before the skipped ones are expected, so a short window can receive
        # more than it expects.
        loss_ratio=max(0.0, 1 - change["seen"] / change["expected"]) if change["expected"] > 0 else None,
    )


@dataclass(slots=True)
class Live:
    """The watch over one trial."""

    control: Control
    observe: Observer
    sides: Mapping[str, list[Side]]
    _next_ns: int = 0
    _pending: list[Pending[replies.Live]] = field(default_factory=list)
    _before: dict[tuple[int, str], tuple[int, Totals]] = field(default_factory=dict)
    _readings: dict[tuple[int, str], Reading] = field(default_factory=dict)

    def look(self, now_ns: int) -> None:
        """Asks when it is time to, takes the answers, and shows them once all have answered."""
        watcher = self.observe
        if not isinstance(watcher, Watcher) or watcher.live_every_ns is None:
            return
        for pending in list(self._pending):
            if self.control.answered(pending) or self.control.ended(pending.channel) is not None:
                self._pending.remove(pending)
                self._take(pending)
        if self._pending:
            return
        if self._readings:
            told = [self._of(role) for role in self.sides]
            self._readings.clear()
            watcher.live([each for each in told if each is not None])
        if now_ns >= self._next_ns:
            self._next_ns = now_ns + watcher.live_every_ns
            channels = {side.channel for sides in self.sides.values() for side in sides if side.started}
            self._pending = [
                self.control.send(RunningTotals(), channel=channel)
                for channel in sorted(channels)
                if self.control.ended(channel) is None
            ]

    def _take(self, pending: Pending[replies.Live]) -> None:
        try:
            reply = self.control.wait(pending)
        except AgentError:
            return  # its probe is gone, which the run learns by itself
        t_ns = reply["t_ns"]
        for role, totals in reply["roles"].items():
            then = self._before.get((pending.channel, role))
            self._before[pending.channel, role] = (t_ns, totals)
            if then is not None and t_ns > then[0]:
                self._readings[pending.channel, role] = reading(role, then[1], totals, t_ns - then[0])

    def _of(self, role: str) -> Reading | None:
        """What is reported of a role: by the end that sends, or else by the one that receives."""
        ends = sorted(self.sides[role], key=lambda side: side.side != "client")
        found = [each for side in ends if (each := self._readings.get((side.channel, role))) is not None]
        return next((each for each in found if each.rate_per_s > 0), found[0] if found else None)
