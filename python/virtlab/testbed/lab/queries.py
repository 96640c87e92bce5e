"""A command inside a laboratory machine, run to its end for what it writes."""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.testbed.lab.vm import WHERE
from virtlab.testbed.leader import queries
from virtlab.testbed.leader.channels import ASKING
from virtlab.testbed.leader.control import Control


def output_of(control: Control, namespace: str, argv: Sequence[str]) -> str:
    """What a command of the world inside writes. MachineError with its errors when it fails."""
    return queries.output_of(control, WHERE, namespace, argv, channel=ASKING.first)
