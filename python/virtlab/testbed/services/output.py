"""What a service wrote, bounded: all of it up to a limit, and whether a line holds a text that is waited for.

Bytes come in as they are read, lines cut anywhere between two reads. Nothing here knows processes or time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.testbed.platforms import plain

MOST_BYTES = 16 << 20  # of one process: beyond them it floods
LINE_MAX_BYTES = 4096  # of a line that is searched
TAIL_BYTES = 4096
TAIL_LINES = 6


@dataclass(slots=True)
class Output:
    """Of one process, both of its streams in the order of their arrival.

    >>> output = Output(wanted="ready")
    >>> output.take(b"starting\\nrea"), output.take(b"dy in 3 ms\\n"), output.found
    (None, None, True)
    >>> output.end()
    'starting | ready in 3 ms'
    """

    wanted: str | None = None  # what a line is to hold
    kept: bytearray = field(default_factory=bytearray)
    found: bool = False
    flooded: bool = False
    _line: bytearray = field(default_factory=bytearray)

    def begin(self) -> None:
        """What is written from now on is of another process, in which nothing was found yet."""
        self.found = False
        self._line.clear()

    def take(self, content: bytes) -> None:
        """Keeps what was written, and looks for what is waited for."""
        room = MOST_BYTES - len(self.kept)
        self.kept += content[:room]
        self.flooded = self.flooded or len(content) > room
        if self.wanted is not None and not self.found:
            self._search(content, self.wanted.encode())

    def _search(self, content: bytes, wanted: bytes) -> None:
        *whole, rest = content.split(b"\n")
        for part in whole:
            self.found = self.found or wanted in self._line + part
            self._line.clear()
        self._line += rest[: max(0, LINE_MAX_BYTES - len(self._line))]
        self.found = self.found or wanted in self._line

    def end(self) -> str:
        """The last lines as one; '' where nothing was written."""
        return " | ".join(plain.lines(self.kept[-TAIL_BYTES:])[-TAIL_LINES:])
