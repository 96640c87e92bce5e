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
MOST_DIGITS = 19  # of a number in it: such counters are stored


@dataclass(slots=True)
class Output:
    """The output of one process, both of its streams in the order of their arrival.

    >>> output = Output(wanted="ready")
    >>> output.take(b"starting\\nrea"), output.take(b"dy in 3 ms\\n"), output.arrived
    (None, None, True)
    >>> output.end()
    'starting | ready in 3 ms'
    """

    wanted: str | None = None  # what a line is to hold
    later: str | None = None  # what another one is to hold, once what was lost is there again
    content: bytearray = field(default_factory=bytearray)
    arrived: bool = False  # the line that was wanted
    recovered: bool = False
    flooded: bool = False
    _line: bytearray = field(default_factory=bytearray)
    _looked_bytes: int = 0  # bytes of what is kept that were looked through for numbers

    def begin(self) -> None:
        """What is written from now on is of another process, in which nothing was found yet."""
        self.arrived = self.recovered = False
        self._line.clear()

    def take(self, content: bytes) -> None:
        """Keeps what was written, and looks for what is waited for."""
        room = MOST_BYTES - len(self.content)
        self.content += content[:room]
        self.flooded = self.flooded or len(content) > room
        if (self.wanted is not None and not self.arrived) or (self.later is not None and not self.recovered):
            *whole, rest = content.split(b"\n")
            for part in whole:
                self._look(self._line + part)
                self._line.clear()
            self._line += rest[: max(0, LINE_MAX_BYTES - len(self._line))]
            self._look(self._line)

    def _look(self, line: bytes | bytearray) -> None:
        self.arrived = self.arrived or (self.wanted is not None and self.wanted.encode() in line)
        self.recovered = self.recovered or (self.later is not None and self.later.encode() in line)

    def skip(self) -> None:
        """Numbers that were written until now are of no interest."""
        self._looked_bytes = self.content.rfind(b"\n") + 1

    def numbers(self, prefix: str) -> list[int]:
        """Numbers in whole lines behind a prefix that were written since this, or `skip`, was called last.

        >>> output = Output()
        >>> output.take(b"early: 1\\nlate: 2\\nlate: 30\\nlate: 4")
        >>> output.numbers("late: "), output.take(b"0\\n"), output.numbers("late: ")
        ([2, 30], None, [40])
        """
        whole = bytes(self.content[self._looked_bytes : self.content.rfind(b"\n") + 1])
        self._looked_bytes += len(whole)
        found = [line[len(prefix) :] for line in whole.split(b"\n") if line.startswith(prefix.encode())]
        return [int(each) for each in found if each.isdigit() and len(each) < MOST_DIGITS]

    def last(self, prefix: str) -> str | None:
        """What was written behind a prefix, the last time that a line began with it and came to its end."""
        for line in reversed(self.content.split(b"\n")[:-1]):
            if line.startswith(prefix.encode()):
                return line[len(prefix) :].decode("utf-8", "replace")
        return None

    def end(self) -> str:
        """The last lines as one; '' where nothing was written."""
        return " | ".join(plain.lines(self.content[-TAIL_BYTES:])[-TAIL_LINES:])
