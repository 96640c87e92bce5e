"""A short command whose output is wanted, run by whichever leader: to learn what a guest is, before anything is
measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from virtlab.agents import Data
from virtlab.agents.requests.leader import Exec
from virtlab.errors import MachineError
from virtlab.testbed.leader.control import Control, outcome

TIMEOUT_S = 30.0
MOST_BYTES = 16 << 20  # of what is said; a guest may continue for ever
CURE_FAILED = "see whether that guest has the command, and what the command needs there"
CURE_LATE = "run it again on a machine that is less busy, or with fewer guests"


def output_of(
    control: Control,
    where: str,
    namespace: str,
    argv: Sequence[str],
    *,
    channel: int,
    leader: int = 0,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """What a command writes in a namespace of a leader, on a free channel. MachineError with its errors when it
    fails.
    """
    output, errors = bytearray(), bytearray()

    def hear(data: Data) -> None:
        kept = errors if data.stream == 2 else output
        kept.extend(data.content[: max(0, MOST_BYTES - len(kept))])

    control.listen(channel, hear)
    try:
        control.call(Exec(channel, namespace, argv), channel=leader)
        deadline = time.monotonic() + timeout_s
        while (how := control.ended(channel)) is None and time.monotonic() < deadline:
            control.await_news(0.1)
    finally:
        control.listen(channel, None)
        control.forget_end(channel)
    if outcome(how) != "code 0":
        why = errors.decode(errors="replace").strip() or how or f"nothing within {timeout_s:g} s"
        what = f"{' '.join(argv)[:80]} inside: {why}"
        raise MachineError(where, what, CURE_LATE if how is None else CURE_FAILED)
    return output.decode(errors="replace")
