"""A command inside a laboratory machine, run to its end for what it writes."""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.testbed import asking
from virtlab.testbed.channels import ASKING
from virtlab.testbed.control import Control
from virtlab.testbed.lab.vm import WHERE


def said(control: Control, namespace: str, argv: Sequence[str]) -> str:
    """What a command of the world inside writes. MachineError with its errors when it fails."""
    return asking.said(control, WHERE, namespace, argv, channel=ASKING.first)
