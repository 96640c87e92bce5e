"""What is polled beside a program: a page over HTTP from its guest, or a file in it, every so often.

`{prometheus: queue_depth, http: "http://{web.address}:9100/metrics", every: 1 s, unit: count, better: lower}`. Each
poll is read as an output is, and holds one number. What comes from the agent that polls is taken on trust no more than
an output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from virtlab.lazy import pattern
from virtlab.outputs.unreadable import SHOWN
from virtlab.units import Duration

KEYS: Mapping[str, str] = {
    "http": "polled over HTTP from the program's guest: 'http://ADDRESS:PORT/PATH', as {web.address}, {to}",
    "file": "polled: a file in the program's guest, from the folder where it begins",
    "every": "how often it is polled (1 s, if absent)",
}
EVERY = "1 s"
LEAST_NS = 10_000_000
MOST_BYTES = 32 << 20  # of all polls of a program
POLL_BYTES = (
    32  # of them for each, however empty: an agent that polls without a pause takes no memory without end
)
_PAGE = pattern(r"http://(?P<host>[^/\s]+)(/[!-~]*)?\Z")
_HOST = pattern(r"(\{[\w.-]+\}|[0-9.]+|\[[0-9A-Fa-f:.]+\])(:(\{[\w.-]+\}|[0-9]{1,5}))?\Z")
_EXAMPLE = "write e.g. 'http://{web.address}:9100/metrics'"
_HEAD = pattern(
    rb"(?:output|(?P<how>found|missed) (?P<source>\d{1,3}) (?P<at>\d{1,19})) (?P<length>\d{1,8})\Z"
)
_HEAD_MAX = 64
FRAME_MAX_BYTES = 2 << 20  # an agent's longest is a poll of 1 MiB


class Source(NamedTuple):
    """What is polled, as the file writes it, and how often."""

    place: str
    every_ns: int


def is_polled(entry: Mapping[str, Any]) -> bool:
    """Whether a metric's numbers are polled, and not printed."""
    return "http" in entry or "file" in entry


def source_of(entry: Mapping[str, Any]) -> Source:
    """The source of an entry that is polled and has no mistakes."""
    return Source(str(entry.get("http") or entry["file"]), Duration.parse(str(entry.get("every", EVERY))).ns)


def sources_of(metrics: Mapping[str, Mapping[str, Any]]) -> list[Source]:
    """All that is polled for metrics, each once."""
    return list(dict.fromkeys(source_of(entry) for entry in metrics.values() if is_polled(entry)))


def mistakes(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with the keys that say what is polled: at which of them, and "WHAT; CURE"."""
    if not is_polled(entry):
        if "every" in entry:
            yield "every", "'every' is of what is polled; write 'http' or 'file', too, or remove it"
        return
    if "http" in entry and "file" in entry:
        yield "file", "a metric is polled at one place, and this names two; write 'http' or 'file'"
    for name in ("time", "clock", "time_unit"):
        if name in entry:
            yield name, f"a poll has the time at which it was made, so '{name}' says nothing; remove it"
    try:
        every = Duration.parse(str(entry.get("every", EVERY)))
    except ValueError as error:
        yield "every", f"{error}; write e.g. '1 s'"
    else:
        if every.ns < LEAST_NS:
            yield "every", f"'{every}' is more often than is polled; write at least 10 ms"
    if "http" in entry:
        yield from _no_page(str(entry["http"]))


def _no_page(text: str) -> Iterator[tuple[str, str]]:
    page = _PAGE.match(text)
    if page is None:
        yield "http", f"'{text[:SHOWN]}' is not the address of a page; {_EXAMPLE}"
    elif not _HOST.match(page["host"]):
        what = f"'{page['host'][:SHOWN]}' is not an IP address; guests ask no name server"
        yield "http", f"{what}: {_EXAMPLE}, or an IP address (IPv6 in brackets)"


class Poll(NamedTuple):
    """What one poll found; `missed` says why nothing."""

    at_ns: int  # by the clock of the guest's agent
    text: bytes
    missed: str = ""


@dataclass(slots=True)
class Polls:
    """Takes the agent's frames apart: what the program printed, and what was polled, by source."""

    count: int  # of sources
    by_source: dict[int, list[Poll]] = field(default_factory=dict)
    held_bytes: int = 0
    torn: bool = False  # what came is no frame: nothing after it can be read
    _rest: bytearray = field(default_factory=bytearray)

    def take(self, content: bytes) -> bytes:
        """The program's own part of what came.

        >>> polls = Polls(1)
        >>> polls.take(b"output 3\\nabcfound 0 17 2\\nu"), polls.take(b"poutput 1\\nd"), polls.by_source
        (b'abc', b'd', {0: [Poll(at_ns=17, text=b'up', missed='')]})
        """
        if self.torn:
            return b""
        self._rest += content
        own = bytearray()
        while not self.torn:
            head, line, _ = self._rest[:_HEAD_MAX].partition(b"\n")
            if not line:
                self.torn = len(self._rest) >= _HEAD_MAX
                break
            match = _HEAD.match(head)
            if match is None:
                self.torn = True
                break
            begin, length = len(head) + 1, int(match["length"])
            if length > FRAME_MAX_BYTES:
                self.torn = True
                break
            if len(self._rest) < begin + length:
                break
            octets = bytes(self._rest[begin : begin + length])
            del self._rest[: begin + length]
            if match["how"] is None:
                own += octets
            else:
                self._keep(match, octets)
        if self.torn:
            self._rest.clear()
        return bytes(own)

    def _keep(self, match: re.Match[bytes], octets: bytes) -> None:
        source = int(match["source"])
        self.torn = self.torn or source >= self.count
        self.held_bytes += len(octets) + POLL_BYTES
        if self.held_bytes <= MOST_BYTES and not self.torn:
            missed = octets.decode(errors="replace") if match["how"] == b"missed" else ""
            poll = Poll(int(match["at"]), b"" if missed else octets, missed)
            self.by_source.setdefault(source, []).append(poll)
