"""A command inside a laboratory machine, run to its end for what it writes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from virtlab.agents import Data
from virtlab.errors import MachineError
from virtlab.testbed.control import Control
from virtlab.testbed.lab.vm import WHERE

COMMAND_CHANNEL = 20_000
TIMEOUT_S = 30.0


def said(control: Control, namespace: str, argv: Sequence[str]) -> str:
    """What a command of the world inside writes. MachineError with its errors when it fails."""
    output, errors = bytearray(), bytearray()

    def hear(data: Data) -> None:
        (errors if data.stream == 2 else output).extend(data.content)

    control.listen(COMMAND_CHANNEL, hear)
    try:
        control.call("exec", {"channel": COMMAND_CHANNEL, "namespace": namespace, "argv": list(argv)})
        deadline = time.monotonic() + TIMEOUT_S
        while (how := control.ended(COMMAND_CHANNEL)) is None and time.monotonic() < deadline:
            control.pump(0.1)
    finally:
        control.listen(COMMAND_CHANNEL, None)
        control.forget_end(COMMAND_CHANNEL)
    if how != "code 0":
        why = errors.decode(errors="replace").strip() or how or f"nothing within {TIMEOUT_S:g} s"
        raise MachineError(WHERE, f"{' '.join(argv)[:80]} inside: {why}")
    return output.decode(errors="replace")
