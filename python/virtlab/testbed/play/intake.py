"""Which blocks of samples a trial takes: from whom, of what, and how much.

A block of a role's stream comes from one of the two ends of that role, while that end sends its samples, and has a
schema of the role's workload. Series come from the agent that samples. A block that arrived before is acknowledged
again and not kept twice. How many rows came of a role is compared with how many its end says that it sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from virtlab.agents import Block, decode_samples
from virtlab.agents.samples import Samples
from virtlab.catalogue import WORKLOADS
from virtlab.errors import AgentError
from virtlab.plan import Plan
from virtlab.testbed.play.probes import Side

SERIES = ("series", "series/1")
SENT = "sent/1"  # any sender keeps it if its role says so
MOST_BYTES = 2 << 30  # of one end of a role, or of the series of one agent: twice what a probe keeps
LEAST_BYTES = 1 << 10  # that a block counts, however little is in it


@dataclass(slots=True)
class Blocks:
    """The blocks that have arrived so far."""

    plan: Plan
    sides: Mapping[str, list[Side]]
    taken_bytes: int = 0
    _seen: dict[tuple[int, str], set[tuple[str, int]]] = field(default_factory=dict)  # channel, stream
    _rows: dict[tuple[int, str], dict[str, int]] = field(default_factory=dict)
    _bytes: dict[tuple[int, str], int] = field(default_factory=dict)

    def begin(self, side: Side) -> None:
        """An end of a role begins to send its samples, which it numbers from 0."""
        key = (side.channel, side.role)
        self._seen[key], self._rows[key], self._bytes[key] = set(), {}, 0

    def take(self, message: Block) -> tuple[Samples, bool]:
        """A block, and whether it is new. AgentError for a block that its sender must not send."""
        samples = decode_samples(message.body)
        key = (message.channel, samples.stream)
        role = self.plan.roles.get(samples.stream)
        if (samples.stream, samples.schema) == SERIES:
            self._seen.setdefault(key, set())
        elif key not in self._seen or role is None:
            raise AgentError(
                "agent protocol", f"it sends samples of '{samples.stream}', which were not requested"
            )
        elif samples.schema not in {*WORKLOADS[role.workload].streams, SENT}:
            raise AgentError(
                "agent protocol", f"it sends {samples.schema} of '{samples.stream}', which has none"
            )
        size = max(len(message.body), LEAST_BYTES)
        self.taken_bytes += size
        self._bytes[key] = self._bytes.get(key, 0) + size
        if self._bytes[key] > MOST_BYTES:
            raise AgentError("agent protocol", f"it sends over {MOST_BYTES >> 30} GiB of '{samples.stream}'")
        seen, number = self._seen[key], (samples.schema, samples.number)
        new = number not in seen
        if new:
            seen.add(number)
            rows = self._rows.setdefault(key, {})
            rows[samples.schema] = rows.get(samples.schema, 0) + samples.rows
        return samples, new

    def unlike(self, side: Side, reported: Mapping[str, int]) -> str | None:
        """How what came of an end of a role differs from what it says that it sent; None where it does not."""
        came = self._rows.get((side.channel, side.role), {})
        for schema in sorted({*came, *reported}):
            if came.get(schema, 0) != reported.get(schema, 0):
                return f"it sent {came.get(schema, 0)} rows of {schema}, and says {reported.get(schema, 0)}"
        return None
