"""A copy in post-copy whose pages come no more: both ends give up their connection, and the copy continues over a new one.

The guest runs at the destination and waits there for pages that the source has. A link that carries nothing breaks no
connection of TCP for many minutes, so each end is told to break its own (`yank`). Both then wait (`postcopy-paused`):
the destination listens again (`migrate-recover`), and the source connects (`migrate` with `resume`), which the kernel
tries until the link is there. QEMU tells the source which pages have come, so none is lost.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from virtlab.errors import GuestError
from virtlab.testbed.platforms.qemu.monitor import Monitor

BREAK = {"instances": [{"type": "migration"}]}  # QEMU's connections of the copy, by its `yank`
IN_POST_COPY, PAUSED = "postcopy-active", "postcopy-paused"


@dataclass(slots=True)
class Recovery:
    """Of one move: `patience_ns` is the silence after which its connection is given up."""

    source: Monitor
    destination: Monitor
    uri: str  # where the destination listens
    patience_ns: int
    recovered_ns: list[int] = field(default_factory=list)
    _sent_bytes: int = -1
    _since_ns: int = 0  # the last page
    _broken: bool = False  # and not copied again yet
    _listens: bool = False  # the destination, again

    def look(self, state: str, sent_bytes: int, now_ns: int) -> None:
        """Takes what the source says of the copy, and does what is next. GuestError where QEMU refuses it."""
        if state == IN_POST_COPY and sent_bytes != self._sent_bytes:
            if self._broken and self._listens:
                self.recovered_ns.append(now_ns)
                self._broken = self._listens = False
            self._sent_bytes, self._since_ns = sent_bytes, now_ns
        elif state == IN_POST_COPY and not self._broken and now_ns - self._since_ns >= self.patience_ns:
            self._broken = True
            for end in (self.source, self.destination):
                with contextlib.suppress(GuestError):  # it has noticed by itself
                    end.execute_at_once("yank", BREAK)
        elif state == PAUSED and not self._listens and self._waits():
            self._broken = self._listens = True
            self.destination.execute("migrate-recover", {"uri": self.uri})
            self.source.execute("migrate", {"uri": self.uri, "resume": True})

    def _waits(self) -> bool:
        """Whether the destination has noticed, too: else its end is broken, and noticed by the next look."""
        if self.destination.execute("query-migrate").get("status") == PAUSED:
            return True
        with contextlib.suppress(GuestError):
            self.destination.execute_at_once("yank", BREAK)
        return False
