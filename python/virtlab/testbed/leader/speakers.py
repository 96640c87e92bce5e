"""Who may speak of what on a control stream, and how much may be unheard of each.

The leader of the world is ours. What it passes on may come from a guest or from a host of somebody else's, and is
believed only of itself: an agent that was started on a channel has that one, a leader behind a command or at the
end of a stream of its own has a range. Ranges lie in each other, as leaders do; a channel is of the innermost that
has it. Who speaks of what is not its own, or says what is no message, has broken the protocol: it is heard no more,
and is as good as ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.agents import Block, Data, Log, Message, Notice

LAST = 2**16 - 1
UNHEARD_BYTES = 256 << 20  # of one speaker, waiting to be heard: beyond what a run's series hold
_MESSAGE_BYTES = 1 << 10  # that a message takes whatever is in it
_PER_TEXT_BYTE = 32  # that a mapping takes of each byte of its text, at worst


@dataclass(slots=True)
class Speaker:
    """An agent that has channels from `first` on; the first of a leader is its own, the others are of what it
    started.
    """

    first: int
    channels: int
    leads: bool
    unheard_bytes: int = 0
    breach: str | None = None

    @property
    def span(self) -> range:
        """Its channels."""
        return range(self.first, self.first + self.channels)

    def ends(self, first: int, channels: int) -> bool:
        """Whether it may report that what had these channels ended."""
        return self.leads and self.first < first and first + channels <= self.first + self.channels


@dataclass(slots=True)
class Speakers:
    """All on one control stream, whose other end has channel `at`."""

    at: int = 0
    _all: dict[int, Speaker] = field(default_factory=dict)  # by first channel
    _of: dict[int, Speaker] = field(default_factory=dict)  # by channel, as far as looked up

    def __post_init__(self) -> None:
        """Begins with the agent at the other end."""
        self.begin(self.at, LAST + 1, leads=True)

    def begin(self, first: int, channels: int, *, leads: bool) -> None:
        """An agent begins to speak there, in place of the previous one."""
        self._all[first] = Speaker(first, channels, leads)
        self._of.clear()

    def of(self, channel: int) -> Speaker:
        """The speaker that owns a channel."""
        found = self._of.get(channel)
        if found is None:
            inside = [each for each in self._all.values() if channel in each.span]
            found = min(inside, key=lambda each: each.channels, default=self._all[self.at])
            self._of[channel] = found
        return found

    def local(self, channel: int) -> bool:
        """Whether it is the leader of the world, or an agent that this one started itself: no guest's own words."""
        around = [each for each in self._all.values() if channel in each.span]
        return all(each.first == self.at or (each.first == channel and not each.leads) for each in around)

    def keep(self, message: Message) -> bool:
        """Counts a message that waits to be heard; False where there are too many of its speaker."""
        speaker = self.of(message.channel)
        speaker.unheard_bytes += weight(message)
        return speaker.unheard_bytes <= UNHEARD_BYTES

    def heard(self, message: Message) -> None:
        """It waits no longer."""
        self.of(message.channel).unheard_bytes -= weight(message)


def weight(message: Message) -> int:
    """About how much memory a message takes, bytes.

    >>> weight(Data(0, 1, bytes(5000)))
    6024
    """
    if isinstance(message, Block):
        return _MESSAGE_BYTES + len(message.body)
    if isinstance(message, Data):
        return _MESSAGE_BYTES + len(message.content)
    letters = len(message.text) if isinstance(message, Log) else 0
    if isinstance(message, Notice):
        letters = sum(len(str(each)) for each in message.details.values())
    return _MESSAGE_BYTES + _PER_TEXT_BYTE * letters
