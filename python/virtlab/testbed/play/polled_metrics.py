"""What is polled beside a role's program, by the agent that starts the program in its guest and polls from there.

A server may not be there yet, or no more, and a file not yet: such polls find nothing and are passed over, if others
do. What is found and cannot be read makes the run fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from virtlab.agents.conversation import one_line
from virtlab.outputs import UnreadableError, read_poll
from virtlab.outputs.polled import MOST_BYTES, Polls, Source, is_polled, source_of, sources_of
from virtlab.outputs.reading import CURE
from virtlab.testbed.kinds.clock import Clock
from virtlab.testbed.play.instants import SLACK_NS
from virtlab.testbed.services.service import OURSELVES

SHOWN = 120  # characters of the reason why a poll found nothing


class Sample(NamedTuple):
    """A number of a metric at an instant of the run's clock, and how often it was met."""

    t_ns: int
    key: str
    value: float
    met: int = 1


@dataclass(slots=True)
class PolledMetrics:
    """The polled metrics of one program: where each is found, and what was found so far."""

    metrics: Mapping[str, Mapping[str, Any]]
    sources: list[Source]
    polls: Polls

    @classmethod
    def of(cls, metrics: Mapping[str, Mapping[str, Any]]) -> PolledMetrics | None:
        """The polled ones of a role's metrics; None where none is polled."""
        polled = {key: entry for key, entry in metrics.items() if is_polled(entry)}
        sources = sources_of(polled)
        return cls(polled, sources, Polls(len(sources))) if polled else None

    def before(self, places: list[str]) -> list[str]:
        """The words that come before the program's: `places` are those of the sources, with addresses in them."""
        asked = [
            word
            for source, place in zip(self.sources, places, strict=True)
            for word in ("--source", str(source.every_ns), place)
        ]
        return [OURSELVES, "polled", *asked, "--"]

    def latest(self, key: str) -> float | None:
        """The number of the last poll that can be read; None before that."""
        found = [poll for poll in self._polls(key) if not poll.missed]
        try:
            return read_poll(key, self.metrics[key], found[-1].text) if found else None
        except UnreadableError:
            return None

    def _polls(self, key: str) -> list[Any]:
        return self.polls.by_source.get(self.sources.index(source_of(self.metrics[key])), [])

    def unusable(self) -> UnreadableError | None:
        """Why nothing that still comes can be read; None as long as it can."""
        if self.polls.torn:
            return UnreadableError("of its polls is no frame of an agent", 0, "repeat the run")
        if self.polls.held_bytes > MOST_BYTES:
            what = f"of its polls is more than {MOST_BYTES >> 20} MiB"
            return UnreadableError(what, 0, "poll less often, or what is shorter")
        return None

    def samples(self, clock: Clock, started_ns: int, ended_ns: int) -> Iterator[Sample]:
        """Every number with its instant; `clock` is that of its guest. UnreadableError names the poll and the
        metric.
        """
        if (unusable := self.unusable()) is not None:
            raise unusable
        for key, entry in self.metrics.items():
            (place, every_ns), missed = source_of(entry), ""
            met, polls = 0, self._polls(key)
            if len(polls) > (ended_ns - started_ns + 2 * SLACK_NS) // every_ns + 1:
                raise UnreadableError(f"of {place} was polled more often than asked", 0, "repeat the run")
            for poll in polls:
                missed = poll.missed or missed
                if poll.missed:
                    continue
                met += 1
                at_ns = clock.to_ours(poll.at_ns)
                where = f"of the poll of {place} {max(at_ns - started_ns, 0) / 1e9:.3f} s after its start"
                if not started_ns - SLACK_NS <= at_ns <= ended_ns + SLACK_NS:
                    raise UnreadableError(f"{where} is of no instant at which it ran", 0, "repeat the run")
                try:
                    yield Sample(at_ns, key, read_poll(key, entry, poll.text))
                except UnreadableError as error:
                    line = f", line {error.line}," if error.line else ""
                    what = f"{where}{line} {error.what} (metric '{key}')"
                    raise UnreadableError(what, 0, error.cure or CURE) from None
            if not met:
                why = f": {one_line(missed)[:SHOWN]}" if missed else ""
                what = f"of {place} was polled and never found{why} (metric '{key}')"
                raise UnreadableError(what, 0, "let it be there while the program runs, or ask another place")
