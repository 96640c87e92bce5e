"""A command in a guest: its output and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from virtlab.agents import Data
from virtlab.agents.requests.leader import Exec
from virtlab.testbed.leader.control import Control

OUTPUT_MAX_BYTES = 64 << 20


@dataclass(slots=True)
class Command:
    """Runs `argv` in a namespace of a leader; what it writes is kept up to a bound."""

    control: Control
    channel: int
    namespace: str
    argv: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    leader: int = 0  # its channel
    cgroups: list[str] = field(default_factory=list)  # files by which it joins those of its guest
    confined: bool = False  # it shares the machine's files, and must not change them
    user: str | None = None  # that it runs as; None: the leader's own
    folder: str | None = None  # where it begins; None: where the leader is, or where it is confined to
    most_bytes: int = OUTPUT_MAX_BYTES  # of each stream that are kept
    own: Callable[[bytes], bytes] | None = None  # of its output, the part that is kept; None: all
    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)

    def start(self, terminal: tuple[int, int] | None = None) -> int:
        """Starts it; `terminal` is (rows, columns). The number of its process, as its leader sees it. Refused when it
        cannot be executed.
        """
        program = Exec(
            self.channel,
            self.namespace,
            self.argv,
            environment=self.environment,
            terminal={"rows": terminal[0], "columns": terminal[1]} if terminal is not None else None,
            cgroups=self.cgroups,
            confined=self.confined,
            user=self.user,
            folder=self.folder,
        )
        return self.control.call(program, channel=self.leader)["pid"]

    def take(self, data: Data) -> None:
        """Keeps what it wrote."""
        kept, content = (self.errors if data.stream == 2 else self.output), data.content
        if self.own is not None and data.stream != 2:
            content = self.own(content)
        kept += content[: max(0, self.most_bytes - len(kept))]
