"""What agents log during a trial, as events; of one agent no more than a bounded part."""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.agents import Log
from virtlab.plan import Event
from virtlab.testbed.play.actions.action import Playing

MOST_BYTES = 1 << 20  # of one agent in a trial


@dataclass(slots=True)
class Logs:
    """The log lines of one trial."""

    trial: Playing
    _bytes: dict[int, int] = field(default_factory=dict)  # channel -> of its log

    def keep(self, message: Log) -> None:
        """Records a line, unless its agent has logged too much."""
        before = self._bytes.get(message.channel, 0)
        self._bytes[message.channel] = before + len(message.text)
        if before < MOST_BYTES:
            text = message.text
            if before + len(text) >= MOST_BYTES:
                text += f" (what else it logs is left out: {MOST_BYTES >> 20} MiB are kept)"
            told = {"channel": message.channel, "text": text}
            self.trial.sink.event(Event(self.trial.site.now(), f"log.{message.level[:20]}", told))
