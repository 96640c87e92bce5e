"""A copy in post-copy whose pages come no more: both ends give up their connection, and the copy continues over a new
one.

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
COPIES = frozenset({IN_POST_COPY, "postcopy-recover"})


@dataclass(slots=True)
class Recovery:
    """The recovery of one move: `patience_ns` is the silence after which its connection is given up."""

    source: Monitor
    destination: Monitor
    uri: str  # where the destination listens
    patience_ns: int
    recovered_ns: list[int] = field(default_factory=list)
    _sent_bytes: int = -1
    _since_ns: int = 0  # the last page, or what was done about its absence
    _renewed: bool = False  # the connection, and no page has come over it yet
    _connecting: bool = False  # QEMU waits for the kernel, which tries for longer than a move may take

    def look(self, state: str, sent_bytes: int, now_ns: int) -> None:
        """Takes what the source says of the copy, and does what is next. GuestError where QEMU refuses it."""
        if state in COPIES:
            self._connecting = False
        if state == IN_POST_COPY and sent_bytes != self._sent_bytes:
            if self._renewed:
                self.recovered_ns.append(now_ns)
            self._sent_bytes, self._since_ns, self._renewed = sent_bytes, now_ns, False
        elif state in COPIES and now_ns - self._since_ns >= self.patience_ns:
            self._since_ns = now_ns
            for end in (self.source, self.destination):
                self._broken(end)
        elif state == PAUSED and not self._connecting:
            self._since_ns = now_ns
            self._connect()

    def _connect(self) -> None:
        """Has the copy continue over a new connection; by a later look where the destination has not noticed yet."""
        try:
            # Out of band, as it may wait for a page while it holds the lock that other commands need.
            self.destination.execute_at_once("migrate-recover", {"uri": self.uri})
        except GuestError:
            self._broken(self.destination)
            return
        self.source.execute("migrate", {"uri": self.uri, "resume": True})
        self._renewed = self._connecting = True

    @staticmethod
    def _broken(end: Monitor) -> None:
        with contextlib.suppress(GuestError):  # it has noticed by itself
            end.execute_at_once("yank", BREAK)
